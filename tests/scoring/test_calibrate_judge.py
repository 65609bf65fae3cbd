"""`calibrate_judge`: figures of every signal on the same labels, stored with what they are about."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from memory.models import Retrieval
from scoring.calibrated import MIN_DECIDED, is_calibrated, source_is_calibrated, store
from scoring.calibrating import Judge, calibrate, gather_pairs
from scoring.calibration import Scored, measure
from scoring.following_model import coefficients_from
from scoring.labelled_pairs import read_pairs
from scoring.model_size import ModelTooSmall
from scoring.models import Calibration
from tests.factories import make_attempt, make_retrieval

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scoring.labelled_pairs import LabelledPair


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """48 pairs of 12 rules: install the package, or not; the trace errs on none of them."""
    rows = []
    for number in range(12):
        for followed, script in (
            (True, f"dnf -y install pkg{number}"),
            (True, f"#!/bin/bash\ndnf install pkg{number}"),
            (False, f"dnf -y remove pkg{number}"),
            (False, "systemctl restart sshd"),
        ):
            rows.append(
                {
                    "tip": f"Install it with `dnf install pkg{number}`.",
                    "script": script,
                    "followed": followed,
                    "kind": "opposite" if "remove" in script else "plain",
                    "rule_id": f"rule{number}",
                }
            )
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(*args: Any, **options: Any) -> str:
    out = StringIO()
    call_command("calibrate_judge", *args, stdout=out, **options)
    return out.getvalue()


@pytest.mark.django_db
def test_it_measures_every_kind_and_stores_a_row_per_signal(pairs: Path, tmp_path: Path) -> None:
    report = json.loads(
        run("--pairs", str(pairs), "--signals", "trace,judge,combined", "--json",
            "--out", str(tmp_path / "out"))
    )  # fmt: skip
    trace, combined = report["signals"]
    assert [kind["kind"] for kind in trace["kinds"]] == ["all", "opposite", "plain"]
    assert (trace["kinds"][0]["n"], trace["kinds"][0]["rules"]) == (48, 12)
    assert trace["kinds"][0]["tnr"]["value"] == 1.0
    assert combined["kinds"][0]["accuracy"]["value"] == 1.0
    assert any("judge: left out" in note for note in report["notes"])
    assert json.loads((tmp_path / "out" / "calibration.json").read_text()) == report
    assert "opposite" in (tmp_path / "out" / "calibration.md").read_text()
    stored = {row.signal: row for row in Calibration.objects.all()}
    assert set(stored) == {"trace", "combined"}
    assert stored["trace"].pairs_sha256 == read_pairs(pairs).sha256
    assert stored["trace"].coefficients is None
    fitted = coefficients_from(stored["combined"].coefficients)
    assert stored["combined"].version == fitted.version == report["attribution"]["version"]


@pytest.mark.django_db
def test_the_markdown_shows_intervals_and_n_and_hides_no_hostile_kind(pairs: Path) -> None:
    hostile = {"tip": "x", "script": "y", "followed": True, "kind": "a|b\x1b[2J<script>"}
    with pairs.open("a") as file:
        file.write(json.dumps(hostile) + "\n")
    text = run("--pairs", str(pairs), "--signals", "trace")
    assert "a\\|b\\\\x1b[2J\\<script>" in text
    assert "\x1b" not in text
    assert "| TNR (not followed found) | 1.00 [" in text
    assert "n=24" in text


@pytest.mark.django_db
def test_a_judge_is_measured_with_its_silences_and_its_failures(pairs: Path) -> None:
    steps: list[int] = []

    def ask(asked: Sequence[LabelledPair]) -> list[str | None]:
        answers = {"remove": "contradicted", "install": "followed", "restart": "unclear"}
        said = [next(a for word, a in answers.items() if word in p.script) for p in asked]
        return [
            None if p.tip.endswith("pkg0`.") else label
            for p, label in zip(asked, said, strict=True)
        ]

    names = ("trace", "judge", "combined")
    gathered = gather_pairs(
        read_pairs(pairs), names, judge=Judge(model="judge-7b", prompt_sha256="f" * 64),
        ask=ask, advance=steps.append,
    )  # fmt: skip
    found = calibrate(gathered, names, resamples=0)
    judge = found.reports[1].overall.figures
    assert (judge["accuracy"].value, judge["accuracy"].n) == (1.0, 33)
    assert judge["failed"].value == pytest.approx(4 / 48)
    assert judge["abstained"].value == pytest.approx(11 / 48)
    assert judge["ece"].value is None
    assert found.fitted is not None
    assert "judge_followed" not in found.fitted.coefficients.hand_set
    assert sum(steps) == 48


@pytest.mark.django_db
def test_answers_that_do_not_fit_the_questions_are_refused(pairs: Path) -> None:
    judge = Judge(model="judge-7b", prompt_sha256="0")
    with pytest.raises(ValueError, match="asked about 32 pairs, got 0"):
        gather_pairs(read_pairs(pairs), ("judge",), judge=judge, ask=lambda _: [])


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["--model", "setting"])
def test_a_model_below_a_billion_is_refused_before_it_is_asked(
    pairs: Path, settings: Any, how: str
) -> None:
    settings.JUDGE_BASE_URL = "http://127.0.0.1:9"
    settings.JUDGE_MODEL = "judge-7b" if how == "--model" else "Qwen2.5-0.5B-Instruct"
    named = ("--model", "SmolLM2-135M") if how == "--model" else ()
    with pytest.raises(CommandError, match="below 1B") as refused:
        run("--pairs", str(pairs), *named)
    assert refused.value.returncode == 2
    assert not Calibration.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "args", [(), ("--pairs", "x", "--against", "human"), ("--pairs", "/absent")]
)
def test_bad_input_has_its_own_exit_code(args: tuple[str, ...]) -> None:
    with pytest.raises(CommandError) as refused:
        run(*args)
    assert refused.value.returncode == 2


def test_an_unknown_signal_is_refused(pairs: Path) -> None:
    with pytest.raises(CommandError, match="--signals"):
        run("--pairs", str(pairs), "--signals", "trace,moon")


# --- Against reviews ------------------------------------------------------------------------------


def reviewed(n: int, *, judge_right: int, source: str = "judge-7b@abc") -> None:
    """*n* reviewed rows of as many rules, half of them followed; the judge erred on the last ones."""
    for number in range(n):
        answer = number % 2 == 0
        make_retrieval(
            attempt=make_attempt(rule_id=f"rule{number}"),
            review=answer,
            llm=answer is (number < judge_right),
            emb=0.7 if answer else 0.65,
            llm_source=source,
        )


@pytest.mark.django_db
def test_reviews_calibrate_the_judge_whose_verdicts_they_checked() -> None:
    reviewed(40, judge_right=36)
    make_retrieval(llm=True)  # not reviewed
    report = json.loads(run("--against", "human", "--json"))
    by_name = {signal["signal"]: signal["kinds"][0] for signal in report["signals"]}
    assert by_name["judge"]["accuracy"] | {"low": 0, "high": 0} == {
        "value": 0.9, "low": 0, "high": 0, "n": 40,
    }  # fmt: skip
    assert by_name["embedding"]["tpr"]["value"] == 1.0
    assert by_name["embedding"]["tnr"]["value"] == 0.0
    assert by_name["trace"]["coverage"]["value"] == 0.0
    assert any("no random sample" in note for note in report["notes"])
    assert is_calibrated("judge-7b", "abc")
    assert source_is_calibrated("judge-7b@abc")
    assert not is_calibrated("judge-7b", "another prompt")
    assert not is_calibrated("judge-8b", "abc")


@pytest.mark.django_db
def test_reviews_of_several_judges_are_not_mixed() -> None:
    reviewed(4, judge_right=4)
    reviewed(4, judge_right=4, source="other-9b@abc")
    with pytest.raises(CommandError, match="2 judges"):
        run("--against", "human")
    report = json.loads(run("--against", "human", "--model", "other-9b", "--json"))
    assert report["judge"]["model"] == "other-9b"
    assert report["labels"]["n"] == 4


@pytest.mark.django_db
def test_reviews_of_a_judge_below_a_billion_are_refused() -> None:
    reviewed(4, judge_right=4, source="judge-135M@abc")
    with pytest.raises(CommandError, match="below 1B"):
        run("--against", "human")


@pytest.mark.django_db
def test_no_review_is_an_error_that_says_what_to_do() -> None:
    make_retrieval(llm=True)
    with pytest.raises(CommandError, match="review some"):
        run("--against", "human")
    assert Retrieval.objects.count() == 1


# --- Calibrated? ----------------------------------------------------------------------------------


class Plain:
    kind, rule = "k", "r"

    def __init__(self, *, followed: bool) -> None:
        self.followed = followed


@pytest.mark.django_db
def test_few_answers_or_a_small_model_do_not_count_as_calibrated() -> None:
    assert not is_calibrated("judge-7b", "abc")
    facts = {"version": "1", "labels": "pairs", "pairs_sha256": "0"}
    for n in (MIN_DECIDED - 1, MIN_DECIDED):
        pairs = [Plain(followed=True)] * (n + 5)
        answers = [Scored(score=1.0, followed=True)] * n + [Scored(score=None, followed=None)] * 5
        report = measure("judge", pairs, answers, graded=False, resamples=0)
        with pytest.raises(ModelTooSmall):
            store(report, model="judge-0.5b", prompt_sha256="abc", **facts)
        row = store(report, model="judge-7b", prompt_sha256="abc", **facts)
        assert (row.n, row.decided) == (n + 5, n)
        assert is_calibrated("judge-7b", "abc") is (n == MIN_DECIDED)
    Calibration.objects.update(model="judge-0.5b")
    assert not is_calibrated("judge-0.5b", "abc")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("calibration_judge_is_named", {"signal": "judge"}),
        ("calibration_decided_of_n", {"signal": "trace", "decided": 2}),
    ],
)
def test_the_database_refuses_a_calibration_of_nothing(rule: str, wrong: dict[str, Any]) -> None:
    values = {
        "version": "1",
        "labels": "pairs",
        "pairs_sha256": "0",
        "n": 1,
        "decided": 1,
        "report": {},
    }
    with pytest.raises(IntegrityError, match=rule), transaction.atomic():
        Calibration.objects.create(**(values | wrong))
