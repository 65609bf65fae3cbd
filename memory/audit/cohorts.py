"""Audit section 3: do tips that came later help more than those that came earlier?

A cohort is the tips whose first retrieval, in the whole history of their skill, was in the same run
(or in a run of the same month). Guarantees: a tip is in exactly one cohort of each kind, also when
the audit is about a later run; rates are over the rows in scope and carry their n. Does not compare
like with like: later runs have other rules left to solve.

Shaped by: a cohort table whose "helpful %" could be negative and whose tips were counted per retrieval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import F

from memory.models import Retrieval
from memory.tallies import EMPTY, Tally, pooled, tally_aggregates, tally_of

if TYPE_CHECKING:
    from memory.audit.scope import Scope
    from memory.credit import Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class Cohort:
    """Tips that came up together. ``key``: a month (YYYY-MM) or a run's external id."""

    key: str
    skill: str
    tips: int
    tally: Tally

    def as_dict(self) -> dict[str, Any]:
        """Plain data, flat."""
        return {"key": self.key, "skill": self.skill, "tips": self.tips, **self.tally.as_dict()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cohorts:
    """Section 3, by either key, latest first."""

    by_month: list[Cohort]
    by_first_run: list[Cohort]


def cohorts(scope: Scope, policy: Policy, *, limit: int) -> Cohorts:
    """The *limit* latest cohorts of each kind. Two queries, one aggregated row per tip each."""
    first_runs = _first_runs(scope)
    months: dict[tuple[str, str], Cohort] = {}
    runs: dict[tuple[str, str, str], Cohort] = {}
    per_tip = scope.retrievals().values("tip_id", "skill").annotate(**tally_aggregates(policy))
    for row in per_tip.iterator():
        started, external_id = first_runs[row["tip_id"]]
        skill, tally = row["skill"], tally_of(row)
        month = started[:7]
        _add(months, (month, skill), month, skill, tally)
        _add(runs, (started, external_id, skill), external_id, skill, tally)
    return Cohorts(by_month=_latest(months, limit), by_first_run=_latest(runs, limit))


def _first_runs(scope: Scope) -> dict[int, tuple[str, str]]:
    """Per tip in scope: start (ISO 8601) and external id of the run that retrieved it first."""
    history = Retrieval.objects.counted().filter(tip__in=scope.tips().values("pk"))
    first = (
        history.order_by("tip_id", "run__started_at", "run_id")
        .distinct("tip_id")
        .values("tip_id", started=F("run__started_at"), external_id=F("run__external_id"))
        .iterator()
    )
    return {row["tip_id"]: (row["started"].isoformat(), row["external_id"]) for row in first}


def _add(found: dict[Any, Cohort], group: Any, key: str, skill: str, tally: Tally) -> None:
    so_far = found.get(group)
    found[group] = Cohort(
        key=key,
        skill=skill,
        tips=(so_far.tips if so_far else 0) + 1,
        tally=pooled(so_far.tally if so_far else EMPTY, tally),
    )


def _latest(found: dict[Any, Cohort], limit: int) -> list[Cohort]:
    return [found[group] for group in sorted(found, reverse=True)[:limit]]
