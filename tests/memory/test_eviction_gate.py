"""The gate: each condition alone, the prior that decides nothing, the causes, the cap, the plan."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from contextgraph.skills import Eviction
from memory.audit.scope import ScopeError
from memory.credit import UnknownPolicy
from memory.eviction_gate import (
    PRIOR_VISITS,
    GateError,
    Verdict,
    cap_of,
    cause_of,
    gate_as_dict,
    gate_of,
    held_against,
    judge,
    untested_since_return,
)
from memory.evidence import Sums
from memory.models import Tip
from memory.retirement import reactivate, retire
from memory.shrinkage import shrunk
from tests.factories import make_attempt, make_retrieval, make_run, make_tip
from tests.memory.sweep_histories import (
    BYSTANDER,
    EARNED,
    GATE,
    LUCKY,
    MISLEADING,
    UNKNOWN,
    bad_tip,
    give_past,
    old_tip,
)

pytestmark = pytest.mark.django_db


def verdict(gate: Eviction = GATE, **fields: Any) -> Verdict:
    """Stig's tips against *gate*, now."""
    return judge("stig", gate.model_copy(update=fields), now=timezone.now())


def caught(gate: Eviction = GATE, **fields: Any) -> list[int]:
    """Keys of the tips that *gate* catches."""
    return [one.tip_id for one in verdict(gate, **fields).caught]


def test_a_tip_below_the_threshold_is_caught_with_its_figures() -> None:
    tip = old_tip()
    give_past(tip, MISLEADING, MISLEADING, LUCKY, EARNED, UNKNOWN)
    found = verdict(threshold=0.5)
    assert (found.active, found.with_evidence) == (1, 1)
    (one,) = found.caught
    assert one.cause == "misleading"
    assert one.visits == 5
    assert one.low <= one.mean <= one.high
    # (1 + 0.5 of 5 visits + 0.5 of 2 pseudo-visits) / 7
    assert one.mean == pytest.approx(2.5 / 7, abs=1e-6)
    assert one.figures == {
        "rows": 5, "shown": 5, "followed": 3, "ignored": 1, "earned": 1, "misleading": 2,
        "lucky_neighbour": 1, "bystander": 0, "credit_n": 5, "credit_mean": 0.3, "visit_mean": 0.3,
    }  # fmt: skip


def test_the_threshold_itself_is_not_below_it() -> None:
    tip = old_tip()
    give_past(tip, EARNED, MISLEADING, MISLEADING, MISLEADING)  # the mean is 0.25
    assert caught(threshold=0.25) == []
    assert caught(threshold=0.26) == [tip.pk]


@pytest.mark.parametrize(
    "fields",
    [
        {"protected": True},
        {"tip_type": "strategy"},
        {"created_at": timezone.now() - timedelta(days=6)},
        {"skill": "cve"},
    ],
)
def test_who_is_left_alone(fields: dict[str, Any]) -> None:
    old_tip(tip_type="recovery")
    spared = bad_tip(**({"tip_type": "recovery"} | fields))
    gate = GATE.model_copy(update={"protected_types": ("strategy",)})
    found = verdict(gate)
    assert (found.caught, found.with_evidence) == ((), 0)
    # and nothing else than this one guard kept it
    Tip.objects.filter(pk=spared.pk).update(
        protected=False, tip_type="recovery", skill="stig",
        created_at=timezone.now() - timedelta(days=8),
    )  # fmt: skip
    if "skill" not in fields:
        assert caught(gate) == [spared.pk]


def test_a_retired_tip_is_not_caught_again() -> None:
    tip = bad_tip()
    assert caught() == [tip.pk]
    retire(tip.pk, reason="r", by="ann")
    assert verdict() == Verdict(skill="stig", gate=GATE, active=0, with_evidence=0, caught=())


def test_too_few_visits_are_no_evidence_and_attempts_at_one_rule_are_one_visit() -> None:
    tip = bad_tip(visits=2)
    assert caught(min_retrievals=3) == []
    assert caught(min_retrievals=2) == [tip.pk]
    assert verdict(min_retrievals=3).with_evidence == 0
    run = make_run()
    for number in (1, 2, 3):
        attempt = make_attempt(run=run, rule_id="one rule", number=number, outcome=0.0)
        make_retrieval(attempt=attempt, tip=tip, llm=True)
    give_past(tip, run=run)
    (one,) = verdict(min_retrievals=3).caught
    assert (one.visits, one.figures["misleading"]) == (3, 5)


def test_visits_count_under_the_policy_of_the_gate() -> None:
    """Ignored at failure: nothing for adr0019, no evidence at all for the quadrants."""
    tip = old_tip()
    give_past(tip, *[BYSTANDER] * 4)
    assert caught(policy="adr0019") == [tip.pk]
    assert verdict(policy="quadrant").with_evidence == 0


def test_the_interval_asks_for_more_evidence_than_the_mean() -> None:
    few, many = bad_tip(visits=3), bad_tip(visits=12)
    assert sorted(caught(interval_below=False)) == [few.pk, many.pk]
    assert caught(interval_below=True) == [many.pk]


@given(
    threshold=st.floats(-1, 1, allow_subnormal=False),
    credits_=st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=1, max_size=30),
)
def test_the_prior_decides_nothing_and_the_interval_only_spares(
    threshold: float, credits_: list[float]
) -> None:
    total, squares = math.fsum(credits_), math.fsum(one * one for one in credits_)
    row = dict.fromkeys(("shown", "followed", "ignored", "earned"), 0) | {
        "tip_id": 1, "rows": 30, "misleading": 0, "lucky_neighbour": 0, "bystander": 0,
        "credit_n": 30, "credit_total": total, "visits": len(credits_), "visit_total": total,
        "visit_squares": squares,
    }  # fmt: skip
    by_mean, by_interval = (
        held_against(Eviction(threshold=threshold, interval_below=below), row)
        for below in (False, True)
    )
    assert (by_mean is not None) == (total / len(credits_) < threshold)
    assert by_interval is None or by_interval == by_mean
    if by_mean is not None:
        assert by_mean.low <= by_mean.mean <= by_mean.high


@given(threshold=st.floats(-1, 1))
def test_a_tip_that_nothing_is_known_of_stands_at_the_threshold(threshold: float) -> None:
    worth = shrunk(Sums(0, 0.0, 0.0), prior_mean=threshold, strength=PRIOR_VISITS)
    assert worth.low <= worth.mean == threshold <= worth.high


def test_a_bad_skill_does_not_convict_a_tip_that_little_is_known_of() -> None:
    for _ in range(4):
        bad_tip(visits=6)
    newcomer = old_tip()
    give_past(newcomer, EARNED)
    assert newcomer.pk not in caught(min_retrievals=1, threshold=0.9)
    give_past(newcomer, MISLEADING)
    assert newcomer.pk in caught(min_retrievals=1, threshold=0.9)
    assert newcomer.pk not in caught(min_retrievals=1, threshold=0.9, interval_below=True)


def test_worst_first_and_equal_tips_by_key() -> None:
    first, second, worst = bad_tip(), bad_tip(), bad_tip(visits=9)
    assert caught() == [worst.pk, first.pk, second.pk]


def test_what_is_over_the_cap_is_caught_and_marked() -> None:
    tips = [bad_tip() for _ in range(3)]
    found = verdict(cap=2, cap_share=1.0)
    assert [one.over_cap for one in found.caught] == [False, False, True]
    assert [one.tip_id for one in found.caught] == [tip.pk for tip in tips]


@pytest.mark.parametrize(
    ("cap", "share", "active", "allowed"),
    [
        (50, 0.1, 20_000, 50),
        (50, 0.1, 300, 30),
        (50, 0.1, 9, 1),
        (50, 0.0, 1000, 1),
        (0, 1.0, 1000, 0),
        (50, 0.29, 100, 29),
        (50, 0.1, 0, 1),
        (9, 1.0, 5, 5),
    ],
)
def test_how_many_a_sweep_may_take(cap: int, share: float, active: int, allowed: int) -> None:
    assert cap_of(Eviction(cap=cap, cap_share=share), active) == allowed


@pytest.mark.parametrize(
    ("misleading", "lucky", "bystander", "cause"),
    [
        (3, 1, 1, "misleading"),
        (1, 3, 1, "lucky_neighbour"),
        (1, 1, 3, "dead_weight"),
        (2, 2, 2, "misleading"),
        (0, 2, 2, "lucky_neighbour"),
        (1, 2, 2, "lucky_neighbour"),
        (2, 0, 2, "misleading"),
        (0, 0, 0, "dead_weight"),
    ],
)
def test_the_cause_is_the_heaviest_quadrant_and_the_more_harmful_of_equals(
    misleading: int, lucky: int, bystander: int, cause: str
) -> None:
    counts = {"misleading": misleading, "lucky_neighbour": lucky, "bystander": bystander}
    assert cause_of(counts | {"earned": 99}) == cause


@pytest.mark.parametrize(
    ("visit", "cause"),
    [
        (MISLEADING, "misleading"),
        (LUCKY, "lucky_neighbour"),
        (BYSTANDER, "dead_weight"),
        ((None, 0.0), "dead_weight"),
    ],
)
def test_the_cause_of_a_tip_with_one_kind_of_past(
    visit: tuple[bool | None, float], cause: str
) -> None:
    give_past(old_tip(), *[visit] * 3)
    assert [one.cause for one in verdict().caught] == [cause]


def test_an_unknown_skill_is_an_error_that_names_those_there_are() -> None:
    make_tip()
    with pytest.raises(ScopeError, match=r"'ssh'; there are: 'stig'"):
        judge("ssh", GATE, now=timezone.now())


# --- Where the gate comes from --------------------------------------------------------------------


def test_the_gate_is_that_of_the_skill_with_its_policy_named() -> None:
    gate = gate_of("stig")
    assert (gate.min_retrievals, gate.threshold, gate.policy) == (3, 0.3, "adr0019")
    assert gate_of("stig", threshold=-0.5, policy="quadrant").threshold == -0.5
    assert gate_of("no such skill").threshold == 0.5  # that of the default file


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"min_retrievals": 0}, "min_retrievals.*greater than or equal to 1, not 0"),
        ({"threshold": math.nan}, "threshold"),
        ({"threshold": 1.5}, "threshold.*1.5"),
        ({"min_age_days": -1}, "min_age_days"),
        ({"min_visits": 3}, "min_visits"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(overrides: Any, message: str) -> None:
    with pytest.raises(GateError, match=message):
        gate_of("stig", **overrides)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UnknownPolicy, match="adr0042"):
        gate_of("stig", policy="adr0042")


def test_the_stored_gate_holds_all_that_decides() -> None:
    stored = gate_as_dict(gate_of("stig"))
    assert stored["prior"] == {"mean": 0.3, "visits": PRIOR_VISITS, "sd": 0.5}
    assert set(Eviction.model_fields) <= set(stored)


# --- What it costs --------------------------------------------------------------------------------


def test_the_number_of_queries_does_not_grow_with_the_tips() -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            caught()
        return len(asked)

    bad_tip()
    alone = queries()
    for _ in range(5):
        bad_tip()
    assert queries() == alone <= 4


# --- Tips that came back --------------------------------------------------------------------------


def test_a_tip_that_came_back_is_untested_until_it_was_shown_often_enough_since() -> None:
    tip, never_left = bad_tip(), bad_tip()
    retire(tip.pk, reason="r", by="ann")
    reactivate(tip.pk, reason="r", by="ann")
    both = [tip.pk, never_left.pk]
    assert untested_since_return(both, 2) == {tip.pk}

    later = {"retrieved_at": timezone.now() + timedelta(hours=1)}
    give_past(tip, MISLEADING, **later)
    give_past(tip, UNKNOWN, UNKNOWN, shown=False, **later)
    give_past(tip, MISLEADING, run=make_run(superseded_at=timezone.now()), **later)
    give_past(tip, MISLEADING, MISLEADING)  # of before its return
    assert untested_since_return(both, 2) == {tip.pk}
    give_past(tip, MISLEADING, **later)
    assert untested_since_return(both, 2) == set()
