"""No verdict of a model below a billion parameters is shown as a quality figure, whichever report.

The audit's agreement is tested with the audit, `calibrate_judge` with itself. Shaped by figures that
somebody quoted from a test model that had answered at random.
"""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from scoring.models import Judgement
from tests.factories import make_attempt, make_retrieval, make_run
from tests.scoring.test_labelled_pairs import row

if TYPE_CHECKING:
    from pathlib import Path

    from memory.models import Retrieval

SMALL = "SmolLM2-135M-Instruct"


def printed(*argv: Any) -> str:
    out = StringIO()
    call_command(*argv, stdout=out)
    return out.getvalue()


# --- agreement_report -----------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("model", [SMALL, "Qwen2.5-0.5B", "tiny-random-llama"])
def test_agreement_report_shows_no_rate_of_a_small_judge(model: str) -> None:
    for number in range(8):
        make_retrieval(llm=True, emb=0.1 + 0.8 * (number % 2), llm_source=f"{model}@0")
    found = json.loads(printed("agreement_report", "--json"))
    assert found["rows_of_too_small_judges"] == 8
    assert found["criterion"] == {"emb": "unknown", "trace": "unknown"}
    assert {group["agreement"]["n"] for group in found["agreement"]} == {0}
    assert found["cost_of_dropping_the_judge"] == []
    text = printed("agreement_report")
    assert "8 rows left out: judged by a model below one billion parameters" in text
    assert "/8" not in text


# --- eval_follow ----------------------------------------------------------------------------------


def test_eval_follow_measures_no_judge_whatever_the_file_and_the_settings_say(
    tmp_path: Path, settings: Any
) -> None:
    settings.JUDGE_BASE_URL, settings.JUDGE_MODEL = "http://127.0.0.1:9/v1", SMALL
    path = tmp_path / "pairs.jsonl"
    said = json.loads(row()) | {"judge": "followed", "llm_label": "followed", "model": SMALL}
    path.write_text(f"{json.dumps(said)}\n", encoding="utf-8")
    for form in ((), ("--json",)):
        text = printed("eval_follow", path, "--signal", "trace", *form)
        assert SMALL not in text
        assert "judge" not in text
    assert set(json.loads(text)["signals"]) == {"trace"}
    with pytest.raises(CommandError, match="invalid choice: 'judge'"):
        call_command("eval_follow", str(path), "--signal=judge")


# --- judge_report ---------------------------------------------------------------------------------


def judgement(of: Retrieval, model: str, label: str, **fields: Any) -> Judgement:
    values = {"followed": label == "followed", "prompt_sha256": "0" * 64}
    return Judgement.objects.create(
        retrieval=of, requested_model=model, label=label, **(values | fields)
    )


@pytest.mark.django_db
def test_judge_report_counts_small_judges_and_compares_none_of_them() -> None:
    attempt = make_attempt(run=make_run())
    for first, second in ((SMALL, "big-70b"), ("judge-7b", "tiny-random"), ("judge-7b", "big-70b")):
        retrieval = make_retrieval(attempt=attempt)
        weak = judgement(retrieval, first, "not_followed")
        judgement(retrieval, second, "followed", tier="high_stakes", supersedes=weak)
    found = json.loads(printed("judge_report", "--json"))
    assert found["escalated"] == 3
    assert (found["superseded_with_other_label"], found["not_compared"]) == (1, 2)
    in_figures = {one["source"].split("@")[0]: one["in_figures"] for one in found["sources"]}
    assert in_figures == {SMALL: False, "big-70b": True, "judge-7b": True, "tiny-random": False}


@pytest.mark.django_db
def test_judge_report_says_of_a_small_judge_that_no_figure_counts_it() -> None:
    judgement(make_retrieval(), SMALL, "followed")
    line = f"verdicts of {SMALL}@{'0' * 64}: 1; uncalibrated; below one billion parameters: in no figure"
    assert line in " ".join(printed("judge_report").split())
