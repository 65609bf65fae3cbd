"""CHECK conditions that several tables share: ranges, finiteness and vocabularies.

Guarantees: ranges hold for NULL too; NaN and infinities fail, because Postgres sorts NaN above every
number, so that an upper bound refuses it; a column of codes holds a known code or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

if TYPE_CHECKING:
    from collections.abc import Iterable

GRADE_MIN, GRADE_MAX = -1.0, 1.0


def within(field: str, low: float, high: float) -> Q:
    """A CHECK condition: NULL or in [low, high]."""
    return Q(**{f"{field}__isnull": True}) | Q(**{f"{field}__gte": low, f"{field}__lte": high})


def known(field: str, words: Iterable[str]) -> Q:
    """A CHECK condition: empty or one of *words*."""
    return Q(**{f"{field}__in": ["", *map(str, words)]})


def finite(field: str) -> Q:
    """A CHECK condition: NULL or a number that is neither NaN nor infinite."""
    return Q(**{f"{field}__isnull": True}) | Q(
        **{f"{field}__gt": float("-inf"), f"{field}__lt": float("inf")}
    )
