"""The evaluation: the bundled suite passes, a planted lie lowers its number, unlike runs are refused."""

from __future__ import annotations

import io
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from scoring.management.commands.eval_memos import COMMITTED
from scoring.memos.eval_data import EvalDataError, read_cases
from scoring.memos.eval_report import BaselineError, read_baseline, regressions
from scoring.memos.rubric import WEIGHTS
from tests.scoring.memos.evaluations import change, copied, evaluated, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMPOSITE = "composite"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A copy of the bundled cases, to be spoiled."""
    return copied(tmp_path)


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
    error = refused(tmp_path / "bad.json", cases=cases, no_baseline=True)
    assert error.returncode == 1
    assert "memos / a run's memo fails" in str(error)
    bad = json.loads((tmp_path / "bad.json").read_text())["rubric"]
    assert bad["means"][COMPOSITE] == pytest.approx(good[COMPOSITE] - 1 / bad["memos"], abs=1e-6)
    assert bad["means"]["sourcing"] < good["sourcing"]


def test_a_number_that_fell_is_a_regression() -> None:
    before = read_baseline(COMMITTED)
    now = json.loads(json.dumps(before))
    now["rubric"]["means"][COMPOSITE] = 0.94
    now["cases"][0]["passed"] = False
    first, second = regressions(now, before)
    assert first == "gate / figures as they stand fails"
    assert second == "rubric composite fell from 1.0 to 0.94"


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
    error = refused(tmp_path / "out.json", cases=cases, no_baseline=True)
    assert error.returncode == 1
    assert f"{suite} / " in str(error)


def test_another_snapshot_is_another_configuration(cases: Path, tmp_path: Path) -> None:
    path = cases / "category.json"
    path.write_text(path.read_text().replace('"sshd"', '"sshd 2"'), encoding="utf-8")
    error = refused(tmp_path / "out.json", cases=cases)
    assert error.returncode == 2
    assert "another configuration: snapshots" in str(error)


@pytest.mark.parametrize(
    "edit",
    [
        lambda found: found["gate"].pop(),
        lambda found: found["gate"].append(found["gate"][0] | {"name": "new"}),
        lambda found: found["gate"][0].update(text="Revenue came to $394.3 billion {Revenue}."),
        lambda found: found["scenarios"][0]["expect"].pop("calls"),
        plant_a_lie,
    ],
)
def test_other_cases_are_another_configuration(
    cases: Path, tmp_path: Path, edit: Callable[[dict[str, Any]], object]
) -> None:
    change(cases, edit)
    error = refused(tmp_path / "out.json", cases=cases)
    assert error.returncode == 2
    assert "another configuration: cases" in str(error)


def test_other_prompts_are_another_configuration(settings: Any, tmp_path: Path) -> None:
    shutil.copytree(settings.PROMPTS_DIR, tmp_path / "prompts")
    rules = tmp_path / "prompts" / "memo" / "rules.md"
    rules.write_text(rules.read_text() + "\nOne word more.\n", encoding="utf-8")
    settings.PROMPTS_DIR = tmp_path / "prompts"
    error = refused(tmp_path / "out.json")
    assert error.returncode == 2
    assert "another configuration: prompts" in str(error)


@pytest.mark.parametrize("name", ["gate", "writer", "cases", "prompts"])
def test_a_baseline_of_another_version_is_refused(name: str) -> None:
    before = read_baseline(COMMITTED)
    now = json.loads(json.dumps(before))
    now["config"][name] = "another"
    with pytest.raises(BaselineError, match=name):
        regressions(now, before)


def without(*path: str | int) -> Callable[[dict[str, Any]], None]:
    """Take one field out of a body."""

    def edit(found: Any) -> None:
        for step in path[:-1]:
            found = found[step]
        del found[path[-1]]

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        without("gate", 0, "expect"),
        without("gate", 0, "text"),
        without("gate", 0, "snapshot"),
        without("gate", 0, "name"),
        without("guards", 0, "impersonal"),
        without("guards", -1, "omits"),
        without("memos", 0, "text"),
        without("scenarios", 0, "replies"),
        without("scenarios", 0, "variant"),
        without("scenarios", 0, "expect"),
        without("scenarios", 0, "expect", "variant"),
        without("snapshots"),
        lambda found: found["gate"].append("no case"),
        lambda found: found["gate"][0].update(expect="wrong_value"),
        lambda found: found["gate"][0].update(expect=[["wrong_value"]]),
        lambda found: found["scenarios"][0].update(replies=[{"error": "Nobody"}]),
        lambda found: found["scenarios"][0].update(replies=[{}]),
        lambda found: found["scenarios"][0].update(replies=[{"draft": "text"}]),
        lambda found: found["scenarios"][0].update(replies=[{"audit": "perhaps"}]),
        lambda found: found["snapshots"].update(run=None),
        lambda found: found.update(memos=None),
    ],
)
def test_cases_with_a_field_missing_end_with_2(
    cases: Path, tmp_path: Path, edit: Callable[[dict[str, Any]], object]
) -> None:
    change(cases, edit)
    assert refused(tmp_path / "out.json", cases=cases).returncode == 2


def test_cases_that_are_no_text_end_with_2(cases: Path, tmp_path: Path) -> None:
    for raw in (b"\xff{}", b"[" * 100_000, b"[]", b"3"):
        (cases / "cases.json").write_bytes(raw)
        assert refused(tmp_path / "out.json", cases=cases).returncode == 2


@pytest.mark.parametrize(
    "edit",
    [
        without("config"),
        without("rubric"),
        without("rubric", "means"),
        without("cases"),
        lambda found: found["rubric"]["means"].update(composite="1.0"),
        lambda found: found.update(live={}),
        lambda found: found.update(live={"arms": {"single": {}, "debate": {}}}),
    ],
)
def test_a_baseline_with_a_field_missing_ends_with_2(
    tmp_path: Path, edit: Callable[[dict[str, Any]], object]
) -> None:
    found = json.loads(COMMITTED.read_text(encoding="utf-8"))
    edit(found)
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    assert refused(tmp_path / "out.json", baseline=path).returncode == 2


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
        call_command(
            "eval_memos", cases=cases, out=tmp_path / "out.json", no_baseline=True, stdout=shown
        )
    assert "fails: memos / a run's memo" in shown.getvalue()
    assert "composite 0.9" in shown.getvalue()
