"""Two runs over the same rules: is the difference in success more than noise? Pure numbers, no database.

Guarantees: McNemar's test is exact and two-sided (McNemar 1947; binomial on the rules that changed);
the interval of the difference of the two paired rates is Newcombe's square-and-add interval with the
continuity-corrected correlation (Newcombe 1998, Statistics in Medicine 17:2635-2650, method 10), which
stays inside [-1, 1] and does not collapse when nothing changed. "No difference was seen" and "too few
pairs to see one" are two answers, and the second says how many pairs would do (Connor 1987, Biometrics
43:207-211).

Does not know that rules hang together: one cause that turns a family of five rules counts as five, so
p is too small and the interval too narrow where failures come in families. Does not say what made the
difference: two runs differ in more than their memory. Test and interval are two methods; at the margin
one may find a difference where the other does not, and then the test decides.

Shaped by: a coefficient that was changed because one run of 250 rules fared 3 points worse, p 0.49.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from scipy.stats import binomtest  # type: ignore[import-untyped]  # scipy ships no types

from memory.rates import Z_95, Rate, rounded, wilson

if TYPE_CHECKING:
    from collections.abc import Sequence

ALPHA: Final = 0.05
"""Below this p a difference is called more than noise."""

POWER: Final = 0.80
Z_POWER: Final = 0.8416212335729143
"""Standard normal quantile of POWER."""

RELEVANT: Final = 0.10
"""A difference of paired rates that one would want to hear of; "too few" is measured against it."""


class Evidence(enum.StrEnum):
    """What the pairs say about the difference."""

    MORE_THAN_NOISE = "more than noise"
    NO_EVIDENCE = "no evidence of a difference"
    TOO_FEW = "too few pairs to tell"


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """Rules graded in both runs. ``wins``: B alone succeeded; ``regressions``: A alone did."""

    both: int
    wins: int
    regressions: int
    neither: int

    @property
    def n(self) -> int:
        """Pairs."""
        return self.both + self.wins + self.regressions + self.neither

    @property
    def changed(self) -> int:
        """Pairs that differ: all that the test looks at."""
        return self.wins + self.regressions

    @property
    def rate_a(self) -> Rate:
        """Success in A."""
        return Rate(self.both + self.regressions, self.n)

    @property
    def rate_b(self) -> Rate:
        """Success in B."""
        return Rate(self.both + self.wins, self.n)

    @property
    def difference(self) -> float | None:
        """Rate of B less rate of A, in [-1, 1]; None without a pair."""
        return (self.wins - self.regressions) / self.n if self.n else None

    @property
    def p_value(self) -> float | None:
        """McNemar, exact, two-sided; 1 when no pair changed, None without a pair."""
        if not self.n:
            return None
        return mcnemar(self.wins, self.regressions)

    @property
    def evidence(self) -> Evidence:
        """The finding; see :func:`pairs_needed` for what "too few" is measured against."""
        p = self.p_value
        if p is not None and p < ALPHA:
            return Evidence.MORE_THAN_NOISE
        return Evidence.TOO_FEW if self.n < pairs_needed(self) else Evidence.NO_EVIDENCE

    def as_dict(self) -> dict[str, Any]:
        """Plain data with stable keys; ``b`` and ``c`` are the counts of McNemar's table."""
        low, high = difference_interval(self) or (None, None)
        return {
            "pairs": self.n,
            "both": self.both,
            "b": self.wins,
            "c": self.regressions,
            "neither": self.neither,
            "rate_a": self.rate_a.as_dict(),
            "rate_b": self.rate_b.as_dict(),
            "difference": rounded(self.difference),
            "low": rounded(low),
            "high": rounded(high),
            "interval": "Newcombe 1998, method 10, 95 %",
            "p": rounded(self.p_value),
            "test": "McNemar, exact, two-sided",
            "evidence": str(self.evidence),
            "pairs_needed": pairs_needed(self),
            "relevant_difference": RELEVANT,
        }


def mcnemar(wins: int, regressions: int) -> float:
    """Exact two-sided p in (0, 1] that changed pairs would split at least so unevenly by a fair coin.

    Raises:
        ValueError: a negative count.
    """
    if min(wins, regressions) < 0:
        msg = f"{wins} wins and {regressions} regressions are no counts"
        raise ValueError(msg)
    changed = wins + regressions
    return float(binomtest(wins, changed, 0.5).pvalue) if changed else 1.0


def difference_interval(table: Paired) -> tuple[float, float] | None:
    """95 % interval of the rate of B less that of A, inside [-1, 1]; None without a pair."""
    if not table.n:
        return None
    share_a, share_b = table.rate_a.hits / table.n, table.rate_b.hits / table.n
    low_a, high_a = wilson(table.rate_a.hits, table.n) or (0.0, 1.0)
    low_b, high_b = wilson(table.rate_b.hits, table.n) or (0.0, 1.0)
    phi, centre = _correlation(table), share_b - share_a
    below = _hypotenuse(share_b - low_b, high_a - share_a, phi)
    above = _hypotenuse(high_b - share_b, share_a - low_a, phi)
    return max(-1.0, centre - below), min(1.0, centre + above)


def _hypotenuse(first: float, second: float, phi: float) -> float:
    squared = first * first - 2 * phi * first * second + second * second
    return math.sqrt(max(squared, 0.0))  # a last bit below zero when phi is 1


def _correlation(table: Paired) -> float:
    """Phi of the 2x2 table, pulled toward zero by half a pair per pair when it is positive."""
    a_yes, b_yes = table.rate_a.hits, table.rate_b.hits
    margins = a_yes * (table.n - a_yes) * b_yes * (table.n - b_yes)
    if not margins:
        return 0.0
    excess: float = table.both * table.neither - table.wins * table.regressions
    if excess > 0:
        excess = max(excess - table.n / 2, 0.0)
    return excess / math.sqrt(margins)


def pairs_needed(table: Paired) -> int:
    """About how many pairs find a difference of RELEVANT with POWER, if as large a share changes.

    Normal approximation; of a table in which less than RELEVANT changed, that share is assumed, since
    a difference cannot be larger than the share of pairs that make it.
    """
    changing = max(table.changed / table.n if table.n else 0.0, RELEVANT)
    spread = Z_95 * math.sqrt(changing) + Z_POWER * math.sqrt(changing - RELEVANT**2)
    return math.ceil((spread / RELEVANT) ** 2)


def in_words(table: Paired) -> str:
    """The finding as a sentence, with every figure that it rests on."""
    if not table.n:
        return f"Too few pairs to tell: no rule was graded in both; {pairs_needed(table)} would do."
    low, high = difference_interval(table) or (0.0, 0.0)
    figures = (
        f"of {table.n} rules B won {table.wins} and lost {table.regressions}, difference "
        f"{100 * (table.difference or 0.0):+.1f} points (95 % {100 * low:+.1f} to {100 * high:+.1f}), "
        f"p {p_text(table.p_value)}"
    )
    if table.evidence is Evidence.MORE_THAN_NOISE:
        better = "better" if table.wins > table.regressions else "worse"
        return f"More than noise: B did {better}; {figures}."
    if table.evidence is Evidence.NO_EVIDENCE:
        return f"No evidence of a difference: {figures}."
    return (
        f"Too few pairs to tell: {figures}; about {pairs_needed(table)} pairs would find "
        f"a difference of {100 * RELEVANT:.0f} points four times in five."
    )


def p_text(p: float | None) -> str:
    """*p* with three places; never a zero."""
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def holm(p_values: Sequence[float]) -> list[float]:
    """*p_values* adjusted for being many (Holm 1979): in their order, each in [0, 1]."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [0.0] * len(p_values)
    so_far = 0.0
    for step, place in enumerate(order):
        so_far = max(so_far, min(1.0, (len(p_values) - step) * p_values[place]))
        adjusted[place] = so_far
    return adjusted
