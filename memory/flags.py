"""One word for what the record of a tip says, and only when the record is long enough to say it.

Guarantees: a word is given when the lower end of a 95 % Wilson interval is above one half, never on a
bare majority: four followed rows that all went badly are the fewest that make a tip misleading, and one
lucky row makes nothing. Rows in which the tip was followed speak before rows in which it was ignored.

Does not know that rows may depend on each other: ten attempts at one rule are ten rows. Who counts
visits (a run's attempts at one rule) says how many there were, and below MIN_VISITS no word is given.
A flag is a place to look, no verdict: it retires nothing.

Shaped by: tips that were called useless after one failure, and useful after one success next door.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from memory.rates import wilson

if TYPE_CHECKING:
    from collections.abc import Mapping

MORE_LIKELY_THAN_NOT: Final = 0.5
"""What the lower end of the interval must be above. 4 of 4 is (its lower end is 0.51), 3 of 3 is not."""

MIN_VISITS: Final = 2
"""Fewer than this many visits are one story, however many rows tell it."""


class Flag(enum.StrEnum):
    """The four quadrants, and not knowing."""

    MISLEADING = "misleading"
    """Followed, and mostly into failures."""
    LUCKY_NEIGHBOUR = "lucky_neighbour"
    """Mostly ignored, and mostly beside successes that it had no part in."""
    BYSTANDER = "bystander"
    """Mostly ignored, and not clearly beside successes."""
    EARNED = "earned"
    """Followed, and mostly into successes."""
    UNTESTED = "untested"
    """Too few rows tell, or they speak both ways."""


TOLD_APART: Final = (Flag.MISLEADING, Flag.LUCKY_NEIGHBOUR, Flag.EARNED)
"""Flags that ask for something: to be mended, to be looked through, to be kept. Reports list these."""


class QuadrantCounts(Protocol):
    """Rows per quadrant: a Tally, a row of TipEvidence, or :class:`Quadrants`."""

    @property
    def earned(self) -> int:
        """Followed, went well."""

    @property
    def misleading(self) -> int:
        """Followed, went badly."""

    @property
    def lucky_neighbour(self) -> int:
        """Ignored, went well."""

    @property
    def bystander(self) -> int:
        """Ignored, went badly."""


class Quadrants(NamedTuple):
    """Bare counts, for callers that hold no tally."""

    earned: int = 0
    misleading: int = 0
    lucky_neighbour: int = 0
    bystander: int = 0

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Quadrants:
        """From a mapping such as a summary's ``quadrants``; the unknown ones are left out."""
        return cls(**{name: counts.get(name, 0) for name in cls._fields})


def flag_of(
    counts: QuadrantCounts, *, visits: int | None = None, followed_visits: int | None = None
) -> Flag:
    """The flag of a tip with these rows.

    Args:
        counts: rows of known outcome and known following, per quadrant.
        visits: how many visits the rows come from; None: not known, then rows alone decide.
        followed_visits: how many of them followed the tip; likewise.
    """
    if visits is not None and visits < MIN_VISITS:
        return Flag.UNTESTED
    followed = counts.earned + counts.misleading
    ignored = counts.lucky_neighbour + counts.bystander
    if followed_visits is None or followed_visits >= MIN_VISITS:
        if _mostly(counts.misleading, followed):
            return Flag.MISLEADING
        if _mostly(counts.earned, followed):
            return Flag.EARNED
    if _mostly(ignored, followed + ignored):
        lucky = _mostly(counts.lucky_neighbour, ignored)
        return Flag.LUCKY_NEIGHBOUR if lucky else Flag.BYSTANDER
    return Flag.UNTESTED


def _mostly(hits: int, n: int) -> bool:
    interval = wilson(hits, n)
    return interval is not None and interval[0] > MORE_LIKELY_THAN_NOT
