"""The live evaluation: both arms on the same facts, errors that are no grades, like runs compared."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command

from scoring.management.commands.eval_memos import COMMITTED
from scoring.memos.eval_data import read_cases
from scoring.memos.eval_live import ARMS, MEASURES, LiveCase, arms_of, lift_of
from scoring.memos.eval_report import BaselineError, read_baseline, regressions
from scoring.memos.eval_shape import SUITES
from tests.scoring.judge.bench_rows import use_judge
from tests.scoring.memos.evaluations import change, copied, evaluated, refused
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from pathlib import Path

COMPOSITE = "composite"


@pytest.mark.django_db
def test_both_arms_are_written_and_judged_on_the_same_snapshots(
    settings: Any, tmp_path: Path
) -> None:
    with JudgeServer() as model:
        use_judge(settings, model)
        shown = io.StringIO()
        call_command("eval_memos", live=True, out=tmp_path / "out.json", stdout=shown)
        asked = model.counters()["questions"]
    report = json.loads((tmp_path / "out.json").read_text())
    arms, lift = report["live"]["arms"], report["live"]["lift"]
    count = len(read_cases().snapshots)
    for arm in ARMS:
        assert (arms[arm]["memos"], arms[arm]["errors"], arms[arm]["own"]) == (count, 0, 1)
        assert arms[arm]["means"]["faithfulness"] == 1
    assert asked == count * (1 + 1 + 3 + 1)
    assert arms["debate"]["writing_tokens"] > arms["single"]["writing_tokens"]
    assert set(lift) == set(MEASURES)
    assert lift[COMPOSITE] == {"mean": 0, "low": 0, "high": 0, "snapshots": count}
    assert report["config"]["live"]["model"] == "stand-in-judge"
    assert "debate less single" in shown.getvalue()


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Two snapshots, and nothing else: a live run of a few calls."""

    def thin(found: dict[str, Any]) -> None:
        found["snapshots"] = {"category": "category", "tip_earning": "tip"}
        found.update({suite: [] for suite in SUITES})

    cases = copied(tmp_path)
    change(cases, thin)
    return cases


@pytest.mark.django_db
def test_a_memo_that_the_writer_had_to_write_counts_nothing(
    settings: Any, tmp_path: Path, few: Path
) -> None:
    with JudgeServer() as model:
        use_judge(settings, model)
        good = tmp_path / "good.json"
        evaluated(good, live=True, cases=few, no_baseline=True)
        evaluated(tmp_path / "same.json", live=True, cases=few, baseline=good)
        model.control(memo="one_sided")
        error = refused(tmp_path / "worse.json", live=True, cases=few, baseline=good)
        other = refused(tmp_path / "other.json", live=True, cases=few, baseline=good, repeats=2)
    assert error.returncode == 1
    assert "debate: composite fell from 1.0 to 0.0" in str(error)
    report = json.loads((tmp_path / "worse.json").read_text())["live"]
    assert (report["arms"]["single"]["own"], report["arms"]["debate"]["own"]) == (1, 0)
    assert report["lift"][COMPOSITE]["mean"] == -1
    assert other.returncode == 2
    assert "another configuration: live" in str(other)


@pytest.mark.django_db
def test_a_judge_that_cannot_be_read_is_an_error_and_no_grade(
    settings: Any, tmp_path: Path, few: Path
) -> None:
    with JudgeServer() as model:
        use_judge(settings, model)
        model.control(memo="skips")
        report = evaluated(tmp_path / "out.json", live=True, cases=few, no_baseline=True)
    arms = report["live"]["arms"]
    assert arms["single"]["errors"] == arms["single"]["memos"]
    assert arms["single"]["means"][COMPOSITE] is None
    assert report["live"]["lift"][COMPOSITE]["snapshots"] == 0


@pytest.mark.django_db
def test_a_server_that_is_away_is_an_error_and_no_grade(
    settings: Any, tmp_path: Path, few: Path
) -> None:
    with JudgeServer(fault="503") as model:
        use_judge(settings, model)
        report = evaluated(tmp_path / "out.json", live=True, cases=few, no_baseline=True)
    for arm in report["live"]["arms"].values():
        assert (arm["errors"], arm["graded"], arm["own"]) == (2, 0, None)
        assert arm["means"][COMPOSITE] is None


def test_live_without_a_model_is_refused(settings: Any, tmp_path: Path) -> None:
    settings.JUDGE_BASE_URL = settings.JUDGE_MODEL = ""
    error = refused(tmp_path / "out.json", live=True)
    assert error.returncode == 2
    assert "JUDGE_BASE_URL" in str(error)


def test_live_figures_of_a_tiny_model_are_refused(settings: Any, tmp_path: Path) -> None:
    settings.JUDGE_BASE_URL, settings.JUDGE_MODEL = "http://127.0.0.1:9/v1", "tiny-135M"
    assert refused(tmp_path / "out.json", live=True).returncode == 2


def case(snapshot: str, arm: str, composite: float | None, repeat: int = 0) -> LiveCase:
    grades = {} if composite is None else dict.fromkeys(MEASURES, composite)
    return LiveCase(snapshot, arm, repeat, own=True, accepted=True, reason="", grades=grades)


def test_a_lift_is_of_pairs_and_has_its_interval() -> None:
    single = [case(f"s{n}", "single", 0.5) for n in range(6)]
    debate = [case(f"s{n}", "debate", 0.5 + n / 100) for n in range(6)]
    lift = lift_of([*single, *debate])[COMPOSITE]
    assert lift["mean"] == pytest.approx(0.025)
    assert 0 < lift["low"] < 0.025 < lift["high"] < 0.05
    assert lift == lift_of([*debate, *single])[COMPOSITE]


def test_a_pair_with_an_error_is_left_out_and_few_pairs_have_no_interval() -> None:
    found = [
        case("a", "single", 0.5),
        case("a", "debate", None),
        case("b", "single", 0.5),
        case("b", "debate", 1),
    ]
    assert lift_of(found)[COMPOSITE] == {"mean": 0.5, "low": None, "high": None, "snapshots": 1}
    assert arms_of(found)["debate"]["errors"] == 1


def away(snapshot: str, arm: str) -> LiveCase:
    """What a server that is away leaves: the writer's text, no grade, no tokens."""
    return LiveCase(
        snapshot, arm, 0, own=False, accepted=False, reason="synthesis: JudgeUnreachable", calls=1,
        tokens_in=None, tokens_out=None, seconds=30.0,
    )  # fmt: skip


def test_a_server_that_was_away_for_some_memos_is_no_regression() -> None:
    whole = [case(name, arm, 1.0) for name in "abcd" for arm in ARMS]
    found = [*whole[2:], away("a", "single"), away("a", "debate")]
    before = read_baseline(COMMITTED) | {"live": {"arms": arms_of(whole)}}
    now = before | {"live": {"arms": arms_of(found)}}
    assert now["live"]["arms"]["debate"]["errors"] == 1
    assert regressions(now, before) == []
    nothing = before | {"live": {"arms": arms_of([away("a", arm) for arm in ARMS])}}
    for one, other in ((nothing, before), (before, nothing)):
        with pytest.raises(BaselineError, match="nothing to compare"):
            regressions(one, other)
