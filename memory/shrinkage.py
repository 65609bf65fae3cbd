"""Means that know how little they rest on: shrunk toward a prior, backed off from rule to skill.

Guarantees: every mean stands inside its interval and both inside [-1, 1], the scale of credit; the
order of observations does not matter, only their sums; with a strength of 0 and no back-off the mean
is the plain mean of the exact pair, as upstream ranks. Pure numbers: no database, no Django.

Does not guarantee 95 % coverage where the visits are not independent, nor where credits pile up at two
values: Student's interval is one for a mean of roughly normal spread.

Model: normal observations of unknown mean and spread under the conjugate prior (Gelman et al., Bayesian
Data Analysis, 3rd ed., section 3.3; Murphy 2007, "Conjugate Bayesian analysis of the Gaussian
distribution", section 6): the prior counts as ``strength`` visits with mean ``prior_mean`` and standard
deviation ``prior_sd``. The mean then has Student's t distribution with ``strength`` + n degrees.

Shaped by: a ranker to which one lucky visit was worth as much as fifty, and no visit as little as none
that ever helped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from scipy.special import stdtrit  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from memory.evidence import Sums, TipFigures

LOW: Final = -1.0
HIGH: Final = 1.0
"""The scale of credit."""

PRIOR_SD: Final = 0.5
"""Spread that the prior takes for granted: the largest that values between 0 and 1 can have."""

NOTHING_KNOWN: Final = 0.0
"""Prior mean where the skill has no evidence either: neither for nor against."""

QUANTILE: Final = 0.975


@dataclass(frozen=True, slots=True)
class ShrunkMean:
    """``mean`` and its 95 % interval, all in [-1, 1]; ``n``: observations, without the prior."""

    mean: float
    low: float
    high: float
    n: int

    def as_dict(self) -> dict[str, float | int]:
        """Plain numbers, unrounded."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n}


def shrunk(
    sums: Sums, *, prior_mean: float, strength: float, prior_sd: float = PRIOR_SD
) -> ShrunkMean:
    """The posterior mean of *sums* and its 95 % interval.

    With n = 0 that is the prior. With ``strength`` = 0 there is no prior: the plain mean (0.0 of no
    visit, as upstream) with the interval of the sample; of fewer than two visits nothing can be said
    about the spread, so that their interval is the whole scale.

    Args:
        sums: of observations in [-1, 1].
        prior_mean: in [-1, 1].
        strength: how many visits the prior counts as; >= 0 and finite.
        prior_sd: > 0 and finite.

    Raises:
        ValueError: an argument out of its range.
    """
    _require(prior_mean=prior_mean, strength=strength, prior_sd=prior_sd)
    n = sums.n
    if not strength and n < 2:
        return ShrunkMean(_clamped(sums.total if n else 0.0), LOW, HIGH, n)
    weight = strength + n
    mean = _clamped(_posterior_mean(sums, prior_mean, strength))
    around = max(sums.squares - sums.total * sums.total / n, 0.0) if n else 0.0
    apart = sums.total / n - prior_mean if n else 0.0
    spread = strength * prior_sd * prior_sd + around + strength / weight * n * apart * apart
    degrees = weight if strength else n - 1.0
    half = _quantile(degrees) * math.sqrt(spread / degrees / weight)
    if not math.isfinite(half):  # a prior of next to no weight, alone
        return ShrunkMean(mean, LOW, HIGH, n)
    return ShrunkMean(mean, max(LOW, mean - half), min(HIGH, mean + half), n)


def of_the_skill(sums: Sums, *, prior_mean: float | None, strength: float) -> ShrunkMean:
    """The prior of every tip alike: the shrunk mean of all tips of the skill, or a *prior_mean* given.

    The tip's own part stays in: a prior without it would put the tips that pull the mean down above
    those that pull it up, as long as there are few.
    """
    if prior_mean is not None:
        return shrunk(sums.without(sums), prior_mean=prior_mean, strength=1.0)
    return shrunk(sums, prior_mean=NOTHING_KNOWN, strength=strength)


def levels(
    figures: TipFigures, *, prior_mean: float, strength: float, back_off: bool
) -> tuple[tuple[str, ShrunkMean], ...]:
    """What each level says, from the widest to the rule; each is the prior of the next.

    A level is asked only about what the narrower ones do not hold (the tip *elsewhere*), so that no
    visit counts twice. A tip's category holds its rules unless a rule has changed its category; there
    the middle level is approximate. Without ``back_off`` the rule alone is asked, under the prior.

    Arguments and errors: as in :func:`shrunk`; ``prior_mean`` is that of :func:`of_the_skill`.
    """
    prior = prior_mean
    inner = figures.category if figures.category.n else figures.rule
    asked = [("rule", figures.rule)]
    if back_off:
        wider = [
            ("tip", figures.tip.without(inner)),
            ("category", figures.category.without(figures.rule)),
        ]
        asked = [*wider, *asked]
    found = []
    for name, sums in asked:
        said = shrunk(sums, prior_mean=prior, strength=strength)
        if back_off and not strength and not sums.n:
            said = ShrunkMean(prior, LOW, HIGH, 0)  # silent, so that the wider one stands
        found.append((name, said))
        prior = said.mean
    return tuple(found)


def backed_off(
    figures: TipFigures, *, prior_mean: float, strength: float, back_off: bool
) -> ShrunkMean:
    """The credit to expect of a tip on a rule: skill, then tip, then category, then rule.

    ``n`` counts the visits on the rule. Arguments and errors: see :func:`levels`.
    """
    return _backed_off(figures, prior_mean, strength, back_off)


@lru_cache(maxsize=8192)
def _backed_off(
    figures: TipFigures,
    prior_mean: float,
    strength: float,
    back_off: bool,  # noqa: FBT001 - the key of a cache
) -> ShrunkMean:
    """Cached: most candidates of a retrieval have no evidence at all, and equal figures equal means."""
    found = levels(figures, prior_mean=prior_mean, strength=strength, back_off=back_off)
    return found[-1][1]


def _posterior_mean(sums: Sums, prior_mean: float, strength: float) -> float:
    # by shares: strength x mean overflows where the share does not
    share = strength / (strength + sums.n)
    return share * prior_mean + (1.0 - share) * (sums.total / sums.n if sums.n else 0.0)


@lru_cache(maxsize=8192)
def _quantile(degrees: float) -> float:
    """Student's t; the function behind ``scipy.stats.t.ppf``, without its 50 microseconds of checks."""
    return float(stdtrit(degrees, QUANTILE))


def _clamped(number: float) -> float:
    return min(max(number, LOW), HIGH)


def _require(*, prior_mean: float, strength: float, prior_sd: float) -> None:
    if not LOW <= prior_mean <= HIGH:
        msg = f"a prior mean of {prior_mean} is not in [{LOW:g}, {HIGH:g}]"
        raise ValueError(msg)
    if not 0.0 <= strength < math.inf:
        msg = f"a prior cannot count as {strength} visits"
        raise ValueError(msg)
    if not 0.0 < prior_sd < math.inf:
        msg = f"a prior standard deviation of {prior_sd} is none"
        raise ValueError(msg)
