"""More than two runs: chronic failures and the matrix; and what cannot be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from memory.credit import POLICIES
from memory.models import Run
from memory.run_diff import RunDiffError, TooFewRuns, diff_runs, matrix_as_dict, run_matrix
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from memory.run_diff import RunDiff

pytestmark = pytest.mark.django_db

ADR = POLICIES["adr0019"]


def diff(a: Run, b: Run, **options: Any) -> RunDiff:
    """Compare under adr0019."""
    return diff_runs(a, b, policy=ADR, **options)


def grade(run: Run, rule_id: str, *outcomes: float | None, category: str = "ssh") -> list[Any]:
    """Attempts of *run* at a rule, one per outcome."""
    return [
        make_attempt(run=run, rule_id=rule_id, number=number, outcome=outcome, category=category)
        for number, outcome in enumerate(outcomes, start=1)
    ]


@pytest.fixture
def pair() -> tuple[Run, Run]:
    """Two runs, one after the other."""
    return make_run(external_id="a", status="done"), make_run(external_id="b", status="done")


# --- More than two runs ---------------------------------------------------------------------------


def test_chronic_failures_failed_in_every_run_up_to_b() -> None:
    runs = [make_run(external_id=f"r{number}") for number in range(4)]
    make_attempt(run=make_run(skill="cve"), rule_id="chronic", outcome=1.0)
    make_attempt(run=make_run(superseded_at=MOMENT), rule_id="chronic", outcome=1.0)
    tip = make_tip()
    for number, run in enumerate(runs):
        spent = grade(run, "chronic", *[0.0] * (number + 1), category="audit")
        grade(run, "solved_once", 1.0 if number == 1 else 0.0)
        grade(run, "ungraded_once", None if number == 2 else -0.2)
        make_retrieval(attempt=spent[0], tip=tip)
        make_retrieval(attempt=spent[0], shown=number > 0)
    grade(runs[3], "new", 0.0)
    found = diff(runs[0], runs[2], runs=3).chronic
    assert found.runs == ("r2", "r1", "r0")
    (rule,) = found.rules
    assert (rule.rule_id, rule.category, rule.attempts, rule.best) == ("chronic", "audit", 6, 0.0)
    assert (rule.shown, rule.tips) == (5, 3)
    assert [one.rule_id for one in diff(runs[0], runs[3], runs=2).chronic.rules] == [
        "chronic", "solved_once",
    ]  # fmt: skip


def test_one_run_alone_makes_nothing_chronic() -> None:
    b, a = make_run(external_id="early"), make_run(external_id="late")
    grade(b, "rule", 0.0)
    found = diff(a, b).chronic
    assert (found.runs, found.n, found.rules) == (("early",), 0, ())


def test_the_run_matrix_by_hand() -> None:
    runs = [make_run(external_id=f"r{number}") for number in range(3)]
    make_run(superseded_at=MOMENT)
    for number in range(8):
        grade(runs[0], f"rule_{number}", 0.0, 0.0)
        grade(runs[1], f"rule_{number}", 0.0, 0.5)
        grade(runs[2], f"rule_{number}", 0.0 if number == 7 else 1.0)
    grade(runs[2], "new", 1.0)
    found = matrix_as_dict(run_matrix("stig", last=3))
    assert [run["external_id"] for run in found["runs"]] == ["r0", "r1", "r2"]
    assert [run["success"]["hits"] for run in found["runs"]] == [0, 8, 8]
    cells = [
        (cell["wins"], cell["regressions"], cell["pairs"], cell["p"], cell["p_holm"])
        for cell in found["cells"]
    ]
    assert cells == [
        (8, 0, 8, 0.007812, 0.023438),
        (7, 0, 8, 0.015625, 0.03125),
        (0, 1, 8, 1.0, 1.0),
    ]
    assert [cell["stands_out"] for cell in found["cells"]] == [True, True, False]
    assert [run.external_id for run in run_matrix("stig", last=2).runs] == ["r1", "r2"]


def test_a_matrix_of_one_run_is_refused() -> None:
    make_run()
    with pytest.raises(TooFewRuns, match="has 1 run"):
        run_matrix("stig", last=5)


# --- What cannot be compared ----------------------------------------------------------------------


def test_runs_of_two_skills_are_refused(pair: tuple[Run, Run]) -> None:
    with pytest.raises(RunDiffError, match="of skill 'stig' and run 'c' of 'cve'"):
        diff(pair[0], make_run(external_id="c", skill="cve"))


def test_a_run_is_not_compared_with_itself(pair: tuple[Run, Run]) -> None:
    with pytest.raises(RunDiffError, match="are one run"):
        diff(pair[0], Run.objects.get(pk=pair[0].pk))


def test_an_unknown_rule_is_refused(pair: tuple[Run, Run]) -> None:
    grade(pair[0], "rule", 1.0)
    with pytest.raises(RunDiffError, match="neither run has a rule 'typo'"):
        diff(*pair, rule="typo")


def test_two_runs_without_an_attempt_are_too_few_pairs(pair: tuple[Run, Run]) -> None:
    found = diff(*pair).as_dict()
    assert found["outcomes"]["any_attempt"]["evidence"] == "too few pairs to tell"
    assert (found["rules"], found["chronic"]["n"]) == ([], 0)


def test_what_else_differs_is_noted() -> None:
    a = make_run(model="m1", status="done")
    b = make_run(model="m2", superseded_at=MOMENT, started_at=MOMENT)
    make_attempt(run=a, outcome_grader="stig@1")
    make_attempt(run=b, outcome_grader="stig@2")
    assert diff(a, b).notes == (
        "the model differs: m1 in A, m2 in B",
        "the grader differs: stig@1 in A, stig@2 in B",
        "B started before A: wins and losses read backwards in time",
        "B is ingested, not done: verdicts may still come",
        "B is revision 1, superseded: no credit counts it",
    )
