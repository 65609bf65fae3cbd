"""The gate: which active tips of a skill are worth retiring, by which figures, and for which cause.

A tip is caught when all of this holds (``contextgraph.skills.Eviction``, one per skill):

- it is active, not protected, of no protected type, and at least ``min_age_days`` old;
- at least ``min_retrievals`` visits give it a credit under the gate's policy (a visit is a run's
  attempts at one rule; ten failed attempts at one rule are one piece of evidence, not ten);
- its shrunk mean credit lies below ``threshold`` (strictly), and with ``interval_below`` so does the
  upper end of its 95 % interval.

The prior stands at the threshold itself, ``PRIOR_VISITS`` strong. Thus the shrunk mean lies below the
threshold exactly when the plain mean does: the prior convicts nobody and acquits nobody, it only
widens the interval of a tip that little is known of. A prior at the skill's mean would retire the
untried tips of a bad skill, and shelter the bad tips of a good one.

Guarantees: reads only; two queries whatever the number of tips (a third and fourth for tips that came
back); worst first, by the interval's upper end, then the mean, then the primary key. Does not look at
rows: sums are those of the last recount (``memory.evidence``). Quadrants are counted in retrievals,
whatever the policy asks: they name the cause, they do not decide.

Shaped by: 587 tips retired in a night by a mean over rows, with a threshold on another policy's scale,
and by ``--min-retrievals 0`` that silently meant the default.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db.models import Max, Q
from pydantic import ValidationError

from contextgraph.skills import Eviction, load_skill
from memory.audit.scope import Scope
from memory.credit import policy_named
from memory.evidence import Sums
from memory.evidence_sql import COUNTS, SUMS
from memory.models import Retrieval, SweepEntry, Tip, TipChange, TipEvidence
from memory.rates import rounded
from memory.shrinkage import PRIOR_SD, shrunk
from memory.tallies import GRADED, PRESENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from decimal import Decimal

    from django.db.models import QuerySet

    from memory.querysets import TipQuerySet
    from memory.shrinkage import ShrunkMean

    Shift = Mapping[int, Mapping[str, Decimal | int]]
    """Primary key of a tip -> what is to be added to which of its sums, under the gate's policy."""

Cause = SweepEntry.Cause

PRIOR_VISITS: Final = 2.0
"""Pseudo-visits of the prior. Not a skill's setting: it says how careful an interval is, not what a
tip is worth, and gates of two skills stay comparable."""


class GateError(ValueError):
    """A gate that makes no sense; names the setting and the cause."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caught:
    """A tip that the gate caught. ``mean``, ``low``, ``high``: shrunk credit in [-1, 1], 95 %."""

    tip_id: int
    cause: str
    mean: float
    low: float
    high: float
    visits: int
    figures: dict[str, Any]
    over_cap: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the gate says about a skill. ``with_evidence``: active tips that passed every guard but
    the threshold, so that their credit alone decided; ``caught``: worst first."""

    skill: str
    gate: Eviction
    active: int
    with_evidence: int
    caught: tuple[Caught, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Flip:
    """One tip under two gates; None: that gate leaves it in the pool."""

    tip_id: int
    old: Caught | None
    new: Caught | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Flips:
    """What a change of the gate changes. Caps move no tip between the three lists."""

    old: Verdict
    new: Verdict
    newly_caught: tuple[Flip, ...]
    set_free: tuple[Flip, ...]
    caught_by_both: tuple[Flip, ...]

    @property
    def over_the_cap(self) -> tuple[Flip, ...]:
        """Caught by both, and over the cap of the new gate alone: a sweep would leave them now."""
        return self._moved(old=False, new=True)

    @property
    def within_the_cap(self) -> tuple[Flip, ...]:
        """Caught by both, and over the cap of the old gate alone: a sweep would retire them now."""
        return self._moved(old=True, new=False)

    def _moved(self, *, old: bool, new: bool) -> tuple[Flip, ...]:
        return tuple(
            flip
            for flip in self.caught_by_both
            if flip.old and flip.new and (flip.old.over_cap, flip.new.over_cap) == (old, new)
        )


def gate_of(skill: str, **overrides: Any) -> Eviction:
    """The gate of *skill* as its file has it, with *overrides*; ``policy`` is filled in.

    Raises:
        GateError: an override is out of range or of no known name.
        UnknownPolicy: no such credit policy.
        SkillError: the skill's file cannot be used.
    """
    found = load_skill(settings.PROMPTS_DIR, skill).eviction
    try:
        gate = Eviction.model_validate(found.model_dump() | overrides)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        msg = f"{'.'.join(map(str, first['loc']))}: {first['msg']}, not {first['input']!r}"
        raise GateError(msg) from error
    return with_policy(gate)


def with_policy(gate: Eviction) -> Eviction:
    """*gate* with its policy named: that of the deployment when it names none. Raises UnknownPolicy."""
    return gate.model_copy(
        update={"policy": policy_named(gate.policy or settings.CREDIT_POLICY).name}
    )


def gate_as_dict(gate: Eviction) -> dict[str, Any]:
    """Plain data with all that the verdict hangs on, for a sweep's row and for JSON."""
    prior = {"mean": gate.threshold, "visits": PRIOR_VISITS, "sd": PRIOR_SD}
    return gate.model_dump(mode="json") | {"unit": "visit", "prior": prior}


def judge(
    skill: str,
    gate: Eviction,
    *,
    now: datetime,
    spare_returned: bool = False,
    shift: Shift | None = None,
) -> Verdict:
    """Hold the active tips of *skill* against *gate*.

    Args:
        gate: its policy may be empty: the deployment's.
        now: the age of a tip is taken then.
        spare_returned: leave out tips that came back and were not tested since, see
            :func:`untested_since_return`.
        shift: judge as if the stored sums had moved by this: those of a change that is not made.

    Raises:
        ScopeError: nothing is stored about *skill*; names the skills there are.
        UnknownPolicy: no such credit policy.
    """
    Scope(skill=skill).require_known_skill()
    gate = with_policy(gate)
    active = Tip.objects.active().filter(skill=skill)
    total = active.count()
    evidence = _evidence(skill, gate, now, shift or {})
    found = [caught for row in evidence if (caught := held_against(gate, row)) is not None]
    if spare_returned:
        spared = untested_since_return((one.tip_id for one in found), gate.min_retrievals)
        found = [one for one in found if one.tip_id not in spared]
    found.sort(key=lambda one: (one.high, one.mean, one.tip_id))
    allowed = cap_of(gate, total)
    return Verdict(
        skill=skill,
        gate=gate,
        active=total,
        with_evidence=len(evidence),
        caught=tuple(replace(one, over_cap=place >= allowed) for place, one in enumerate(found)),
    )


def cap_of(gate: Eviction, active: int) -> int:
    """Tips that one sweep may retire out of *active*: one is always allowed, unless ``cap`` is 0."""
    # 0.29 x 100 is 28.999999999999996
    share = math.floor(gate.cap_share * active + 1e-9)
    return min(gate.cap, max(1, share))


def evictable(tips: TipQuerySet, gate: Eviction) -> TipQuerySet:
    """Of *tips*, those that no protection keeps in the pool; held again when a sweep is applied."""
    return tips.active().filter(protected=False).exclude(tip_type__in=gate.protected_types)


def _evidence(skill: str, gate: Eviction, now: datetime, shift: Shift) -> list[dict[str, Any]]:
    """The sums of all tips that the gate may judge, in one query, by the index tip_evidence_once."""
    born_by = now - timedelta(days=gate.min_age_days)
    tips = evictable(Tip.objects.filter(skill=skill, created_at__lte=born_by), gate)
    rows = evidence_of(skill, tips, gate)
    if not shift:
        return list(rows.filter(visits__gte=gate.min_retrievals))
    stored = rows.filter(Q(visits__gte=gate.min_retrievals) | Q(tip__in=list(shift)))
    found = {row["tip_id"]: row for row in stored}
    for tip_id in tips.filter(pk__in=shift.keys() - found.keys()).values_list("pk", flat=True):
        found[tip_id] = {"tip_id": tip_id} | dict.fromkeys(SUMS, 0)
    for tip_id in shift.keys() & found.keys():
        for name, moved in shift[tip_id].items():
            found[tip_id][name] += moved
    return [row for row in found.values() if row["visits"] >= gate.min_retrievals]


def evidence_of(
    skill: str, tips: TipQuerySet, gate: Eviction
) -> QuerySet[TipEvidence, dict[str, Any]]:
    """The sums of *tips* of *skill* under the gate's policy, as :func:`held_against` takes them."""
    rows = TipEvidence.objects.filter(
        skill=skill,
        policy=gate.policy,
        level=TipEvidence.Level.TIP,
        tip__in=tips.values("pk"),
    )
    sums: QuerySet[TipEvidence, dict[str, Any]] = rows.order_by("tip_id").values("tip_id", *SUMS)
    return sums


def held_against(gate: Eviction, row: dict[str, Any]) -> Caught | None:
    """Whether the credit of a tip with enough evidence lies below *gate*; the cap is not asked.

    ``row``: columns of TipEvidence and ``tip_id``; at least one visit.
    """
    visits, total = row["visits"], float(row["visit_total"])
    worth = worth_below(gate, Sums(visits, total, float(row["visit_squares"])))
    if worth is None:
        return None
    credit_n = row["credit_n"]
    return Caught(
        tip_id=row["tip_id"],
        cause=cause_of(row),
        mean=round(worth.mean, 6),
        low=round(worth.low, 6),
        high=round(worth.high, 6),
        visits=visits,
        figures={name: row[name] for name in COUNTS}
        | {
            "credit_n": credit_n,
            "credit_mean": rounded(float(row["credit_total"]) / credit_n),
            "visit_mean": rounded(total / visits),
        },
    )


def worth_below(gate: Eviction, visits: Sums) -> ShrunkMean | None:
    """The shrunk credit of a tip that lies below *gate*; None: it does not. Evidence is not asked."""
    if visits.total / visits.n >= gate.threshold:  # of the plain mean: the prior cannot change it
        return None
    worth = shrunk(visits, prior_mean=gate.threshold, strength=PRIOR_VISITS, prior_sd=PRIOR_SD)
    return None if gate.interval_below and worth.high >= gate.threshold else worth


def cause_of(counts: dict[str, Any]) -> str:
    """The quadrant that weighs most among those that speak against a tip, by retrievals.

    misleading: followed into failure. lucky_neighbour: ignored at success. dead_weight: ignored at
    failure, or nobody knows whether it was ever followed. Of equal counts the more harmful one names
    the cause, in this order; earned rows do not enter, they only raise the credit.
    """
    misleading, lucky = counts["misleading"], counts["lucky_neighbour"]
    if misleading and misleading >= max(lucky, counts["bystander"]):
        return Cause.MISLEADING.value
    if lucky and lucky >= counts["bystander"]:
        return Cause.LUCKY_NEIGHBOUR.value
    return Cause.DEAD_WEIGHT.value


def untested_since_return(tips: Iterable[int], wanted: int) -> set[int]:
    """Of *tips*, those that came back and have had fewer than *wanted* visits since then.

    An automatic sweep leaves them alone: without new evidence it would only take back what a person
    decided.
    """
    came_back = dict(
        TipChange.objects.filter(tip__in=list(tips), action=TipChange.Action.REACTIVATE)
        .order_by()
        .values("tip_id")
        .annotate(last=Max("at"))
        .values_list("tip_id", "last")
    )
    since = visits_since(came_back)
    return {tip_id for tip_id in came_back if since[tip_id] < wanted}


def visits_since(moments: Mapping[int, datetime]) -> Counter[int]:
    """Visits of each tip (by primary key) after its own moment; one query, none for no tip.

    A visit here is a rule of a run at which the tip was shown and the outcome is known.
    """
    if not moments:
        return Counter()
    visits = (
        Retrieval.objects.counted()
        .filter(PRESENT & GRADED, tip__in=list(moments), retrieved_at__gt=min(moments.values()))
        .order_by()
        .values("tip_id", "run_id", "rule_id")
        .annotate(last=Max("retrieved_at"))
        .values_list("tip_id", "last")
    )
    return Counter(tip_id for tip_id, last in visits if last > moments[tip_id])
