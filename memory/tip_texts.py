"""The few tips that have a place in a ranking: their texts and vectors, read in one query.

Guarantees: every tip that is asked for and exists is there. Read for winners only, because the texts and
vectors of all candidates would be megabytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django.db.models import F

from memory.duplicates import Advice
from memory.models import Tip
from memory.tip_vectors import ArraySend, unpacked

if TYPE_CHECKING:
    from collections.abc import Collection


class TipText(NamedTuple):
    """What a ranked tip says. ``exempt``: the hold-out coin leaves it alone."""

    external_id: str
    tip_type: str
    exempt: bool
    advice: Advice


def texts_of(tip_ids: Collection[int]) -> dict[int, TipText]:
    """The texts of *tip_ids* by primary key."""
    rows = Tip.objects.filter(pk__in=tip_ids).values_list(
        "pk",
        "external_id",
        "tip_type",
        "holdout_exempt",
        "text",
        "vector__encoder",
        ArraySend(F("vector__values")),
    )
    return {
        pk: TipText(external_id, tip_type, exempt, Advice(text, unpacked(vector), encoder or ""))
        for pk, external_id, tip_type, exempt, text, encoder, vector in rows
    }
