"""Vectors of the tips' texts, for the ranker's search; and the encoder that the ranker asks.

Guarantees: a tip's vector is that of its text under the present encoder, made once and taken from the
cache of texts where one was computed before (by the embedding signal, mostly); filling twice changes
nothing; a text that has no vector is counted and left out, and holds up no other. torch is imported
only when a text is really new.

Does not read rankings and does not wait for anybody: a tip without a vector is simply not found by text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db.models import F, Q

from memory.encoders import CannotEncode, TextEncoder
from memory.models import Run, Tip, TipVector
from scoring.embed_step import (
    CHARACTERS_AT_ONCE,
    ENCODER_SHA256,
    encode_and_cache,
    in_one_order,
    sha256_of,
    slices,
    vectors_of_row,
)
from scoring.embedding import load_encoder
from scoring.models import Signal, TextEmbedding
from scoring.vectors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memory.querysets import TipQuerySet
    from scoring.vectors import FloatArray, TextVector

    Progress = Callable[[int, int], None]

TIPS_AT_ONCE: Final = 200
"""Tips per step: their texts are encoded, cached and given to the tips before the next step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """What a filling did. ``missing``: tips without a present vector before; ``left``: those still."""

    missing: int
    written: int
    left: int


def missing(skill: str | None = None) -> TipQuerySet:
    """Tips with a text, whose vector is not there, of another encoder, or of another text."""
    tips = Tip.objects.exclude(text="").filter(
        Q(vector__isnull=True)
        | ~Q(vector__encoder=ENCODER_SHA256)
        | ~Q(vector__text_sha256=F("text_sha256"))
    )
    return tips.filter(skill=skill) if skill is not None else tips


def fill(skill: str | None = None, progress: Progress | None = None) -> Filled:
    """Give every tip (of *skill*) its vector.

    Args:
        progress: called with the tips done and all there are to do, after each step.

    Raises:
        scoring.vectors.EmbeddingError: the model cannot work here; what was written stays.
    """
    return _fill(missing(skill), progress)


def fill_for_run(run_id: int) -> Filled:
    """Give their vectors to the tips that were retrieved in a run or born in it. Raises as ``fill``.

    For the end of a dream pass: it keeps the vectors of a memory in use complete, a run at a time.
    """
    run = Run.objects.only("skill", "external_id").get(pk=run_id)
    own = Q(pk__in=run.retrievals.order_by().values("tip_id"))
    return _fill(missing(run.skill).filter(own | Q(source_run_id=run.external_id)), None)


def _fill(tips: TipQuerySet, progress: Progress | None) -> Filled:
    wanted = list(tips.order_by("pk").values_list("pk", flat=True))
    written = 0
    for start in range(0, len(wanted), TIPS_AT_ONCE):
        part = wanted[start : start + TIPS_AT_ONCE]
        written += _write(list(Tip.objects.filter(pk__in=part).only("pk", "skill", "text")))
        if progress is not None:
            progress(start + len(part), len(wanted))
    return Filled(missing=len(wanted), written=written, left=len(wanted) - written)


def _write(tips: list[Tip]) -> int:
    vectors = _vectors_of({sha256_of(tip.text): tip.text for tip in tips})
    found = [(tip, vectors.get(sha256_of(tip.text))) for tip in tips]
    rows = [
        TipVector(
            tip=tip,
            skill=tip.skill,
            encoder=ENCODER_SHA256,
            text_sha256=vector.sha256,
            values=vector.vector.tolist(),
        )
        for tip, vector in found
        if vector is not None
    ]
    TipVector.objects.bulk_create(
        rows,
        update_conflicts=True,  # a stale one is replaced; of two at once both write the same
        unique_fields=["tip"],
        update_fields=["skill", "encoder", "text_sha256", "values"],
    )
    return len(rows)


def _vectors_of(texts: Mapping[str, str]) -> dict[str, TextVector]:
    found = _cached(list(texts))
    new = in_one_order(text for sha, text in texts.items() if sha not in found)
    for part in slices(new, characters=CHARACTERS_AT_ONCE):
        found |= {vector.sha256: vector for vector in encode_and_cache(part)}
    return found


def _cached(shas: list[str]) -> dict[str, TextVector]:
    rows = TextEmbedding.objects.filter(text_sha256__in=shas, encoder_sha256=ENCODER_SHA256)
    vectors = {row.text_sha256: vectors_of_row(row) for row in rows}
    return {sha: vector for sha, vector in vectors.items() if vector is not None}


def encode_query(text: str) -> FloatArray:
    """The vector of *text*, shape (384,): from the cache of texts, else computed here and not kept.

    Raises CannotEncode.
    """
    if str(Signal.EMBED) not in settings.SIGNALS:
        msg = "the embedding is switched off: CONTEXTGRAPH_SIGNALS lacks embed"
        raise CannotEncode(msg)
    try:
        for known in _cached([sha256_of(text)]).values():
            return known.vector.copy()
        return load_encoder(threads=settings.EMBED_THREADS).encode_head(text)
    except (EmbeddingError, UnicodeEncodeError) as error:
        raise CannotEncode(str(error)) from error


ENCODER: Final = TextEncoder(name=ENCODER_SHA256, encode=encode_query)
"""What the ranker is given (``scoring.apps``)."""
