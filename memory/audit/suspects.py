"""Audit sections 4 and 6: misleading tips, lucky neighbours, and tips that the record does not bear out.

A *misleading* tip was followed into failures; a *lucky neighbour* stood by at successes and was
ignored. Guarantees: the two are ranked apart, a tip that is both is in both lists and says so; the
order is by the lower end of the interval, so that 9 of 10 outranks 1 of 1; each suspect comes with
the rows that speak against it and with the signal that said "followed" (or "ignored"), marked where
that is a judge without a calibration.

Does not retire anything, and does not prove cause: a followed tip may fail for a reason of its own.
Shaped by: a detector that asked for average outcomes above 0.4, and so could not see a tip whose
every follower failed (ADR-0019).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Avg, Count, F, FloatField, Window
from django.db.models.functions import Cast, RowNumber

from memory.credit import Quadrant, Signal, quadrant_q, source_sql
from memory.models import Tip
from memory.rates import Rate, rounded
from memory.tallies import GRADED, PRESENT, Tally, exact, tally_aggregates, tally_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memory.audit.scope import Scope
    from memory.credit import Policy

EVIDENCE_ROWS: Final = 5
"""Rows shown per suspect."""

EXCERPT: Final = 240
"""Characters of a tip's text in a report."""

SUSPECT: Final = (Quadrant.MISLEADING, Quadrant.LUCKY_NEIGHBOUR)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """A row that speaks against a tip. ``source``: the signal that answered (review, llm, …).

    ``uncalibrated``: that was a judge whom no calibration covers.
    """

    retrieval_id: int
    run: str
    rule_id: str
    attempt: int
    outcome_value: float
    source: str
    uncalibrated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspect:
    """A tip, its counts, and ``rate``: failures among followed rows, or ignored among successes."""

    tip_id: int
    tip: str
    skill: str
    tip_type: str
    retired: bool
    text: str
    also: str
    rate: Rate
    tally: Tally
    evidence: tuple[Evidence, ...]


def suspects(
    scope: Scope, policy: Policy, *, limit: int, uncalibrated: frozenset[str]
) -> tuple[list[Suspect], list[Suspect]]:
    """The *limit* worst misleading tips and lucky neighbours; five queries.

    ``uncalibrated``: the judges (as in ``llm_source``) whose word is marked where it is evidence.
    """
    rows = scope.retrievals().values("tip_id").annotate(**tally_aggregates(policy))
    worst: dict[Quadrant, list[_Ranked]] = {which: [] for which in SUSPECT}
    for row in rows.iterator():
        tally = tally_of(row)
        for which in SUSPECT:
            if tally.quadrants[which]:
                _keep(worst[which], _rank(which, tally, row["tip_id"]), limit)
    misleading, lucky = (_suspects(scope, which, worst[which], uncalibrated) for which in SUSPECT)
    return misleading, lucky


def _suspects(
    scope: Scope, which: Quadrant, kept: list[_Ranked], uncalibrated: frozenset[str]
) -> list[Suspect]:
    tips = Tip.objects.in_bulk([ranked.tip_id for ranked in kept])
    evidence = _evidence(scope, which, list(tips), uncalibrated)
    return [
        _suspect(which, ranked, tips[ranked.tip_id], evidence.get(ranked.tip_id, []))
        for ranked in sorted(kept, reverse=True)
    ]


@dataclass(frozen=True, order=True, slots=True)
class _Ranked:
    """Sorts by the weight of the evidence; among equals the older tip is the worse one."""

    low: float
    n: int
    minus_tip_id: int
    tally: Tally

    @property
    def tip_id(self) -> int:
        return -self.minus_tip_id


def _rate(which: Quadrant, tally: Tally) -> Rate:
    if which is Quadrant.MISLEADING:
        return tally.fail_rate_when_followed
    return tally.ignored_rate_at_success


def _rank(which: Quadrant, tally: Tally, tip_id: int) -> _Ranked:
    return _Ranked(_rate(which, tally).low, tally.quadrants[which], -tip_id, tally)


def _keep(kept: list[_Ranked], ranked: _Ranked, limit: int) -> None:
    """Hold the *limit* worst in a heap, whatever the number of tips."""
    if len(kept) < limit:
        heapq.heappush(kept, ranked)
    else:
        heapq.heappushpop(kept, ranked)


def _suspect(which: Quadrant, ranked: _Ranked, tip: Tip, evidence: list[Evidence]) -> Suspect:
    (other,) = (quadrant for quadrant in SUSPECT if quadrant is not which)
    return Suspect(
        tip_id=tip.pk,
        tip=tip.external_id,
        skill=tip.skill,
        tip_type=tip.tip_type,
        retired=tip.retired_at is not None,
        text=tip.text[:EXCERPT],
        also=str(other) if ranked.tally.quadrants[other] else "",
        rate=_rate(which, ranked.tally),
        tally=ranked.tally,
        evidence=tuple(evidence),
    )


def _evidence(
    scope: Scope, which: Quadrant, tips: list[int], uncalibrated: frozenset[str]
) -> dict[int, list[Evidence]]:
    """Per tip the worst (for lucky neighbours: the best) outcomes, newest runs first; one query."""
    by_outcome = F("outcome_value")
    order = by_outcome.asc() if which is Quadrant.MISLEADING else by_outcome.desc()
    place = Window(
        RowNumber(), partition_by="tip_id", order_by=[order, F("run__started_at").desc(), "pk"]
    )
    rows = (
        scope.retrievals()
        .filter(quadrant_q(which), tip__in=tips)
        .annotate(place=place, source=source_sql())
        .filter(place__lte=EVIDENCE_ROWS)
        .order_by("tip_id", "place")
        .values_list(
            "tip_id",
            "pk",
            "run__external_id",
            "rule_id",
            "attempt__number",
            "outcome_value",
            "source",
            "llm_source",
        )
    )
    found: dict[int, list[Evidence]] = {}
    for tip_id, pk, run, rule_id, number, value, source, judge in rows:
        one = Evidence(
            retrieval_id=pk,
            run=run,
            rule_id=rule_id,
            attempt=number,
            outcome_value=value or 0.0,  # never NULL: a quadrant has an outcome
            source=source,
            uncalibrated=source == Signal.LLM and judge in uncalibrated,
        )
        found.setdefault(tip_id, []).append(one)
    return found


# --- Section 6 ------------------------------------------------------------------------------------

STALE_SOURCE: Final = Decimal("0.5")
STALE_RETRIEVALS: Final = 5
STALE_OUTCOME: Final = 0.1
"""Born of an outcome worth more than the first, graded at least so often, on average below the last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StaleTip:
    """An active tip whose record does not bear out the success that it came from."""

    tip_id: int
    tip: str
    skill: str
    tip_type: str
    text: str
    source_value: float
    source_confidence: float
    retrievals: int
    outcome_when_present: float


def stale_tips(scope: Scope, *, limit: int) -> list[StaleTip]:
    """Worst average outcome first, then most retrievals; one query."""
    # in decimals: a product of two tiny floats is an error to Postgres, not zero
    source = exact(F("tip__outcome_at_source_value")) * exact(
        F("tip__outcome_at_source_confidence")
    )
    rows = (
        scope.retrievals()
        .filter(PRESENT & GRADED, tip__retired_at__isnull=True)
        .alias(promised=source)
        .filter(promised__gt=STALE_SOURCE)
        .values("tip_id")
        .annotate(n=Count("pk"), average=Cast(Avg(exact(F("outcome_value"))), FloatField()))
        .filter(n__gte=STALE_RETRIEVALS, average__lt=STALE_OUTCOME)
        .order_by("average", "-n", "tip_id")[:limit]
    )
    found = list(rows)
    tips = Tip.objects.in_bulk([row["tip_id"] for row in found])
    return [_stale(tips[row["tip_id"]], row) for row in found]


def _stale(tip: Tip, row: Mapping[str, Any]) -> StaleTip:
    return StaleTip(
        tip_id=tip.pk,
        tip=tip.external_id,
        skill=tip.skill,
        tip_type=tip.tip_type,
        text=tip.text[:EXCERPT],
        source_value=tip.outcome_at_source_value or 0.0,
        source_confidence=tip.outcome_at_source_confidence or 0.0,
        retrievals=row["n"],
        outcome_when_present=rounded(row["average"]) or 0.0,
    )
