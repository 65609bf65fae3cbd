"""The evaluation: the bundled suite passes, a planted lie lowers its number, unlike runs are refused."""

from __future__ import annotations

import io
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from scoring.management.commands.eval_memos import COMMITTED
from scoring.memos.eval_data import BUNDLED, SUITES, EvalDataError, read_cases
from scoring.memos.eval_live import ARMS, MEASURES, LiveCase, arms_of, lift_of
from scoring.memos.eval_report import BaselineError, read_baseline, regressions
from scoring.memos.rubric import WEIGHTS
from tests.scoring.judge.bench_rows import use_judge
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMPOSITE = "composite"


def evaluated(out: Path, **options: Any) -> dict[str, Any]:
    """Run the command; the report that it kept."""
    call_command("eval_memos", out=out, stdout=io.StringIO(), **options)
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def refused(out: Path, **options: Any) -> CommandError:
    with pytest.raises(CommandError) as caught:
        evaluated(out, **options)
    return caught.value


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A copy of the bundled cases, to be spoiled."""
    shutil.copytree(BUNDLED, tmp_path / "cases")
    return tmp_path / "cases"


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "cases.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    edit(found)
    path.write_text(json.dumps(found), encoding="utf-8")


def plant_a_lie(found: dict[str, Any]) -> None:
    memo = found["memos"][0]
    assert "18 successful attempts" in memo["text"]
    memo["text"] = memo["text"].replace("18 successful attempts", "19 successful attempts")


def test_the_bundled_suite_is_as_good_as_its_baseline(tmp_path: Path) -> None:
    report = evaluated(tmp_path / "now.json")
    assert all(suite["passed"] == suite["cases"] for suite in report["suites"].values())
    assert report["rubric"]["means"][COMPOSITE] == 1
    assert report["live"] is None and report["config"]["live"] is None
    assert regressions(report, read_baseline(COMMITTED)) == []


def test_the_suite_holds_what_it_is_to_hold() -> None:
    data = read_cases()
    assert len(data.cases["gate"]) >= 48
    expected = [bool(case["expect"]) for case in data.cases["gate"]]
    assert min(expected.count(True), expected.count(False)) >= 19
    assert {item.product for item in data.snapshots.values()} == {
        "run",
        "tip",
        "category",
        "external",
    }


def test_a_planted_lie_lowers_the_number_and_ends_with_1(cases: Path, tmp_path: Path) -> None:
    good = evaluated(tmp_path / "good.json", cases=cases)["rubric"]["means"]
    change(cases, plant_a_lie)
    error = refused(tmp_path / "bad.json", cases=cases)
    assert error.returncode == 1
    assert "rubric composite fell" in str(error)
    assert "memos / a run's memo fails" in str(error)
    bad = json.loads((tmp_path / "bad.json").read_text())["rubric"]
    assert bad["means"][COMPOSITE] == pytest.approx(good[COMPOSITE] - 1 / bad["memos"], abs=1e-6)
    assert bad["means"]["sourcing"] < good["sourcing"]


@pytest.mark.parametrize(
    ("suite", "edit"),
    [
        ("gate", lambda found: found["gate"][0].update(expect=["wrong_value"])),
        ("gate", lambda found: found["gate"][-3].update(expect=[])),
        ("guards", lambda found: found["guards"][0].update(impersonal=["advises"])),
        ("guards", lambda found: found["guards"][-1].update(omits=["Revenue"])),
        (
            "memos",
            lambda found: found["memos"][0].update(text="There were 120 retrievals {retrievals}."),
        ),
        ("scenarios", lambda found: found["scenarios"][0]["expect"].update(calls=2)),
        ("scenarios", lambda found: found["scenarios"][2]["expect"].update(reason="judge")),
        ("scenarios", lambda found: found["scenarios"][12]["expect"].update(accepted=False)),
        ("scenarios", lambda found: found["scenarios"][0]["replies"].append({"raw": ""})),
    ],
)
def test_a_case_that_expects_something_else_fails(
    cases: Path, tmp_path: Path, suite: str, edit: Callable[[dict[str, Any]], object]
) -> None:
    change(cases, edit)
    error = refused(tmp_path / "out.json", cases=cases)
    assert error.returncode == 1
    assert f"{suite} / " in str(error)


def test_another_snapshot_is_another_configuration(cases: Path, tmp_path: Path) -> None:
    path = cases / "category.json"
    path.write_text(path.read_text().replace('"sshd"', '"sshd 2"'), encoding="utf-8")
    error = refused(tmp_path / "out.json", cases=cases)
    assert error.returncode == 2
    assert "another configuration: snapshots" in str(error)


def test_a_suite_that_lost_a_case_is_not_compared(cases: Path, tmp_path: Path) -> None:
    change(cases, lambda found: found["gate"].pop())
    error = refused(tmp_path / "out.json", cases=cases)
    assert error.returncode == 2
    assert "1 case(s) of the baseline are gone" in str(error)


def test_a_new_case_is_no_regression_unless_it_fails(cases: Path, tmp_path: Path) -> None:
    new = {
        "name": "new",
        "snapshot": "run",
        "text": "There were 27 attempts {attempts}.",
        "expect": [],
    }
    change(cases, lambda found: found["gate"].append(new))
    evaluated(tmp_path / "out.json", cases=cases)
    change(cases, lambda found: found["gate"][-1].update(expect=["swapped"]))
    assert refused(tmp_path / "out.json", cases=cases).returncode == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 99}'])
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text, encoding="utf-8")
    assert refused(tmp_path / "out.json", baseline=path).returncode == 2


def test_a_missing_baseline_is_no_success(tmp_path: Path) -> None:
    error = refused(tmp_path / "out.json", baseline=tmp_path / "nowhere.json")
    assert error.returncode == 2
    assert "nowhere.json" in str(error)


def test_without_a_baseline_a_failing_case_still_counts(cases: Path, tmp_path: Path) -> None:
    evaluated(tmp_path / "out.json", cases=cases, no_baseline=True)
    change(cases, plant_a_lie)
    assert refused(tmp_path / "out.json", cases=cases, no_baseline=True).returncode == 1


def test_other_weights_are_another_configuration() -> None:
    before = read_baseline(COMMITTED)
    now = json.loads(json.dumps(before))
    now["config"]["weights"][str(next(iter(WEIGHTS)))] = "0.99"
    with pytest.raises(BaselineError, match="weights"):
        regressions(now, before)


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (lambda folder: (folder / "cases.json").unlink(), "No such file"),
        (lambda folder: (folder / "cases.json").write_text("{"), "does not fit"),
        (lambda folder: (folder / "cases.json").write_text('{"version": 9}'), "version 9"),
        (lambda folder: (folder / "run.json").unlink(), "does not fit"),
        (lambda folder: change(folder, lambda found: found.pop("guards")), "guards"),
        (
            lambda folder: change(
                folder, lambda found: found["memos"][0].update(snapshot="nobody")
            ),
            "no such snapshot",
        ),
        (
            lambda folder: change(folder, lambda found: found["memos"][0].update(text="{nothing}")),
            "is called 'nothing'",
        ),
        (
            lambda folder: change(folder, lambda found: found["gate"][1].update(found["gate"][0])),
            "a name of its own",
        ),
    ],
)
def test_cases_that_do_not_fit_are_refused(
    cases: Path, spoil: Callable[[Path], object], cause: str
) -> None:
    spoil(cases)
    with pytest.raises(EvalDataError, match=cause):
        read_cases(cases)


def test_reports_are_kept_one_file_each(settings: Any, tmp_path: Path) -> None:
    settings.STATE_DIR = tmp_path
    for _ in range(2):
        call_command("eval_memos", stdout=io.StringIO())
    assert len(list((tmp_path / "memo_evals").glob("*.json"))) == 2


def test_the_table_names_what_fails(cases: Path, tmp_path: Path) -> None:
    change(cases, plant_a_lie)
    shown = io.StringIO()
    with pytest.raises(CommandError):
        call_command("eval_memos", cases=cases, out=tmp_path / "out.json", stdout=shown)
    assert "fails: memos / a run's memo" in shown.getvalue()
    assert "composite 0.9" in shown.getvalue()


# --- Live -------------------------------------------------------------------------------------------


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
def few(cases: Path) -> Path:
    """Two snapshots, and nothing else: a live run of a few calls."""

    def thin(found: dict[str, Any]) -> None:
        found["snapshots"] = {"category": "category", "tip_earning": "tip"}
        found.update({suite: [] for suite in SUITES})

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
        assert (arm["errors"], arm["graded"], arm["own"]) == (2, 0, 0)
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
