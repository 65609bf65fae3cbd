"""What a run's visits say about each tip: shrunk means with intervals, one observation per visit.

A *visit* is a run's attempts at one rule. Its value is the mean over its rows, rounded to twelve places
(as in ``memory.models.evidence``), so that ten attempts at one rule weigh as much as a first success.

Guarantees: sums are exact decimals in a fixed order, rounded once at the end; one query. The prior of a
value is the run's own mean of it over all visits, worth STRENGTH visits: a tip with one visit stands near
what the run's tips did on average, with a wide interval. Does not read other runs: what all of them say
of a tip is ``memory.evidence``'s.

Shaped by: means of one row beside means of a hundred, both printed as if they were known.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Count, F, Q, Sum

from memory.credit import credit_sql, followed_q, ignored_q
from memory.evidence import Sums
from memory.rates import rounded
from memory.shrinkage import PRIOR_SD, shrunk
from memory.tallies import GRADED, PRESENT, exact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet

    from memory.credit import Policy
    from memory.querysets import RetrievalQuerySet

STRENGTH: Final = 2.0
"""Visits that the run's own mean is worth, when it stands in for what is not known of a tip."""

VALUES: Final = ("outcome_when_present", "outcome_when_followed", "credit")

_EXACT: Final = Context(prec=80, rounding=ROUND_HALF_UP)
_PLACES: Final = Decimal("1e-12")


@dataclass(frozen=True, kw_only=True, slots=True)
class TipVisits:
    """``known``: visits with a row whose outcome and following are known. ``means``: by VALUES."""

    known: int
    means: dict[str, dict[str, float | int | None]]

    @property
    def followed(self) -> int:
        """Visits that followed the tip, and were graded."""
        return self.means["outcome_when_followed"]["n"] or 0  # type: ignore[return-value]

    def as_dict(self) -> dict[str, Any]:
        """Plain data; each mean with the ends of its 95 % interval and its number of visits."""
        return {"known": self.known, **self.means}


NO_VISITS: Final = TipVisits(
    known=0, means={name: {"mean": None, "low": None, "high": None, "n": 0} for name in VALUES}
)
"""Of a tip without rows."""


def visits_by_tip(rows: RetrievalQuerySet, policy: Policy) -> dict[int, TipVisits]:
    """Primary key of a tip -> its visits among *rows*, which are those of one run."""
    known: dict[int, int] = {}
    means: dict[str, dict[int, list[Decimal]]] = {name: {} for name in VALUES}
    for visit in _visits(rows, policy):
        tip = visit["tip_id"]
        known[tip] = known.get(tip, 0) + bool(visit["known_rows"])
        for name in VALUES:
            if visit[f"{name}_n"]:
                mean = _mean(visit[f"{name}_total"], visit[f"{name}_n"])
                means[name].setdefault(tip, []).append(mean)
    shrunk_means = {name: _shrunk(found) for name, found in means.items()}
    return {
        tip: TipVisits(
            known=n,
            means={name: shrunk_means[name].get(tip, NO_VISITS.means[name]) for name in VALUES},
        )
        for tip, n in known.items()
    }


def _visits(rows: RetrievalQuerySet, policy: Policy) -> Iterable[dict[str, Any]]:
    value, credit = exact(F("outcome_value")), credit_sql(policy)
    present, followed = PRESENT & GRADED, followed_q() & GRADED
    answered = (followed_q() | ignored_q()) & Q(outcome_value__isnull=False)
    sums = {
        "outcome_when_present_total": Sum(value, filter=present),
        "outcome_when_present_n": Count("pk", filter=present),
        "outcome_when_followed_total": Sum(value, filter=followed),
        "outcome_when_followed_n": Count("pk", filter=followed),
        "credit_total": Sum(exact(credit)),
        "credit_n": Count(credit),
        "known_rows": Count("pk", filter=answered),
    }
    key = ("tip_id", "rule_id")
    visits: QuerySet[Any, dict[str, Any]] = rows.values(*key).annotate(**sums).order_by(*key)
    return visits.iterator()


def _mean(total: Decimal, n: int) -> Decimal:
    return _EXACT.quantize(_EXACT.divide(total, Decimal(n)), _PLACES)


def _shrunk(means: dict[int, list[Decimal]]) -> dict[int, dict[str, float | int | None]]:
    """Per tip, toward the mean of all visits."""
    everything = [mean for of_tip in means.values() for mean in of_tip]
    if not everything:
        return {}
    prior = float(_EXACT.divide(_total(everything), Decimal(len(everything))))
    found = {}
    for tip, of_tip in means.items():
        squares = _total(_EXACT.multiply(mean, mean) for mean in of_tip)
        sums = Sums(len(of_tip), float(_total(of_tip)), float(squares))
        best = shrunk(sums, prior_mean=prior, strength=STRENGTH, prior_sd=PRIOR_SD)
        found[tip] = {
            "mean": rounded(best.mean),
            "low": rounded(best.low),
            "high": rounded(best.high),
            "n": best.n,
        }
    return found


def _total(values: Iterable[Decimal]) -> Decimal:
    total = Decimal(0)
    for value in values:
        total = _EXACT.add(total, value)
    return total
