"""Rates that carry their n and interval, and Cohen's kappa; pure numbers, no database.

Guarantees: a rate of nothing is None, never zero; every rate can be printed with its n; the interval
is Wilson's, which stays inside [0, 1] and does not collapse at 0/n or n/n. Does not guarantee that
the n observations are independent: five tips of one attempt share one outcome.

Shaped by: an audit whose "helpful %" was an average times one hundred and could be negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

Z_95: Final = 1.959963984540054
"""Two-sided 95 % quantile of the standard normal distribution."""

DIGITS: Final = 6
"""Stored and printed numbers are rounded to this many places, so that a recount is byte-identical."""


def rounded(number: float | None) -> float | None:
    """*number* to DIGITS places; negative zero becomes zero."""
    return None if number is None else round(float(number), DIGITS) + 0.0


def wilson(hits: int, n: int) -> tuple[float, float] | None:
    """Wilson's 95 % score interval of *hits* out of *n*, or None when n is 0.

    Raises:
        ValueError: not 0 <= hits <= n.
    """
    if not 0 <= hits <= n:
        msg = f"{hits} out of {n} is no rate"
        raise ValueError(msg)
    return wilson_of_share(hits / n, n) if n else None


def wilson_of_share(share: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % score interval of a *share* in [0, 1] of *n* > 0, which need not be whole.

    An effective sample size is not: that of clustered observations, for one.
    """
    spread = Z_95 * Z_95 / n
    centre = (share + spread / 2) / (1 + spread)
    half = Z_95 / (1 + spread) * math.sqrt(share * (1 - share) / n + spread / (4 * n))
    # at the edges the bounds are exact; the arithmetic is off by a last bit
    return (0.0 if share == 0 else centre - half), (1.0 if share == 1 else centre + half)


@dataclass(frozen=True, slots=True)
class Rate:
    """*hits* out of *n*."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """In [0, 1]; None when there is nothing to divide by."""
        return self.hits / self.n if self.n else None

    @property
    def low(self) -> float:
        """Lower end of the interval; 0 when nothing is known."""
        interval = wilson(self.hits, self.n)
        return interval[0] if interval else 0.0

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.hits + other.hits, self.n + other.n)

    def as_dict(self) -> dict[str, float | int | None]:
        """``rate``, its 95 % interval and ``hits`` out of ``n``; rounded."""
        low, high = wilson(self.hits, self.n) or (None, None)
        return {
            "rate": rounded(self.value),
            "low": rounded(low),
            "high": rounded(high),
            "hits": self.hits,
            "n": self.n,
        }


@dataclass(frozen=True, slots=True)
class Mean:
    """The sum of *n* values; kept apart so that means of parts can be pooled."""

    total: float
    n: int

    @property
    def value(self) -> float | None:
        """None when there is nothing to divide by."""
        return self.total / self.n if self.n else None

    def __add__(self, other: Mean) -> Mean:
        return Mean(self.total + other.total, self.n + other.n)

    def as_dict(self) -> dict[str, float | int | None]:
        """``mean`` and ``n``; rounded."""
        return {"mean": rounded(self.value), "n": self.n}


def kappa(yes_yes: int, yes_no: int, no_yes: int, no_no: int) -> float | None:
    """Cohen's kappa of two raters from their 2x2 table; in [-1, 1].

    None when it is not defined: no pair at all, or both raters gave one and the same answer always.
    """
    n = yes_yes + yes_no + no_yes + no_no
    if n == 0:
        return None
    first, second = (yes_yes + yes_no) / n, (yes_yes + no_yes) / n
    by_chance = first * second + (1 - first) * (1 - second)
    if math.isclose(by_chance, 1.0, abs_tol=1e-12):
        return None
    return ((yes_yes + no_no) / n - by_chance) / (1 - by_chance)
