"""How large a memory is, how it grew, and what its tips did at successes and failures.

Guarantees: a tip is counted once; months are those in which it was first stored, or retired, here (UTC).
Shares are over retrieval rows, with intervals that treat the rows of a rule as hanging together, since
the tips of an attempt share its outcome and the attempts at a rule its difficulty. Does not know when a
sender wrote a tip, nor of a retirement that was undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Final

from django.db.models import Count, Q
from django.db.models.functions import TruncMonth

from memory.credit import POLICIES, Quadrant
from memory.diagnosis_rates import clustered_difference, clustered_rate
from memory.models import Attempt, Retrieval, Tip
from memory.rates import Rate
from memory.tallies import EMPTY, pooled, tally_aggregates, tally_of

if TYPE_CHECKING:
    from datetime import datetime

    from memory.credit import Policy
    from memory.diagnosis_rates import ClusteredDifference, ClusteredRate
    from memory.rates import Mean
    from memory.tallies import Tally

MONTHS: Final = 12
"""Months listed, the latest in which anything changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Month:
    """``active``: tips that were active at its end."""

    month: str
    added: int
    retired: int
    active: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Tips of a skill. ``rules``: different ones attempted. ``growth``: net per calendar month."""

    total: int
    active: int
    retired: int
    rules: int
    active_per_rule: float | None
    growth: float | None
    months: tuple[Month, ...]


def corpus(skill: str) -> Corpus:
    """Four aggregate queries."""
    tips = Tip.objects.filter(skill=skill).order_by()
    counts = tips.aggregate(
        total=Count("pk"), retired=Count("pk", filter=Q(retired_at__isnull=False))
    )
    tried = Attempt.objects.filter(skill=skill, run__superseded_at__isnull=True)
    rules = tried.aggregate(n=Count("rule_id", distinct=True))["n"]
    months = _months(skill)
    active = counts["total"] - counts["retired"]
    return Corpus(
        total=counts["total"],
        active=active,
        retired=counts["retired"],
        rules=rules,
        active_per_rule=active / rules if rules else None,
        growth=active / _span(months[0], months[-1]) if months else None,
        months=tuple(months[-MONTHS:]),
    )


def _months(skill: str) -> list[Month]:
    added, retired = _per_month(skill, "created_at"), _per_month(skill, "retired_at")
    found, active = [], 0
    for month in sorted(added.keys() | retired.keys()):
        active += added.get(month, 0) - retired.get(month, 0)
        found.append(
            Month(
                month=month,
                added=added.get(month, 0),
                retired=retired.get(month, 0),
                active=active,
            )
        )
    return found


def _per_month(skill: str, field: str) -> dict[str, int]:
    rows = (
        Tip.objects.filter(skill=skill, **{f"{field}__isnull": False})
        .order_by()
        .values_list(TruncMonth(field, tzinfo=UTC))
        .annotate(n=Count("pk"))
    )
    found: list[tuple[datetime, int]] = list(rows)
    return {f"{month:%Y-%m}": n for month, n in found}


def _span(first: Month, last: Month) -> int:
    """Calendar months from the first to the last, both counted."""
    places = [12 * int(one.month[:4]) + int(one.month[5:]) for one in (first, last)]
    return places[1] - places[0] + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribution:
    """What shown tips did. Shares of retrieval rows, with clusters by rule.

    ``lucky``: ignored, among the rows present at a success with a known answer; ``misleading``: failed,
    among the graded rows that were followed; ``failed_when_ignored`` stands beside it to compare.
    ``unknown``: shown rows about which no signal says anything, of all shown. ``credit`` is the mean by
    the policy asked for, ``credit_outcome_only`` what the same rows would earn by outcome alone.
    ``followed_at_failure``: share of rows followed in failed attempts less that in successful ones,
    within rules that have both; retries make most rows failures, so that the plain share of failures
    says little. A tip that is followed always, or only in rules that are never solved, is not in it.
    """

    lucky: ClusteredRate
    misleading: ClusteredRate
    failed_when_ignored: ClusteredRate
    followed_at_failure: ClusteredDifference
    unknown: Rate
    credit: Mean
    credit_outcome_only: Mean


def attribution(skill: str, policy: Policy) -> Attribution:
    """Two aggregate queries over the counted rows of *skill*; one row per rule reaches Python."""
    rows = Retrieval.objects.counted().filter(skill=skill).order_by()
    per_rule = rows.values("rule_id").annotate(**tally_aggregates(policy))
    tallies = [tally_of(row) for row in per_rule.iterator()]
    whole = EMPTY
    for tally in tallies:
        whole = pooled(whole, tally)
    shown = rows.filter(shown=True)
    by_outcome = tally_of(shown.aggregate(**tally_aggregates(POLICIES["outcome_only"])))
    return Attribution(
        lucky=clustered_rate([tally.ignored_rate_at_success for tally in tallies]),
        misleading=clustered_rate([tally.fail_rate_when_followed for tally in tallies]),
        failed_when_ignored=clustered_rate([_failed_when_ignored(tally) for tally in tallies]),
        followed_at_failure=clustered_difference([_following(tally) for tally in tallies]),
        unknown=Rate(whole.unknown, whole.shown),
        credit=whole.credit,
        credit_outcome_only=by_outcome.credit,
    )


def _failed_when_ignored(tally: Tally) -> Rate:
    failed = tally.quadrants[Quadrant.BYSTANDER]
    return Rate(failed, failed + tally.quadrants[Quadrant.LUCKY_NEIGHBOUR])


def _following(tally: Tally) -> tuple[Rate, Rate]:
    """Followed, of the known rows of failed attempts and of successful ones."""
    n = tally.quadrants
    misleading, earned = n[Quadrant.MISLEADING], n[Quadrant.EARNED]
    return (
        Rate(misleading, misleading + n[Quadrant.BYSTANDER]),
        Rate(earned, earned + n[Quadrant.LUCKY_NEIGHBOUR]),
    )
