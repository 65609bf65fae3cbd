"""Embedding step of a batch: rows -> cached vectors -> two cosines per row.

Guarantees: a distinct text is encoded once per encoder, across batches and runs; torch is only
imported when a text is really new; a text that cannot be encoded leaves NULL with a reason and does
not disturb the others; a worker that has lost its batch writes no row. Not guaranteed: that two workers
never encode the same new text at once (both results are equal, the second insert is a no-op).

Shaped by: deduplication being the only big lever (7x on a run whose retries share scripts and tips).
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db.models.functions import Now
from django.utils import timezone

from memory.models import Attempt, Retrieval
from memory.reasons import Reason
from scoring import batches
from scoring.embedding import RECIPE, UnencodableText, load_encoder
from scoring.models import TextEmbedding
from scoring.vectors import (
    EmbeddingError,
    NonFinite,
    TextVector,
    chunks_from_bytes,
    cosine,
    cosine_max_chunk,
    from_bytes,
    to_bytes,
)
from scoring.weights import WEIGHTS_SHA256

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scoring.batches import Lease
    from scoring.embedding import Encoder

logger = logging.getLogger(__name__)

CHARACTERS_AT_ONCE: Final = 200_000
"""Encoded and cached between two lease renewals: some 50,000 tokens, at most a minute on slow cores.
A text is one step whatever its length; the encoder takes 400,000 characters at most."""
WRITE_AT_ONCE: Final = 500
ENCODER_SHA256: Final = hashlib.sha256(f"{WEIGHTS_SHA256}/{RECIPE}".encode()).hexdigest()
"""Cache key beside the text: other weights or another way to cut chunks is another vector."""


def score(lease: Lease) -> int:
    """Fill tip_followed_emb and its companions for the open rows of a batch; returns their number.

    Raises LeaseLost: another worker has the batch.
    """
    rows = list(
        batches.rows_of(lease.batch).only(
            "pk", "attempt_id", "shown_text", "shown_sha256", "emb_tries"
        )
    )
    scripts = dict(
        Attempt.objects.filter(pk__in={row.attempt_id for row in rows}).values_list("pk", "script")
    )
    texts = {sha256_of(text): text for text in _distinct(rows, scripts)}
    vectors = vectors_of(texts, lease)
    for row in rows:
        _fill(row, vectors, script=scripts[row.attempt_id] or "")
    for start in range(0, len(rows), WRITE_AT_ONCE):
        part = rows[start : start + WRITE_AT_ONCE]
        with batches.writing(lease, part):
            _write(part)
    return len(rows)


def sha256_of(text: str) -> str:
    """Content hash of a text, as in TextVector.sha256."""
    return hashlib.sha256(text.encode()).hexdigest()


def _distinct(rows: Iterable[Retrieval], scripts: Mapping[int, str | None]) -> set[str]:
    return {row.shown_text for row in rows} | {script for script in scripts.values() if script}


def vectors_of(texts: Mapping[str, str], lease: Lease) -> dict[str, TextVector]:
    """Vectors by content hash, from the cache or computed; texts without a vector are left out."""
    rows = TextEmbedding.objects.filter(text_sha256__in=list(texts), encoder_sha256=ENCODER_SHA256)
    found = {row.text_sha256: vector for row in rows if (vector := vectors_of_row(row)) is not None}
    missing = in_one_order(text for sha, text in texts.items() if sha not in found)
    for part in slices(missing, characters=CHARACTERS_AT_ONCE):
        for vector in encode_and_cache(part):
            found[vector.sha256] = vector
        batches.renew(lease)
    return found


def in_one_order(texts: Iterable[str]) -> list[str]:
    """Short ones first; the same for everybody, because two who cache the same texts lock them so."""
    return sorted(texts, key=lambda text: (len(text), text))


def slices(texts: Iterable[str], *, characters: int) -> Iterator[list[str]]:
    """Cut *texts*, in their order, into lists of at most *characters*, or of one longer text."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and size + len(text) > characters:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part


def _encode(texts: list[str], encoder: Encoder) -> list[TextVector]:
    """Vectors of those texts that have one."""
    while texts:
        try:
            return encoder.encode(texts)
        except UnencodableText as error:
            bad = set(error.indexes)
            texts = [text for index, text in enumerate(texts) if index not in bad]
        except NonFinite:
            # it does not say which: found one by one, or it would take the others with it
            if len(texts) == 1:
                logger.exception("embedding.not_finite", extra={"text": sha256_of(texts[0])})
                return []
            return [vector for text in texts for vector in _encode([text], encoder)]
    return []


def encode_and_cache(texts: list[str]) -> list[TextVector]:
    vectors = _encode(texts, load_encoder(threads=settings.EMBED_THREADS))
    TextEmbedding.objects.bulk_create(
        [
            TextEmbedding(
                text_sha256=vector.sha256,
                encoder_sha256=ENCODER_SHA256,
                vector=to_bytes(vector.vector),
                chunks=to_bytes(vector.chunks) if vector.truncated else b"",
                tokens=vector.tokens,
                truncated=vector.truncated,
            )
            for vector in vectors
        ],
        update_conflicts=True,  # a damaged row is replaced, not kept
        unique_fields=["text_sha256", "encoder_sha256"],
        update_fields=["vector", "chunks", "tokens", "truncated"],
    )
    return vectors


def vectors_of_row(row: TextEmbedding) -> TextVector | None:
    """The cached vector; None when the row is damaged, so that the text is encoded again."""
    try:
        vector = from_bytes(bytes(row.vector))
        chunks = chunks_from_bytes(bytes(row.chunks)) if row.chunks else vector[None, :]
    except EmbeddingError:
        logger.warning("embedding.damaged_cache_row", extra={"text_sha256": row.text_sha256})
        return None
    return TextVector(
        sha256=row.text_sha256,
        vector=vector,
        chunks=chunks,
        tokens=row.tokens,
        truncated=row.truncated,
    )


def _fill(row: Retrieval, vectors: Mapping[str, TextVector], *, script: str) -> None:
    row.emb_tries += 1
    tip = vectors.get(sha256_of(row.shown_text))
    action = vectors.get(sha256_of(script))
    if tip is None or action is None:
        row.emb_reason = Reason.EMBEDDING_ERROR
        return
    try:
        row.tip_followed_emb = cosine(tip, action)
        row.tip_followed_emb_max_chunk = cosine_max_chunk(tip, action)
    except NonFinite:
        row.tip_followed_emb = row.tip_followed_emb_max_chunk = None
        row.emb_reason = Reason.EMBEDDING_ERROR
        return
    row.tip_followed_emb_truncated = tip.truncated or action.truncated
    row.emb_source = ENCODER_SHA256[:16]


def _write(rows: Iterable[Retrieval]) -> None:
    now = timezone.now()
    decided: list[Retrieval] = []
    refused: list[Retrieval] = []
    for row in rows:
        row.tip_followed_computed_at = now
        (refused if row.emb_reason else decided).append(row)
    Retrieval.objects.bulk_update(
        decided,
        [
            "tip_followed_emb",
            "tip_followed_emb_max_chunk",
            "tip_followed_emb_truncated",
            "emb_source",
            "tip_followed_computed_at",
            "emb_tries",
        ],
    )
    # a refused row stays "unscored" for ADR-0019's index until another signal has looked at it
    Retrieval.objects.filter(pk__in=[row.pk for row in refused]).update(
        emb_reason=Reason.EMBEDDING_ERROR, tip_followed_computed_at=Now()
    )
