"""CHECK conditions that several tables share: ranges, finiteness and vocabularies.

Guarantees: ranges hold for NULL too; NaN and infinities fail, because Postgres sorts NaN above every
number, so that an upper bound refuses it; a column of codes holds a known code or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from memory.reasons import JudgeLabel, Reason

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


def label_agrees(*, label: str, followed: str, reason: str) -> Q:
    """A CHECK condition: the judge's label is empty, or says the same as the boolean and the reason.

    The arguments name the three columns. A label that is neither yes nor no leaves the boolean NULL
    and has its reason code beside it.
    """
    known = Q(**{f"{followed}__isnull": False})  # a CHECK that comes out NULL passes
    no = [JudgeLabel.CONTRADICTED.value, JudgeLabel.NOT_FOLLOWED.value]
    unclear = [Reason.UNCLEAR.value, Reason.QUOTE_UNVERIFIED.value]
    return (
        Q(**{label: ""})
        | known & Q(**{label: JudgeLabel.FOLLOWED.value, followed: True})
        | known & Q(**{f"{label}__in": no, followed: False})
        | Q(
            **{
                label: JudgeLabel.NOT_APPLICABLE.value,
                f"{followed}__isnull": True,
                reason: Reason.NOT_APPLICABLE.value,
            }
        )
        | Q(
            **{
                label: JudgeLabel.UNCLEAR.value,
                f"{followed}__isnull": True,
                f"{reason}__in": unclear,
            }
        )
    )
