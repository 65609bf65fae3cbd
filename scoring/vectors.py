"""Sentence vectors as values: what one is, how near two are, how one is stored.

Guarantees: a cosine is a finite number in [-1, 1] or an error, never NaN; bytes read back are
exactly one or more finite unit vectors of float32 in little-endian order, or an error; arrays
are read-only. Needs numpy only: cached vectors are compared without loading a model.

Does not guarantee that two vectors come from the same weights; whoever keeps them must.

Shaped by: a NaN cosine that compared as "not followed" because every comparison with NaN is false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

DIMENSIONS: Final = 384
FOLLOWED_COSINE: Final = 0.6
"""ADR-0019: without a judge, a cosine of at least this counts as followed."""

_BYTES_PER_VECTOR: Final = DIMENSIONS * 4
_UNIT_TOLERANCE: Final = 1e-3


class EmbeddingError(Exception):
    """Base of everything that can go wrong with the embedding signal.

    The signal then stays NULL with a reason; no error is ever turned into a number.
    """


class NonFinite(EmbeddingError):
    """A number came out as NaN or infinite; it must not be stored."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is not finite: a damaged vector or a broken numeric library; discard the "
            f"cached vectors of this text and encode it again"
        )


class CorruptVector(EmbeddingError):
    """Stored bytes that are no unit vector of float32."""

    def __init__(self, what: str) -> None:
        super().__init__(f"stored vector {what}: discard it and encode the text again")


@dataclass(frozen=True, eq=False)
class TextVector:
    """A text as the model sees it. Arrays are read-only float32; each row has length 1.

    `sha256`: of the text's UTF-8 bytes, hex. `vector`: shape (384,), the first 256 tokens, the
    number that the reference computes. `chunks`: shape (n, 384), the whole text in line-aligned
    pieces of at most 200 tokens; the vector itself (n = 1) when the text fits. `tokens`: of the
    whole text with [CLS] and [SEP], at least 3. `truncated`: `vector` lacks the end of the text.
    """

    sha256: str
    vector: FloatArray
    chunks: FloatArray
    tokens: int
    truncated: bool


def cosine(a: TextVector, b: TextVector) -> float:
    """Cosine of the two truncated vectors, the number of the reference, in [-1, 1].

    Raises NonFinite.
    """
    return _highest_cosine(a.vector, b.vector[np.newaxis])


def cosine_max_chunk(tip: TextVector, script: TextVector) -> float:
    """Highest cosine of the tip's vector with a chunk of the script, in [-1, 1].

    Sees the whole script; equals `cosine` when the script is not truncated. It grows with the
    number of chunks, so do not hold it against a threshold made for `cosine`. Raises NonFinite.
    """
    return _highest_cosine(tip.vector, script.chunks)


def _highest_cosine(vector: FloatArray, rows: FloatArray) -> float:
    cosines = rows.astype(np.float64) @ vector.astype(np.float64)
    if not np.isfinite(cosines).all():  # all of them: a maximum would hide minus infinity
        raise NonFinite("a cosine")
    return min(1.0, max(-1.0, float(cosines.max())))


def to_bytes(vector: FloatArray) -> bytes:
    """One vector, or the chunks of a text, as float32 in little-endian order, row by row."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def from_bytes(data: bytes) -> FloatArray:
    """The vector of shape (384,) that `to_bytes` wrote. Raises CorruptVector and NonFinite."""
    if len(data) != _BYTES_PER_VECTOR:
        raise CorruptVector(f"has {len(data)} bytes instead of {_BYTES_PER_VECTOR}")
    vector: FloatArray = chunks_from_bytes(data)[0]
    return vector


def chunks_from_bytes(data: bytes) -> FloatArray:
    """The chunks of shape (n, 384), n >= 1, that `to_bytes` wrote. Raises as `from_bytes`."""
    if not data or len(data) % _BYTES_PER_VECTOR:
        raise CorruptVector(f"has {len(data)} bytes, no positive multiple of {_BYTES_PER_VECTOR}")
    rows: FloatArray = np.frombuffer(data, dtype="<f4").astype(np.float32).reshape(-1, DIMENSIONS)
    if not np.isfinite(rows).all():
        raise NonFinite("a stored vector")
    if np.abs(np.linalg.norm(rows, axis=1) - 1.0).max() > _UNIT_TOLERANCE:
        raise CorruptVector("is not of length 1")
    rows.setflags(write=False)
    return rows
