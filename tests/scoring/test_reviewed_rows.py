"""`calibrate_judge --against human`: one judge at a time, by the bytes of its prompt."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.conf import settings as ours
from django.core.management import CommandError, call_command

from memory.models import Retrieval
from scoring.calibrated import standing
from scoring.judge.prompt import PromptLibrary
from scoring.models import Calibration, Judgement
from tests.factories import make_attempt, make_retrieval, make_run

pytestmark = pytest.mark.django_db

SHA = PromptLibrary(ours.PROMPTS_DIR).for_skill("stig").sha256
OLD = "0dd" + "1" * 61
JUDGE = f"judge-7b@{SHA}"


def run(*args: Any) -> str:
    out = StringIO()
    call_command("calibrate_judge", "--against", "human", *args, stdout=out)
    return out.getvalue()


def report(*args: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("--json", *args))
    return found


def figures(found: dict[str, Any], signal: str) -> dict[str, Any]:
    by_name = {one["signal"]: one["kinds"][0] for one in found["signals"]}
    whole: dict[str, Any] = by_name[signal]
    return whole


def reviewed(n: int, *, judge_right: int, source: str = JUDGE, **fields: Any) -> list[Retrieval]:
    """*n* reviewed rows of as many rules, half of them followed; the judge erred on the last ones."""
    rows = []
    for number in range(n):
        answer = number % 2 == 0
        signals: dict[str, Any] = {"emb": 0.7 if answer else 0.65, "review": answer}
        if source:
            signals |= {"llm": answer is (number < judge_right), "llm_source": source}
        attempt = make_attempt(rule_id=f"rule{number}", run=make_run(**fields))
        rows.append(make_retrieval(attempt=attempt, **signals))
    return rows


def judgement(row: Retrieval, **fields: Any) -> None:
    model, _, sha = row.llm_source.rpartition("@")
    values: dict[str, Any] = {
        "requested_model": model,
        "prompt_sha256": sha,
        "followed": row.tip_followed_llm,
    }
    Judgement.objects.create(retrieval=row, **(values | fields))


def test_reviews_calibrate_the_judge_whose_verdicts_they_checked() -> None:
    for number, row in enumerate(reviewed(40, judge_right=36)):
        judgement(row, served_model="weights-1", system_fingerprint="fp", position=1 + number % 3)
    make_retrieval(llm=True)  # not reviewed
    found = report()
    assert figures(found, "judge")["accuracy"] | {"low": 0, "high": 0} == {
        "value": 0.9, "low": 0, "high": 0, "n": 40,
    }  # fmt: skip
    assert figures(found, "embedding")["tpr"]["value"] == 1.0
    assert figures(found, "embedding")["tnr"]["value"] == 0.0
    assert figures(found, "trace")["coverage"]["value"] == 0.0
    assert any("no random sample" in note for note in found["notes"])
    row = Calibration.objects.get(signal="judge")
    assert row.served == [{"model": "weights-1", "fingerprint": "fp", "decided": 40}]
    assert row.asked["mode"] == "per_attempt"
    names = [JUDGE, "judge-7b@another prompt", f"judge-8b@{SHA}"]
    assert standing(names).uncalibrated == set(names[1:])


def test_reviews_of_several_judges_are_not_mixed() -> None:
    reviewed(4, judge_right=4)
    reviewed(4, judge_right=4, source=f"other-9b@{SHA}")
    with pytest.raises(CommandError, match="2 judges"):
        run()
    found = report("--model", "other-9b")
    assert found["judge"]["model"] == "other-9b"
    assert found["labels"]["n"] == 4


def test_two_versions_of_a_prompt_are_told_apart() -> None:
    """Rows of an old prompt are left out, and measured where it is named by hash or by version."""
    for row in reviewed(6, judge_right=3, source=f"judge-7b@{OLD}"):
        judgement(row, prompt_skill="stig", prompt_version=7)
    for row in reviewed(8, judge_right=8):
        judgement(row, prompt_skill="stig", prompt_version=8)
    for args, sha, n, accuracy in (
        ((), SHA, 8, 1.0),
        (("--prompt", "stig"), SHA, 8, 1.0),
        (("--prompt", "stig@8"), SHA, 8, 1.0),
        (("--prompt", "stig@7"), OLD, 6, 0.5),
        (("--prompt", OLD), OLD, 6, 0.5),
        (("--prompt", OLD[:8], "--model", "judge-7b"), OLD, 6, 0.5),
    ):
        found = report(*args)
        assert found["judge"]["prompt_sha256"] == sha, args
        shown = figures(found, "judge")
        assert (shown["n"], shown["accuracy"]["value"]) == (n, accuracy), args


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        (None, f"no reviewed row was judged with the prompt in use; they were judged by judge-7b@{OLD}"),
        ("stig", "no reviewed row was judged with the prompt stig"),
        ("stig@9", "0 prompts of the reviewed rows are called stig@9"),
        ("fedcba", "0 prompts"),
        ("sitg", "'sitg' is no skill"),
    ],
)  # fmt: skip
def test_a_prompt_without_reviews_is_named_with_what_there_is(
    prompt: str | None, says: str
) -> None:
    reviewed(4, judge_right=4, source=f"judge-7b@{OLD}")
    with pytest.raises(CommandError, match=says) as refused:
        run(*(("--prompt", prompt) if prompt else ()))
    assert refused.value.returncode == 2
    assert figures(report("--signals", "embedding"), "embedding")["n"] == 4, "needs no judge"


def test_a_hash_that_two_prompts_begin_with_is_refused() -> None:
    for last in "12":
        reviewed(2, judge_right=2, source=f"judge-7b@{'0dd' + last * 61}")
    reviewed(2, judge_right=2, source=f"judge-7b@{'a' * 63}b")
    reviewed(2, judge_right=2, source=f"judge-7b@{'a' * 64}")
    with pytest.raises(CommandError, match="2 prompts of the reviewed rows are called aaaaaa"):
        run("--prompt", "aaaaaa")


def test_a_row_that_the_judge_was_never_asked_about_is_no_failure_of_it() -> None:
    """Three kinds of row without a label: not asked, asked and failed, of a skill it never judged."""
    reviewed(10, judge_right=10)
    reviewed(4, judge_right=0, source="")
    (failed,) = reviewed(1, judge_right=0, source="")
    Judgement.objects.create(
        retrieval=failed, requested_model="judge-7b", prompt_sha256=SHA, reason="judge_error"
    )
    reviewed(3, judge_right=0, source="", skill="cve")
    found = report()
    judge, embedding = figures(found, "judge"), figures(found, "embedding")
    assert (judge["n"], embedding["n"], found["labels"]["n"]) == (11, 15, 15)
    assert judge["failed"]["value"] == pytest.approx(1 / 11, abs=1e-5)
    assert any("4 reviewed rows that it was never asked about" in note for note in found["notes"])


def test_without_any_verdict_the_other_signals_are_measured() -> None:
    reviewed(4, judge_right=0, source="")
    found = report()
    assert [one["signal"] for one in found["signals"]] == ["trace", "embedding"]
    assert any("judge: left out, no reviewed row" in note for note in found["notes"])
    assert set(Calibration.objects.values_list("signal", flat=True)) == {"embedding"}


def test_reviews_of_a_judge_below_a_billion_are_refused() -> None:
    reviewed(4, judge_right=4, source=f"judge-135M@{SHA}")
    with pytest.raises(CommandError, match="below 1B"):
        run()


def test_no_review_is_an_error_that_says_what_to_do() -> None:
    make_retrieval(llm=True)
    with pytest.raises(CommandError, match="review some"):
        run()
    assert Retrieval.objects.count() == 1
