"""CHECK conditions that several tables share: ranges and finiteness that hold for NULL too.

Guarantees: NaN and infinities fail. Postgres sorts NaN above every number, so an upper bound refuses it.
"""

from __future__ import annotations

from django.db.models import Q

GRADE_MIN, GRADE_MAX = -1.0, 1.0


def within(field: str, low: float, high: float) -> Q:
    """A CHECK condition: NULL or in [low, high]."""
    return Q(**{f"{field}__isnull": True}) | Q(**{f"{field}__gte": low, f"{field}__lte": high})


def finite(field: str) -> Q:
    """A CHECK condition: NULL or a number that is neither NaN nor infinite."""
    return Q(**{f"{field}__isnull": True}) | Q(
        **{f"{field}__gt": float("-inf"), f"{field}__lt": float("inf")}
    )
