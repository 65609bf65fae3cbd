"""Credit: the SQL and the Python of a policy agree on any rows, and the weights are the documented ones.

The property tests store random rows in Postgres and compare every row's SQL answer with the Python
one, for each policy; the tables below them are written from ADR-0019 and ADR-0020 by hand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.credit import (
    FOLLOW_CHAIN,
    POLICIES,
    Policy,
    Quadrant,
    Row,
    Signal,
    UnknownPolicy,
    credit,
    credit_sql,
    followed_q,
    following,
    ignored_q,
    known_q,
    policy_named,
    quadrant,
    quadrant_q,
    row_of,
    source_sql,
    unanswered_q,
)
from memory.models import Retrieval
from tests.factories import make_attempt, make_retrieval, make_tip, signal_fields

if TYPE_CHECKING:
    from typing import Any

CHAINS = {policy.chain for policy in POLICIES.values()} | {FOLLOW_CHAIN}

grades = st.one_of(
    st.none(),
    st.sampled_from([-1.0, -0.2, 0.0, 0.5, 0.8, 1.0]),
    st.sampled_from([5e-324, -1e-200]),
    st.floats(-1.0, 1.0, allow_nan=False),
)
confidences = st.one_of(
    st.sampled_from([0.0, 1e-200, 0.8, 1.0]), st.floats(0.0, 1.0, allow_nan=False)
)
cosines = st.one_of(
    st.none(),
    st.sampled_from([0.6, 0.5999999999999999, -1.0, 1.0]),
    st.floats(-1.0, 1.0, allow_nan=False),
)
answers = st.sampled_from([None, True, False])
probabilities = st.one_of(
    st.none(), st.sampled_from([0.0, 1e-300, 0.5, 1.0]), st.floats(0.0, 1.0, allow_nan=False)
)
verdicts = st.sampled_from(["", "followed", "violated", "not_followed", "abstained"])


@st.composite
def retrieval_fields(draw: st.DrawFn) -> dict[str, Any]:
    """Columns of a valid row, in any combination that the constraints allow."""
    shown = draw(st.booleans())
    withheld = not shown and draw(st.booleans())
    value = draw(grades)
    p = draw(probabilities) if shown else None
    return {
        "tip_followed_p": p,
        "tip_followed_p_version": "" if p is None else "fitted@0",
        "shown": shown,
        "withheld": withheld,
        "outcome_value": value,
        "outcome_confidence": None if value is None else draw(confidences),
    } | signal_fields(
        llm=draw(answers) if shown else None,
        emb=draw(cosines) if shown else None,
        trace=draw(verdicts) if shown else "",
        review=draw(answers),
    )


def store(rows: list[dict[str, Any]]) -> None:
    """Replace the table's rows by these."""
    Retrieval.objects.all().delete()
    template = make_retrieval()
    Retrieval.objects.all().delete()
    shared = {
        name: getattr(template, name)
        for name in ("run", "attempt", "rule_id", "rank", "retrieved_at", "skill")
    }
    Retrieval.objects.bulk_create(Retrieval(**shared, tip=make_tip(), **row) for row in rows)


@pytest.mark.django_db
@settings(max_examples=25, deadline=None)
@given(rows=st.lists(retrieval_fields(), min_size=1, max_size=12))
def test_sql_and_python_agree_on_any_rows(rows: list[dict[str, Any]]) -> None:
    with transaction.atomic():  # a failing example leaves the next one a usable transaction
        store(rows)
        check_agreement()


def check_agreement() -> None:
    """Compare every stored row's answers in SQL with those in Python."""
    for policy in POLICIES.values():
        for found in Retrieval.objects.annotate(in_sql=credit_sql(policy)):
            assert found.in_sql == credit(row_of(found), policy), (policy.name, row_of(found))
        known = set(Retrieval.objects.filter(known_q(policy)).values_list("pk", flat=True))
        weighed = {
            row.pk
            for row in Retrieval.objects.all()
            if following(row_of(row), policy.chain)[0] is not None
            or (policy.by_probability and row.tip_followed_p is not None)
        }
        assert known == weighed, policy.name
    for chain in CHAINS:
        every = list(Retrieval.objects.annotate(in_sql=source_sql(chain)))
        in_python = {row.pk: following(row_of(row), chain) for row in every}
        for condition, answer in ((followed_q, True), (ignored_q, False), (unanswered_q, None)):
            in_sql = set(Retrieval.objects.filter(condition(chain)).values_list("pk", flat=True))
            assert in_sql == {pk for pk, (said, _) in in_python.items() if said is answer}
        assert {row.pk: row.in_sql for row in every} == {
            pk: source for pk, (_, source) in in_python.items()
        }
    for which in Quadrant:
        in_sql = set(Retrieval.objects.filter(quadrant_q(which)).values_list("pk", flat=True))
        rows_of_it = {row.pk for row in Retrieval.objects.all() if quadrant(row_of(row)) is which}
        assert in_sql == rows_of_it, which


@given(fields=retrieval_fields())
def test_credit_stays_within_one_of_zero(fields: dict[str, Any]) -> None:
    row = row_of(Retrieval(**fields))
    for policy in POLICIES.values():
        earned = credit(row, policy)
        assert earned is None or -1.0 <= earned <= 1.0


@given(fields=retrieval_fields(), reviewed=st.booleans())
def test_a_review_outranks_every_machine_signal(fields: dict[str, Any], *, reviewed: bool) -> None:
    seen = {"shown": True, "withheld": False, "tip_followed_review": reviewed}
    row = row_of(Retrieval(**fields | seen))
    alone = Row(
        outcome_value=row.outcome_value,
        outcome_confidence=row.outcome_confidence,
        tip_followed_review=reviewed,
    )
    assert following(row) == (reviewed, Signal.REVIEW)
    for policy in POLICIES.values():
        assert credit(row, policy) == credit(alone, policy)
    assert quadrant(row) is quadrant(alone)


WEIGHTS = [
    # signals of a row that succeeded fully          adr0019  adr0020  quadrant  outcome_only
    ({"tip_followed_llm": True}, (1.0, 1.0, 1.0, 1.0)),
    ({"tip_followed_llm": False}, (0.0, 0.3, None, 1.0)),
    ({"tip_followed_llm": False, "tip_followed_emb": 0.9}, (0.0, 0.3, None, 1.0)),
    ({"tip_followed_llm": True, "tip_followed_emb": 0.1}, (1.0, 1.0, 1.0, 1.0)),
    ({"tip_followed_emb": 0.6}, (1.0, 1.0, 1.0, 1.0)),
    ({"tip_followed_emb": 0.5999999}, (0.0, 0.3, None, 1.0)),
    ({}, (0.5, 0.5, None, 1.0)),
    ({"tip_followed_review": True, "tip_followed_llm": False}, (1.0, 1.0, 1.0, 1.0)),
    ({"tip_followed_review": False, "tip_followed_llm": True}, (0.0, 0.3, None, 1.0)),
    # the two ADR policies do not know the trace; the quadrants ask it before the cosine
    ({"tip_followed_trace_verdict": "followed"}, (0.5, 0.5, 1.0, 1.0)),
    ({"tip_followed_trace_verdict": "violated", "tip_followed_emb": 0.9}, (1.0, 1.0, None, 1.0)),
    ({"tip_followed_trace_verdict": "abstained", "tip_followed_emb": 0.9}, (1.0, 1.0, 1.0, 1.0)),
    # retrieved, but never in the prompt: only the old rule pays for that
    ({"shown": False, "tip_followed_review": True}, (None, None, None, 1.0)),
]


@pytest.mark.parametrize(("signals", "expected"), WEIGHTS)
def test_a_full_success_earns_the_documented_weight(
    signals: dict[str, Any], expected: tuple[float | None, ...]
) -> None:
    row = Row(outcome_value=1.0, outcome_confidence=1.0, **signals)
    names = ("adr0019", "adr0020", "quadrant", "outcome_only")
    assert tuple(credit(row, POLICIES[name]) for name in names) == expected


def test_value_and_confidence_multiply() -> None:
    row = Row(outcome_value=0.8, outcome_confidence=0.5, tip_followed_llm=True)
    assert {credit(row, policy) for policy in POLICIES.values()} == {0.4}


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        ({"tip_followed_p": 0.75}, 0.75),
        ({"tip_followed_p": 0.25, "tip_followed_llm": True, "tip_followed_emb": 0.9}, 0.25),
        ({"tip_followed_p": 0.25, "tip_followed_review": True}, 1.0),
        ({"tip_followed_p": 0.75, "tip_followed_review": False}, 0.0),
        # not combined yet: ADR-0019's chain answers
        ({"tip_followed_llm": True}, 1.0),
        ({"tip_followed_emb": 0.1}, 0.0),
        ({}, 0.5),
        ({"tip_followed_p": 0.75, "shown": False}, None),
    ],
)
def test_combined_weighs_a_row_by_its_probability(
    signals: dict[str, Any], expected: float | None
) -> None:
    row = Row(outcome_value=1.0, outcome_confidence=1.0, **signals)
    assert credit(row, POLICIES["combined"]) == expected


def test_a_probability_changes_no_other_policy() -> None:
    bare = Row(outcome_value=1.0, outcome_confidence=1.0, tip_followed_llm=True)
    row = replace(bare, tip_followed_p=0.1)
    for name in POLICIES.keys() - {"combined"}:
        assert credit(row, POLICIES[name]) == credit(bare, POLICIES[name]), name


def test_a_policy_by_probability_has_no_failure_value() -> None:
    with pytest.raises(ValueError, match="needs a yes or no"):
        replace(POLICIES["combined"], failure=-1.0)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda policy: policy.name)
def test_a_row_without_an_outcome_earns_nothing(policy: Policy) -> None:
    assert credit(Row(tip_followed_llm=True), policy) is None
    assert credit(Row(outcome_value=1.0, tip_followed_llm=True), policy) is None


@pytest.mark.parametrize(
    ("value", "confidence"), [(0.0, 1.0), (-0.2, 1.0), (-0.2, 0.8), (0.0, 0.8)]
)
def test_in_quadrant_a_followed_failure_is_a_strong_negative(
    value: float, confidence: float
) -> None:
    row = Row(outcome_value=value, outcome_confidence=confidence, tip_followed_llm=True)
    assert credit(row, POLICIES["quadrant"]) == -confidence


def test_in_quadrant_a_health_failure_is_at_least_as_bad_as_a_plain_failure() -> None:
    plain, health, disaster = (
        credit(
            Row(outcome_value=value, outcome_confidence=1.0, tip_followed_llm=True),
            POLICIES["quadrant"],
        )
        for value in (0.0, -0.2, -1.0)
    )
    assert plain is not None
    assert health is not None
    assert disaster is not None
    assert disaster <= health <= plain < 0


def test_under_adr0019_an_ignored_tip_is_not_blamed_for_a_health_failure() -> None:
    ignored = Row(outcome_value=-0.2, outcome_confidence=1.0, tip_followed_llm=False)
    followed = Row(outcome_value=-0.2, outcome_confidence=1.0, tip_followed_llm=True)
    assert credit(ignored, POLICIES["adr0019"]) == 0.0
    assert credit(followed, POLICIES["adr0019"]) == -0.2


@pytest.mark.django_db
def test_ignored_rows_leave_the_denominator_of_quadrant_in_sql_averages() -> None:
    from django.db.models import Avg

    tip = make_tip()
    for llm in (True, False, False, False, None):
        make_retrieval(tip=tip, attempt=make_attempt(outcome=0.8), llm=llm)
    averages = {
        name: Retrieval.objects.aggregate(mean=Avg(credit_sql(policy)))["mean"]
        for name, policy in POLICIES.items()
    }
    assert averages["quadrant"] == 0.8
    assert averages["outcome_only"] == 0.8
    assert averages["adr0019"] == pytest.approx((0.8 + 0.4) / 5)
    assert averages["adr0020"] == pytest.approx((0.8 + 3 * 0.24 + 0.4) / 5)


@pytest.mark.parametrize(
    ("value", "followed", "expected"),
    [
        (1.0, True, Quadrant.EARNED),
        (0.5, True, Quadrant.EARNED),
        (0.0, True, Quadrant.MISLEADING),
        (-0.2, True, Quadrant.MISLEADING),
        (0.8, False, Quadrant.LUCKY_NEIGHBOUR),
        (0.0, False, Quadrant.BYSTANDER),
        (1.0, None, Quadrant.UNKNOWN),
        (None, True, Quadrant.UNKNOWN),
    ],
)
def test_following_crossed_with_the_outcome_gives_the_quadrant(
    value: float | None, followed: bool | None, expected: Quadrant
) -> None:
    row = Row(outcome_value=value, outcome_confidence=1.0, tip_followed_llm=followed)
    assert quadrant(row) is expected


def test_an_unknown_policy_names_the_ones_there_are() -> None:
    with pytest.raises(UnknownPolicy, match="adr0019, adr0020, combined, outcome_only, quadrant"):
        policy_named("adr0021")
    assert policy_named("adr0020").ignored == 0.3


def test_a_tip_that_the_coin_held_back_earns_nothing_under_any_policy() -> None:
    row = Row(outcome_value=1.0, outcome_confidence=1.0, shown=False, withheld=True)
    assert {credit(row, policy) for policy in POLICIES.values()} == {None}
    seen = Row(outcome_value=1.0, outcome_confidence=1.0, shown=False)
    assert credit(seen, POLICIES["outcome_only"]) == 1.0
