"""Audit sections 1 and 2: the tips there are, and what the latest runs retrieved.

Guarantees: a tip is counted once, however often it was retrieved; "new" means first stored here within
the last 7 or 30 days of the moment given. Does not know when a sender wrote a tip: logs do not say.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Q

from memory.tallies import EMPTY, Tally, tally_aggregates, tally_of

if TYPE_CHECKING:
    from memory.audit.scope import Scope
    from memory.credit import Policy

ACTIVE = Q(retired_at__isnull=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class TypeCount:
    """Tips of one type."""

    tip_type: str
    total: int
    active: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TipPool:
    """Section 1. Counts of tips."""

    total: int
    active: int
    retired: int
    with_text: int
    new_7_days: int
    new_30_days: int
    by_type: tuple[TypeCount, ...]


def tip_pool(scope: Scope, *, now: datetime) -> TipPool:
    """Two aggregate queries over the tips in scope."""
    counts = scope.tips().aggregate(
        total=Count("pk"),
        active=Count("pk", filter=ACTIVE),
        retired=Count("pk", filter=~ACTIVE),
        with_text=Count("pk", filter=~Q(text="")),
        new_7_days=Count("pk", filter=Q(created_at__gt=now - timedelta(days=7))),
        new_30_days=Count("pk", filter=Q(created_at__gt=now - timedelta(days=30))),
    )
    types = (
        scope.tips()
        .values("tip_type")
        .annotate(total=Count("pk"), active_n=Count("pk", filter=ACTIVE))
        .order_by("-total", "tip_type")
    )
    by_type = tuple(
        TypeCount(tip_type=row["tip_type"], total=row["total"], active=row["active_n"])
        for row in types
    )
    return TipPool(**counts, by_type=by_type)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunActivity:
    """Section 2. One run and its retrievals."""

    run_id: int
    external_id: str
    skill: str
    status: str
    started_at: datetime
    tally: Tally

    def as_dict(self) -> dict[str, Any]:
        """Plain data, flat."""
        return {
            "run_id": self.run_id,
            "external_id": self.external_id,
            "skill": self.skill,
            "status": self.status,
            "started_at": self.started_at.isoformat(),
            **self.tally.as_dict(),
        }


def run_activity(scope: Scope, policy: Policy, *, limit: int) -> list[RunActivity]:
    """The *limit* latest runs in scope, a run without retrievals included; two queries."""
    runs = list(scope.runs().only("pk", "external_id", "skill", "status", "started_at")[:limit])
    rows = (
        scope.retrievals()
        .filter(run__in=[run.pk for run in runs])
        .values("run_id")
        .annotate(**tally_aggregates(policy))
    )
    tallies = {row["run_id"]: tally_of(row) for row in rows}
    return [
        RunActivity(
            run_id=run.pk,
            external_id=run.external_id,
            skill=run.skill,
            status=run.status,
            started_at=run.started_at,
            tally=tallies.get(run.pk, EMPTY),
        )
        for run in runs
    ]
