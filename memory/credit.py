"""The ONE place where outcome and following become credit. Ranker, eviction, dream pass, audit read it.

A policy is a small table: which signals say "followed", in which order; what each answer weighs; and
whether ignored rows count in the denominator. The Python and the SQL of a policy are made from the
same table, and a property test holds them equal on any rows.

Guarantees: a human review outranks every machine signal; a row without an outcome earns nothing;
credit is derived from rows each time, never accumulated. Does not guarantee that a policy is right:
``outcome_only`` is kept to measure against (ADR-0019, ADR-0020, the four quadrants).

Shaped by: a formula in which followed-and-failed and ignored-and-failed were both exactly zero.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from django.db.models import Case, CharField, F, FloatField, Q, Value, When

if TYPE_CHECKING:
    from django.db.models.expressions import Combinable

    from memory.models import Retrieval

EMB_FOLLOWED: Final = 0.6
"""Cosine from which the embedding alone says "followed" (ADR-0019)."""


class Signal(enum.StrEnum):
    """A source of the answer to "did the script follow this tip?"."""

    REVIEW = "review"
    LLM = "llm"
    TRACE = "trace"
    EMB = "emb"


ANSWERS: Final[dict[Signal, tuple[Q, Q]]] = {
    Signal.REVIEW: (Q(tip_followed_review=True), Q(tip_followed_review=False)),
    Signal.LLM: (Q(tip_followed_llm=True), Q(tip_followed_llm=False)),
    Signal.TRACE: (
        Q(tip_followed_trace_verdict="followed"),
        Q(tip_followed_trace_verdict__in=["violated", "not_followed"]),
    ),
    Signal.EMB: (Q(tip_followed_emb__gte=EMB_FOLLOWED), Q(tip_followed_emb__lt=EMB_FOLLOWED)),
}
"""Per signal: the condition for "followed" and the one for "ignored"; neither holds: no answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The columns of one retrieval that credit reads; ranges as in the table's constraints."""

    outcome_value: float | None = None
    outcome_confidence: float | None = None
    shown: bool = True
    withheld: bool = False
    tip_followed_review: bool | None = None
    tip_followed_llm: bool | None = None
    tip_followed_trace_verdict: str = ""
    tip_followed_emb: float | None = None
    tip_followed_p: float | None = None


def row_of(retrieval: Retrieval) -> Row:
    """The columns of a stored retrieval that credit reads."""
    return Row(**{field.name: getattr(retrieval, field.name) for field in fields(Row)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Weights of one credit policy.

    ``followed``/``ignored``/``unknown`` multiply value x confidence; None: the row leaves the
    denominator. ``failure`` replaces the value of a followed row that did not succeed (value <=
    ``success_above``): following advice into a failure is evidence against it, not an absence.
    ``by_probability``: a row with p(followed) and no review weighs p; the chain decides the others.
    The two exclude each other: who half followed has not followed into a failure. Raises ValueError.
    """

    name: str
    chain: tuple[Signal, ...]
    followed: float | None
    ignored: float | None
    unknown: float | None
    failure: float | None = None
    counts_unshown: bool = False
    by_probability: bool = False

    def __post_init__(self) -> None:
        if self.by_probability and self.failure is not None:
            msg = f"policy {self.name}: a failure value needs a yes or no, not a probability"
            raise ValueError(msg)


NEGLIGIBLE: Final = 1e-9
"""Grades and confidences closer to zero count as zero: Postgres refuses a product that underflows, and
one row sent with 1e-300 must not make every audit fail."""

SUCCESS_ABOVE: Final = 0.0
"""A graded value above this is a success; a partial success (0.5) is one."""

ADR_CHAIN: Final = (Signal.REVIEW, Signal.LLM, Signal.EMB)
FOLLOW_CHAIN: Final = (Signal.REVIEW, Signal.LLM, Signal.TRACE, Signal.EMB)
"""Who is asked first. The trace abstains where it cannot tell; the cosine only measures topic."""

POLICIES: Final[dict[str, Policy]] = {
    policy.name: policy
    for policy in (
        Policy(
            name="outcome_only",
            chain=(),
            followed=1.0,
            ignored=1.0,
            unknown=1.0,
            counts_unshown=True,
        ),
        Policy(name="adr0019", chain=ADR_CHAIN, followed=1.0, ignored=0.0, unknown=0.5),
        Policy(name="adr0020", chain=ADR_CHAIN, followed=1.0, ignored=0.3, unknown=0.5),
        Policy(
            name="quadrant",
            chain=FOLLOW_CHAIN,
            followed=1.0,
            ignored=None,
            unknown=None,
            failure=-1.0,
        ),
        Policy(
            name="combined",
            chain=ADR_CHAIN,
            followed=1.0,
            ignored=0.0,
            unknown=0.5,
            by_probability=True,
        ),
    )
}


class UnknownPolicy(LookupError):
    """No policy has this name."""


def policy_named(name: str) -> Policy:
    """The policy called *name*. Raises UnknownPolicy, naming the ones there are."""
    try:
        return POLICIES[name]
    except KeyError:
        msg = f"no credit policy {name!r}; there are: {', '.join(sorted(POLICIES))}"
        raise UnknownPolicy(msg) from None


# --- Did it follow? -------------------------------------------------------------------------------


def _answer(signal: Signal, row: Row) -> bool | None:
    if signal is Signal.REVIEW:
        return row.tip_followed_review
    if signal is Signal.LLM:
        return row.tip_followed_llm
    if signal is Signal.TRACE:
        verdicts = {"followed": True, "violated": False, "not_followed": False}
        return verdicts.get(row.tip_followed_trace_verdict)
    return None if row.tip_followed_emb is None else row.tip_followed_emb >= EMB_FOLLOWED


def following(
    row: Row, chain: tuple[Signal, ...] = FOLLOW_CHAIN
) -> tuple[bool | None, Signal | None]:
    """Whether the script followed the tip, and which signal says so. (None, None): nobody knows."""
    if not row.shown:
        return None, None
    for signal in chain:
        answer = _answer(signal, row)
        if answer is not None:
            return answer, signal
    return None, None


def followed_q(chain: tuple[Signal, ...] = FOLLOW_CHAIN) -> Q:
    """SQL twin of :func:`following`: the rows it calls followed."""
    return _said(chain, answer=0)


def ignored_q(chain: tuple[Signal, ...] = FOLLOW_CHAIN) -> Q:
    """SQL twin of :func:`following`: the rows it calls ignored."""
    return _said(chain, answer=1)


def unanswered_q(chain: tuple[Signal, ...] = FOLLOW_CHAIN) -> Q:
    """SQL twin of :func:`following`: the rows about which nobody knows."""
    silent = Q(shown=True)
    for signal in chain:
        silent &= _silent(signal)
    return Q(shown=False) | silent


def source_sql(chain: tuple[Signal, ...] = FOLLOW_CHAIN) -> Case:
    """SQL twin of :func:`following`: which signal answered; NULL when nobody did."""
    answered = (When(~_silent(signal), then=Value(str(signal))) for signal in chain)
    return Case(When(shown=False, then=None), *answered, default=None, output_field=CharField())


def _said(chain: tuple[Signal, ...], *, answer: int) -> Q:
    """Rows where the first signal of *chain* with any answer gives this one.

    Written as nested CASE-free conditions of IS NULL tests: SQL's three-valued NOT would lose rows.
    """
    condition = Q(pk__in=[])
    silent = Q(shown=True)
    for signal in chain:
        condition |= silent & ANSWERS[signal][answer]
        silent &= _silent(signal)
    return condition


def _silent(signal: Signal) -> Q:
    if signal is Signal.TRACE:
        return ~Q(tip_followed_trace_verdict__in=["followed", "violated", "not_followed"])
    column = {
        Signal.REVIEW: "tip_followed_review",
        Signal.LLM: "tip_followed_llm",
        Signal.EMB: "tip_followed_emb",
    }[signal]
    return Q(**{f"{column}__isnull": True})


# --- What is it worth? ----------------------------------------------------------------------------


def credit(row: Row, policy: Policy) -> float | None:
    """The credit of one row in [-1, 1], or None when the policy leaves it out of the denominator."""
    if row.outcome_value is None or row.outcome_confidence is None:
        return None
    if row.withheld or not (row.shown or policy.counts_unshown):
        return None
    answer, _ = following(row, policy.chain)
    weight = {True: policy.followed, False: policy.ignored, None: policy.unknown}[answer]
    if policy.by_probability and _graded(row):
        weight = _whole(row.tip_followed_p or 0.0)
    if weight is None:
        return None
    value = row.outcome_value
    if answer and policy.failure is not None and value <= SUCCESS_ABOVE:
        value = policy.failure
    return _whole(value) * _whole(row.outcome_confidence) * weight


def _graded(row: Row) -> bool:
    """Whether p(followed) speaks for the row: a person has not, and it was shown."""
    return row.shown and row.tip_followed_review is None and row.tip_followed_p is not None


def _graded_q() -> Q:
    """SQL twin of :func:`_graded`."""
    return Q(shown=True, tip_followed_review__isnull=True, tip_followed_p__isnull=False)


def known_q(policy: Policy) -> Q:
    """Rows about whose following *policy* knows something; the others weigh its ``unknown``."""
    known = ~unanswered_q(policy.chain)
    return known | _graded_q() if policy.by_probability else known


def _whole(factor: float) -> float:
    return 0.0 if -NEGLIGIBLE < factor < NEGLIGIBLE else factor


def _whole_sql(column: str) -> Case:
    tiny = Q(**{f"{column}__gt": -NEGLIGIBLE, f"{column}__lt": NEGLIGIBLE})
    return Case(When(tiny, then=Value(0.0)), default=F(column), output_field=FloatField())


def credit_sql(policy: Policy) -> Combinable:
    """SQL twin of :func:`credit`: annotate it, aggregate it; NULL rows leave AVG's denominator."""
    graded = [When(_graded_q(), then=_whole_sql("tip_followed_p"))] if policy.by_probability else []
    weight = Case(
        *graded,
        When(followed_q(policy.chain), then=Value(policy.followed)),
        When(ignored_q(policy.chain), then=Value(policy.ignored)),
        default=Value(policy.unknown),
        output_field=FloatField(),
    )
    value = _whole_sql("outcome_value")
    if policy.failure is not None:
        value = Case(
            When(
                followed_q(policy.chain) & Q(outcome_value__lte=SUCCESS_ABOVE),
                then=Value(policy.failure),
            ),
            default=value,
            output_field=FloatField(),
        )
    product = value * _whole_sql("outcome_confidence") * weight
    if policy.counts_unshown:
        # a tip that the coin held back was in no prompt: there was no such row before there were coins
        return Case(When(withheld=False, then=product), default=None, output_field=FloatField())
    return Case(When(shown=True, then=product), default=None, output_field=FloatField())


# --- The four quadrants ---------------------------------------------------------------------------


class Quadrant(enum.StrEnum):
    """What a row says about its tip."""

    EARNED = "earned"
    MISLEADING = "misleading"
    LUCKY_NEIGHBOUR = "lucky_neighbour"
    BYSTANDER = "bystander"
    UNKNOWN = "unknown"


def quadrant(row: Row) -> Quadrant:
    """Followed or ignored, crossed with how the attempt went."""
    answer, _ = following(row)
    if row.outcome_value is None or answer is None:
        return Quadrant.UNKNOWN
    if row.outcome_value > SUCCESS_ABOVE:
        return Quadrant.EARNED if answer else Quadrant.LUCKY_NEIGHBOUR
    return Quadrant.MISLEADING if answer else Quadrant.BYSTANDER


def quadrant_q(which: Quadrant) -> Q:
    """SQL twin of :func:`quadrant`. The five conditions cover every row once."""
    went_well = Q(outcome_value__gt=SUCCESS_ABOVE)
    went_badly = Q(outcome_value__lte=SUCCESS_ABOVE)
    return {
        Quadrant.EARNED: followed_q() & went_well,
        Quadrant.MISLEADING: followed_q() & went_badly,
        Quadrant.LUCKY_NEIGHBOUR: ignored_q() & went_well,
        Quadrant.BYSTANDER: ignored_q() & went_badly,
        Quadrant.UNKNOWN: Q(outcome_value__isnull=True) | unanswered_q(),
    }[which]
