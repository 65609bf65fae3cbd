"""The search by text of one request: who is near, how near the others are, or why nobody knows.

Guarantees: without a query, an encoder or vectors there is no error and no guess, only a note; the model
is not loaded when no vector could be compared with its answer. Who is not near has no cosine, and no
similarity in its composite.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memory import tip_vectors
from memory.encoders import CannotEncode, current_encoder, encode_query

if TYPE_CHECKING:
    from contextgraph.skills import Ranking as Weights
    from memory.ranking_parts import RankRequest


@dataclass(frozen=True, slots=True)
class TextLeg:
    """``near``: cosine by primary key, of the tips with the nearest texts. ``notes``: for ``explain``."""

    near: dict[int, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: RankRequest, weights: Weights) -> TextLeg:
        """Search for the request's query, if the weights ask for it and something can be compared."""
        if not weights.text_candidates:
            return cls()
        if not request.query.strip():
            return cls(notes=("by text: no query was given",))
        encoder = current_encoder()
        if encoder is None:
            return cls(notes=("by text: no encoder is registered",))
        store = tip_vectors.store_of(request.skill, encoder.name)
        if not store.count:
            note = "by text: no tip of this skill has a vector yet; manage.py embed_tips makes them"
            return cls(notes=(note,))
        try:
            query = encode_query(encoder, request.query)
        except CannotEncode as error:
            return cls(notes=(f"by text: the query has no vector: {error}",))
        found = tip_vectors.nearest(store, query, weights.text_candidates)
        return cls(near={one.tip_id: one.cosine for one in found})
