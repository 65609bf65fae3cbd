"""How far the judges behind shown verdicts are vouched for: asked of the room that knows.

Guarantees: memory imports no other room; a report or page asks once for all the judges it names, not
once per row; a judge is uncalibrated until somebody vouches for it, so that a room that never
registered leads to too many marks and never to too few. Does not decide what calibrated means
(``scoring.calibrated`` does), and a judge without the mark is not for that reason a good one.

Shaped by: verdicts of a new prompt that stood in a report like those of the one that was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.db.models import Count, Q

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memory.querysets import RetrievalQuerySet

UNCALIBRATED: Final = "uncalibrated"
"""The mark, the same word on every page and in every report (issue 3, item 11)."""

HAS_VERDICT: Final = ~Q(llm_source="") & (~Q(llm_label="") | Q(tip_followed_llm__isnull=False))
"""Retrievals that hold what a judge said, an abstention included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What is known about some judges, each named as in ``llm_source``: model @ prompt sha256.

    ``without_figures``: their verdicts count in no figure about the quality of judges.
    """

    uncalibrated: frozenset[str] = frozenset()
    without_figures: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class UncalibratedSource:
    """A judge that no calibration covers, and the rows that hold its verdict.

    ``in_figures``: False where its verdicts are left out of every figure about judges.
    """

    source: str
    rows: int
    in_figures: bool


def _nobody_vouches(sources: frozenset[str]) -> Standing:
    return Standing(uncalibrated=sources)


_asked: Callable[[frozenset[str]], Standing] = _nobody_vouches


def register_standing(ask: Callable[[frozenset[str]], Standing]) -> None:
    """Have *ask* answer for all judges at once, in two queries; a second one replaces it."""
    global _asked
    _asked = ask


def standing_of(sources: Iterable[str]) -> Standing:
    """The standing of the judges named; empty names are nobody's, and no name asks no question."""
    named = frozenset(sources) - {""}
    return _asked(named) if named else Standing()


def uncalibrated_sources(rows: RetrievalQuerySet) -> tuple[UncalibratedSource, ...]:
    """The uncalibrated judges behind the verdicts of *rows*, by name. Three queries at most."""
    counted = rows.filter(HAS_VERDICT).order_by().values_list("llm_source").annotate(n=Count("pk"))
    verdicts: dict[str, int] = dict(counted)
    standing = standing_of(verdicts)
    return tuple(
        UncalibratedSource(
            source=source,
            rows=verdicts[source],
            in_figures=source not in standing.without_figures,
        )
        for source in sorted(standing.uncalibrated)
    )
