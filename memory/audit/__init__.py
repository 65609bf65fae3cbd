"""The audit of a memory: six sections, signal coverage and agreement, each from aggregate queries.

``audit(skill=…, run=…, policy=…)`` gives an AuditReport; ``render`` prints one, ``as_dict`` is its JSON.
Guarantees: one scope and one moment for every section, whatever is ingested meanwhile; superseded
revisions excluded, every rate with its n; judges that no calibration covers are named; the same rows
and calibrations give the same report but for ``generated_at`` and the 7 and 30 day counts. No section
loads rows: at most one aggregated row per tip reaches Python.

Does not change anything. What is misleading or stale is shown with its evidence, to be decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.utils import timezone

from memory.audit.cohorts import Cohorts, cohorts
from memory.audit.outcomes import Outcomes, outcome_distribution
from memory.audit.plain import fields_as_data
from memory.audit.pool import RunActivity, TipPool, run_activity, tip_pool
from memory.audit.scope import Scope, ScopeError
from memory.audit.suspects import StaleTip, Suspect, stale_tips, suspects
from memory.credit import FOLLOW_CHAIN, Signal
from memory.provenance import UncalibratedSource, uncalibrated_sources
from memory.signals import Agreement, Coverage, agreement, coverage
from memory.snapshot import one_moment

if TYPE_CHECKING:
    from datetime import datetime

    from memory.credit import Policy
    from memory.models import Run
    from memory.querysets import RetrievalQuerySet

__all__ = ["AuditReport", "Scope", "ScopeError", "audit"]

REPORT_VERSION: Final = 1
"""Of the shape of ``as_dict``."""

LIMIT: Final = 15
"""Entries per list of the report."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditReport:
    """Six sections and the two about signals; lists are the *limit* most telling entries.

    ``policy_reads``: the signals that the policy's credit asks, in this order; every other figure
    of the report, the credit by quadrants included, asks all there are.
    ``uncalibrated_sources``: judges whose verdicts the report shows and nobody vouches for.
    """

    generated_at: datetime
    scope: Scope
    policy: str
    policy_reads: tuple[str, ...]
    limit: int
    tip_pool: TipPool
    activity: list[RunActivity]
    cohorts: Cohorts
    misleading: list[Suspect]
    lucky_neighbours: list[Suspect]
    outcomes: Outcomes
    stale_confident: list[StaleTip]
    coverage: list[Coverage]
    agreement: list[Agreement]
    uncalibrated_sources: tuple[UncalibratedSource, ...]

    @property
    def policy_ignores(self) -> tuple[str, ...]:
        """Signals that the report reads and the policy's credit does not."""
        return tuple(signal for signal in FOLLOW_CHAIN if signal not in self.policy_reads)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON: numbers rounded to six places, times in ISO 8601."""
        return {"version": REPORT_VERSION, **fields_as_data(self)}


def audit(
    *,
    policy: Policy,
    skill: str | None = None,
    run: Run | None = None,
    limit: int = LIMIT,
    now: datetime | None = None,
) -> AuditReport:
    """Audit one run, one skill, or all there is, as of one moment (see ``memory.snapshot``).

    Raises:
        ScopeError: *run* is of another skill, or superseded; nothing is stored about *skill*.
    """
    scope = Scope(skill=skill, run=run)
    with one_moment():
        scope.require_known_skill()
        return _report(scope, policy, limit=limit, moment=now or timezone.now())


def _report(scope: Scope, policy: Policy, *, limit: int, moment: datetime) -> AuditReport:
    rows = scope.retrievals()
    unproved = uncalibrated_sources(rows)
    names = frozenset(judge.source for judge in unproved)
    misleading, lucky = suspects(scope, policy, limit=limit, uncalibrated=names)
    return AuditReport(
        generated_at=moment,
        scope=scope,
        policy=policy.name,
        policy_reads=policy.chain,
        limit=limit,
        tip_pool=tip_pool(scope, now=moment),
        activity=run_activity(scope, policy, limit=limit),
        cohorts=cohorts(scope, policy, limit=limit),
        misleading=misleading,
        lucky_neighbours=lucky,
        outcomes=outcome_distribution(scope),
        stale_confident=stale_tips(scope, limit=limit),
        coverage=coverage(rows),
        agreement=_agreement(rows, unproved),
        uncalibrated_sources=unproved,
    )


def _agreement(
    rows: RetrievalQuerySet, unproved: tuple[UncalibratedSource, ...]
) -> list[Agreement]:
    """Agreement of the signals, in which judges without figures do not count."""
    found = agreement(rows)
    left_out = [judge.source for judge in unproved if not judge.in_figures]
    if not left_out:
        return found
    kept = agreement(rows.exclude(llm_source__in=left_out))
    return [
        fewer if Signal.LLM in (pair.first, pair.second) else pair
        for pair, fewer in zip(found, kept, strict=True)
    ]
