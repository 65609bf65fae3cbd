"""The statistics of a diagnosis: differences within runs or rules, and rates of rows that hang together.

Guarantees: pure numbers, no database; every figure comes with an interval that is at least as wide as
the one that independent observations would have. The difference is Mantel and Haenszel's over strata
(a run is a stratum), its test is Cochran-Mantel-Haenszel without continuity correction (Mantel and
Haenszel 1959, JNCI 22:719-748). Its 95 % interval leaves out one category at a time (jackknife, Student's
t), because history belongs to a category and not to a rule; it is never narrower than Newcombe's hybrid
score interval of the pooled arms (Newcombe 1998, Statistics in Medicine 17:873-890). The rate of
clustered rows is Wilson's with the effective sample size (Korn and Graubard 1998, Survey Methodology
24:193-201, for the idea).

Does not remove what differs between categories: a hard category stays hard in every run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from scipy.stats import t as student  # type: ignore[import-untyped]  # scipy ships no types

from memory.rates import Rate, rounded, wilson, wilson_of_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NO_RATE: Final = Rate(0, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Arms:
    """The two sides of one stratum."""

    old: Rate
    young: Rate

    @property
    def usable(self) -> bool:
        """Both sides are there to be compared."""
        return bool(self.old.n and self.young.n)


Strata: TypeAlias = "Mapping[int, Mapping[str, Arms]]"
"""Per run, per category: its rate on the side it is on. A category has one side in one run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WithinRuns:
    """Old less young within runs, in [-1, 1]. A category may be young in one run and old in another."""

    strata: int
    old: Rate
    young: Rate
    old_categories: int
    young_categories: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "runs_compared": self.strata,
            "long_history": self.old.as_dict(),
            "fresh_history": self.young.as_dict(),
            "long_categories": self.old_categories,
            "fresh_categories": self.young_categories,
            "difference": rounded(self.difference),
            "low": rounded(self.low),
            "high": rounded(self.high),
            "p": rounded(self.p),
        }


def within_runs(strata: Strata) -> WithinRuns:
    """Compare the sides in the runs that have both; no interval with one category on a side."""
    usable = {run: cells for run, cells in strata.items() if _pooled(cells.values()).usable}
    arms = [_pooled(in_run.values()) for in_run in usable.values()]
    pooled = _pooled(arms)
    difference = mantel_haenszel(arms)
    low, high = _interval(usable, pooled, difference)
    cells = [cell for in_run in usable.values() for cell in in_run.items()]
    return WithinRuns(
        strata=len(arms),
        old=pooled.old,
        young=pooled.young,
        old_categories=len({name for name, cell in cells if cell.old.n}),
        young_categories=len({name for name, cell in cells if cell.young.n}),
        difference=difference,
        low=low,
        high=high,
        p=cochran(arms),
    )


def _pooled(cells: Iterable[Arms]) -> Arms:
    old = young = NO_RATE
    for cell in cells:
        old, young = old + cell.old, young + cell.young
    return Arms(old=old, young=young)


def mantel_haenszel(arms: Iterable[Arms]) -> float | None:
    """Weighted mean of the differences old less young; None when no stratum has both sides."""
    total = weights = 0.0
    for one in arms:
        if one.usable:
            weight = _weight(one)
            total += weight * (one.old.hits / one.old.n - one.young.hits / one.young.n)
            weights += weight
    return total / weights if weights else None


def _weight(one: Arms) -> float:
    return one.old.n * one.young.n / (one.old.n + one.young.n)


def cochran(arms: Iterable[Arms]) -> float | None:
    """Two-sided p of no difference in any stratum; None when none has both sides."""
    excess = variance = 0.0
    known = False
    for one in arms:
        if not one.usable:
            continue
        known = True
        n, hits = one.old.n + one.young.n, one.old.hits + one.young.hits
        excess += one.old.hits - one.old.n * hits / n
        variance += one.old.n * one.young.n * hits * (n - hits) / (n * n * (n - 1))
    if not known:
        return None
    return math.erfc(abs(excess) / math.sqrt(2 * variance)) if variance else 1.0


def _interval(
    strata: Strata, pooled: Arms, difference: float | None
) -> tuple[float | None, float | None]:
    spread = _jackknife(strata)
    if difference is None or spread is None:
        return None, None
    below, above = _score_widths(pooled.old, pooled.young)
    return max(-1.0, difference - max(spread, below)), min(1.0, difference + max(spread, above))


def _jackknife(strata: Strata) -> float | None:
    """Half of the 95 % interval from leaving out one category at a time; None: a side is then empty."""
    names = sorted({name for cells in strata.values() for name in cells})
    without = [
        mantel_haenszel(
            _pooled(cell for other, cell in cells.items() if other != name)
            for cells in strata.values()
        )
        for name in names
    ]
    known = [one for one in without if one is not None]
    return _half_width(known) if 2 <= len(names) == len(known) else None


def _half_width(without: Sequence[float]) -> float:
    """Half of a 95 % interval from the figures that remain when one cluster at a time is left out."""
    m = len(without)
    mean = sum(without) / m
    variance = (m - 1) / m * sum((one - mean) ** 2 for one in without)
    return float(student.ppf(0.975, m - 1)) * math.sqrt(variance)


def _score_widths(one: Rate, other: Rate) -> tuple[float, float]:
    """How far Newcombe's interval of *one* less *other* reaches below and above the difference."""
    share, other_share = one.hits / one.n, other.hits / other.n
    low, high = wilson(one.hits, one.n) or (0.0, 1.0)
    other_low, other_high = wilson(other.hits, other.n) or (0.0, 1.0)
    below = math.hypot(share - low, other_high - other_share)
    return below, math.hypot(high - share, other_share - other_low)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusteredDifference:
    """``one`` less ``other`` within clusters, in [-1, 1]; the rates are those of the clusters used."""

    one: Rate
    other: Rate
    clusters: int
    difference: float | None
    low: float | None
    high: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "one": self.one.as_dict(),
            "other": self.other.as_dict(),
            "clusters": self.clusters,
            "difference": rounded(self.difference),
            "low": rounded(self.low),
            "high": rounded(self.high),
        }


def clustered_difference(pairs: Sequence[tuple[Rate, Rate]]) -> ClusteredDifference:
    """Mantel and Haenszel's difference with clusters as strata; those without either side are left out.

    The interval leaves out one cluster at a time, and is never narrower than Newcombe's of the rows.
    """
    arms = [Arms(old=one, young=other) for one, other in pairs if one.n and other.n]
    whole, m = _pooled(arms), len(arms)
    difference = mantel_haenszel(arms)
    low = high = None
    if difference is not None and m > 1:
        parts = [(mantel_haenszel([arm]) or 0.0, _weight(arm)) for arm in arms]
        total = sum(weight for _, weight in parts)
        without = [
            (difference * total - part * weight) / (total - weight) for part, weight in parts
        ]
        spread = _half_width(without)
        below, above = _score_widths(whole.old, whole.young)
        low = max(-1.0, difference - max(spread, below))
        high = min(1.0, difference + max(spread, above))
    return ClusteredDifference(
        one=whole.old, other=whole.young, clusters=m, difference=difference, low=low, high=high
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusteredRate:
    """A rate of rows in clusters. ``effective_n``: independent rows that would say as much."""

    rate: Rate
    clusters: int
    effective_n: float
    low: float | None
    high: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain data; low and high are those of the clustered rows."""
        return {
            "rate": rounded(self.rate.value),
            "low": rounded(self.low),
            "high": rounded(self.high),
            "hits": self.rate.hits,
            "n": self.rate.n,
            "clusters": self.clusters,
            "effective_n": rounded(self.effective_n),
        }


def clustered_rate(clusters: Sequence[Rate]) -> ClusteredRate:
    """The pooled rate of *clusters*; those without a row are left out.

    Of rows that all say the same nothing can be learnt about how much they hang together: then a
    cluster counts as one row.
    """
    known = [cluster for cluster in clusters if cluster.n]
    rate = sum(known, NO_RATE)
    if not known:
        return ClusteredRate(rate=rate, clusters=0, effective_n=0.0, low=None, high=None)
    share, m = rate.hits / rate.n, len(known)
    alone = share * (1 - share) / rate.n
    if m == 1 or not alone:
        effective = float(m)
    else:
        squares = sum((one.hits - share * one.n) ** 2 for one in known)
        together = m / (m - 1) * squares / rate.n**2
        effective = rate.n / max(together / alone, 1.0)
    low, high = wilson_of_share(share, effective)
    return ClusteredRate(rate=rate, clusters=m, effective_n=effective, low=low, high=high)
