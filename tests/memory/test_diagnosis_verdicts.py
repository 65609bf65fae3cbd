"""What is diagnosed: verdicts from runs that are made to show a disease, or none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from memory.credit import POLICIES
from memory.diagnosis import (
    Criterion,
    Role,
    State,
    Verdict,
    diagnose,
    verdict_on,
)
from memory.diagnosis_rates import (
    Arms,
)
from memory.rates import Rate
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from memory.diagnosis import Diagnosis
    from memory.models import Run, Tip

ADR = POLICIES["adr0019"]
NONE = Rate(0, 0)


def old(hits: int, n: int) -> Arms:
    """A cell on the side of the long history."""
    return Arms(old=Rate(hits, n), young=NONE)


def young(hits: int, n: int) -> Arms:
    """A cell on the side of the fresh history."""
    return Arms(old=NONE, young=Rate(hits, n))


# --- Verdicts -------------------------------------------------------------------------------------


def criterion(role: Role, state: State, code: str = "") -> Criterion:
    """A criterion of which only these matter."""
    return Criterion(code=code, role=role, question="?", state=state, figure="", limit="")


YES, NO, WHO_KNOWS = State.PRESENT, State.ABSENT, State.UNCLEAR


@pytest.mark.parametrize(
    ("symptoms", "idle", "harm", "verdict"),
    [
        ((YES, WHO_KNOWS), WHO_KNOWS, YES, Verdict.DISEASE),
        ((YES, NO), YES, NO, Verdict.DISEASE),
        ((YES, YES), NO, NO, Verdict.UNKNOWN),
        ((YES, YES), WHO_KNOWS, WHO_KNOWS, Verdict.UNKNOWN),
        ((NO, NO), NO, YES, Verdict.UNKNOWN),
        ((NO, WHO_KNOWS), NO, NO, Verdict.HEALTHY),
        ((NO, NO), YES, NO, Verdict.HEALTHY),
        ((NO, NO), NO, WHO_KNOWS, Verdict.HEALTHY),
        ((NO, NO), YES, WHO_KNOWS, Verdict.UNKNOWN),
        ((NO, NO), WHO_KNOWS, WHO_KNOWS, Verdict.UNKNOWN),
        ((WHO_KNOWS, WHO_KNOWS), NO, NO, Verdict.UNKNOWN),
    ],
)
def test_the_disease_needs_a_symptom_and_a_mechanism(
    symptoms: tuple[State, State], idle: State, harm: State, verdict: Verdict
) -> None:
    criteria = (
        *(criterion(Role.SYMPTOM, state) for state in symptoms),
        criterion(Role.MECHANISM, idle, "unearned_credit"),
        criterion(Role.MECHANISM, harm, "bad_advice"),
        criterion(Role.CONTEXT, State.PRESENT, "crowded"),
    )
    assert verdict_on(criteria)[0] is verdict


RULES = 12
"""Rules per category of the made-up memories."""


def a_run(passed: dict[str, int], *, tip: Tip, followed: bool, **fields: Any) -> Run:
    """A run over RULES rules per category; the first so many of each succeed, all with one tip."""
    run = make_run(**fields)
    for category, wins in passed.items():
        for number in range(RULES):
            attempt = make_attempt(
                run=run,
                rule_id=f"{category}_{number}",
                category=category,
                outcome=1.0 if number < wins else 0.0,
            )
            make_retrieval(attempt=attempt, tip=tip, llm=followed)
    return run


def the_diagnosis(**options: Any) -> Diagnosis:
    """Of the only skill."""
    (found,) = diagnose(policy=ADR, **options)
    return found


def states(found: Diagnosis) -> dict[str, str]:
    """Per criterion."""
    return {one.code: str(one.state) for one in found.criteria}


@pytest.mark.django_db
def test_rules_that_fall_while_tips_are_ignored_show_the_disease() -> None:
    tip = make_tip()
    for wins in (10, 10, 8, 5, 5):
        a_run({"ssh": wins, "audit": wins}, tip=tip, followed=False)
    found = the_diagnosis()
    assert states(found) == {
        "long_trails_fresh": "cannot tell",
        "same_rules_fall": "present",
        "unearned_credit": "present",
        "bad_advice": "cannot tell",
        "crowded": "absent",
    }
    assert found.verdict is Verdict.DISEASE
    pairs = found.history.same_rules
    assert (pairs.both, pairs.wins, pairs.regressions, pairs.neither) == (10, 0, 10, 4)
    by_code = {one.code: one for one in found.criteria}
    assert by_code["same_rules_fall"].figure.endswith("of 24 rules 0 were won and 10 lost since")
    assert by_code["long_trails_fresh"].figure == "no run has both long and fresh categories"
    ssh = next(one for one in found.history.categories if one.category == "ssh")
    assert (ssh.runs_with_tips, ssh.latest) == (5, Rate(5, 12))
    assert ssh.rates == {
        "without": Rate(0, 0), "fresh": Rate(20, 24), "between": Rate(8, 12), "long": Rate(10, 24),
    }  # fmt: skip


@pytest.mark.django_db
def test_old_categories_that_trail_new_ones_in_the_same_runs_are_a_symptom() -> None:
    tip = make_tip()
    aged = [f"old_{n}" for n in range(4)]
    for number in range(4):
        passed = dict.fromkeys(aged, 3)
        if number == 3:
            passed |= {f"new_{n}": 11 for n in range(4)}
        a_run(passed, tip=tip, followed=False)
    found = the_diagnosis()
    same = found.history.same_runs
    assert (same.strata, same.old, same.young) == (1, Rate(12, 48), Rate(44, 48))
    assert states(found)["long_trails_fresh"] == "present"
    assert states(found)["same_rules_fall"] == "absent"
    assert found.verdict is Verdict.DISEASE


@pytest.mark.django_db
def test_a_memory_whose_followed_tips_work_is_healthy() -> None:
    tip = make_tip()
    for _ in range(5):
        a_run({"ssh": 11, "audit": 11, "boot": 11, "kernel": 11}, tip=tip, followed=True)
    found = the_diagnosis()
    assert states(found)["same_rules_fall"] == "absent"
    # nothing was ever ignored: of 44 rules that succeeded none has an ignored row
    assert states(found)["unearned_credit"] == "absent"
    # every tip was followed, whatever came of it: no rule can tell good advice from bad
    assert states(found)["bad_advice"] == "cannot tell"
    assert found.verdict is Verdict.HEALTHY
    assert found.attribution.lucky.rate == Rate(0, 220)
    assert found.attribution.misleading.rate == Rate(20, 240)


@pytest.mark.django_db
@pytest.mark.parametrize(("at_failure", "state"), [(True, "present"), (False, "absent")])
def test_advice_is_bad_when_it_is_followed_at_failures_and_ignored_at_successes(
    at_failure: bool, state: str
) -> None:
    tip, run = make_tip(), make_run()
    for number in range(RULES):
        for place, outcome in enumerate((0.0, 0.0, 1.0), start=1):
            attempt = make_attempt(run=run, rule_id=f"rule_{number}", number=place, outcome=outcome)
            make_retrieval(attempt=attempt, tip=tip, llm=(outcome == 0.0) is at_failure)
    found = the_diagnosis()
    assert states(found)["bad_advice"] == state
    difference = found.attribution.followed_at_failure
    assert (difference.clusters, difference.difference) == (RULES, 1.0 if at_failure else -1.0)


@pytest.mark.django_db
def test_many_attempts_of_a_hard_rule_make_no_history() -> None:
    tip = make_tip()
    run = make_run()
    for number in range(1, 9):
        attempt = make_attempt(run=run, rule_id="hard", number=number, outcome=0.0)
        make_retrieval(attempt=attempt, tip=tip, llm=False)
    found = the_diagnosis()
    assert found.history.observations == 1
    (category,) = found.history.categories
    assert (category.runs_with_tips, category.rates["fresh"]) == (1, Rate(0, 1))
    assert found.attribution.failed_when_ignored.rate == Rate(8, 8)
    assert found.attribution.failed_when_ignored.effective_n == 1.0
    assert found.verdict is Verdict.UNKNOWN


@pytest.mark.django_db
def test_superseded_runs_and_other_skills_are_no_history() -> None:
    tip, other = make_tip(), make_tip(skill="cve")
    for _ in range(4):
        a_run({"ssh": 5}, tip=tip, followed=True, superseded_at=MOMENT)
        a_run({"ssh": 5}, tip=other, followed=True, skill="cve")
    a_run({"ssh": 5}, tip=tip, followed=True)
    found = the_diagnosis(skill="stig")
    assert (found.history.runs, found.history.observations) == (1, RULES)
    assert found.history.categories[0].rates["fresh"] == Rate(5, RULES)
    assert [one.skill for one in diagnose(policy=ADR)] == ["cve", "stig"]


@pytest.mark.django_db
def test_a_category_without_tips_is_no_memory_and_one_without_a_name_no_category() -> None:
    make_attempt(run=make_run(), category="untouched")
    make_retrieval(attempt=make_attempt(category=""))
    found = the_diagnosis().history
    assert (found.observations, found.uncategorised) == (2, 1)
    (category,) = found.categories
    assert (category.category, category.rates["without"]) == ("untouched", Rate(1, 1))


@pytest.mark.django_db
def test_the_corpus_by_month() -> None:
    make_attempt(rule_id="r1")
    make_attempt(rule_id="r1")
    make_attempt(rule_id="r2")
    january = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
    for created in (january, january, january + timedelta(days=60)):
        make_tip(created_at=created)
    make_tip(created_at=january, retired_at=january + timedelta(days=60), retired_reason="stale")
    found = the_diagnosis().corpus
    assert (found.total, found.active, found.retired, found.rules) == (4, 3, 1, 2)
    assert (found.active_per_rule, found.growth) == (1.5, 0.75)
    assert [(one.month, one.added, one.retired, one.active) for one in found.months] == [
        ("2026-01", 3, 0, 3),
        ("2026-04", 1, 1, 3),
    ]


@pytest.mark.django_db
def test_the_policy_is_what_the_mean_credit_goes_by() -> None:
    make_retrieval(attempt=make_attempt(outcome=1.0), llm=False)
    make_retrieval(attempt=make_attempt(outcome=1.0), llm=True)
    make_retrieval(attempt=make_attempt(outcome=1.0), shown=False)
    found = the_diagnosis().attribution
    assert (found.credit.value, found.credit_outcome_only.value) == (0.5, 1.0)
    assert (found.credit.n, found.credit_outcome_only.n) == (2, 2)
