"""Sentence vectors as values: cosines stay numbers, stored bytes stay vectors.

Holds `scoring.vectors` to its ranges and to refusing what is damaged. No model is loaded: the
vectors are made here, some of them by hypothesis.

Shaped by: NaN, which every comparison with a threshold quietly calls "below".
"""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.vectors import (
    DIMENSIONS,
    CorruptVector,
    FloatArray,
    NonFinite,
    TextVector,
    chunks_from_bytes,
    cosine,
    cosine_max_chunk,
    from_bytes,
    to_bytes,
)

PROJECT = Path(__file__).resolve().parents[2]


def unit_rows(seed: int, count: int = 1) -> FloatArray:
    rows = np.random.default_rng(seed).normal(size=(count, DIMENSIONS))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def text_vector(chunks: FloatArray) -> TextVector:
    return TextVector("0" * 64, chunks[0], chunks, tokens=300, truncated=len(chunks) > 1)


@given(seed=st.integers(0, 2**32), chunks=st.integers(1, 6), scale=st.floats(0.5, 1.5))
def test_cosines_are_the_highest_dot_product_within_their_range(
    seed: int, chunks: int, scale: float
) -> None:
    tip = text_vector(unit_rows(seed) * np.float32(scale))
    script = text_vector(unit_rows(seed + 1, chunks))
    products = [
        math.fsum(float(a) * float(b) for a, b in zip(tip.vector, row, strict=True))
        for row in script.chunks
    ]
    assert cosine(tip, script) == pytest.approx(products[0], abs=1e-9)
    assert cosine(tip, script) == pytest.approx(cosine(script, tip), abs=1e-9)
    assert cosine_max_chunk(tip, script) == pytest.approx(max(products), abs=1e-9)
    assert -1.0 <= cosine(tip, text_vector(-tip.chunks)) <= cosine(tip, tip) <= 1.0


def test_rounding_never_carries_a_cosine_over_one() -> None:
    stretched = text_vector(unit_rows(7) * np.float32(1.0001))
    assert cosine(stretched, stretched) == 1.0
    assert cosine_max_chunk(stretched, text_vector(-stretched.chunks)) == -1.0


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_vector_that_is_not_finite_gives_an_error_and_no_number(number: float) -> None:
    tip = text_vector(unit_rows(1))
    damaged = unit_rows(2, 3)
    damaged[1:, 5] = number
    assert math.isfinite(cosine(tip, text_vector(damaged)))
    with pytest.raises(NonFinite, match="encode it again"):
        cosine_max_chunk(tip, text_vector(damaged))
    with pytest.raises(NonFinite):
        cosine(tip, text_vector(damaged[1:]))


def test_bytes_are_little_endian_float32_and_come_back_equal() -> None:
    rows = unit_rows(3, 4)
    stored = to_bytes(rows[0])
    assert len(stored) == DIMENSIONS * 4
    assert stored[:4] == struct.pack("<f", rows[0, 0])
    assert np.array_equal(from_bytes(stored), rows[0])
    assert np.array_equal(chunks_from_bytes(to_bytes(rows)), rows)
    assert not from_bytes(stored).flags.writeable
    assert not chunks_from_bytes(stored).flags.writeable


def test_bytes_that_are_no_unit_vector_are_refused() -> None:
    vector = unit_rows(4)[0]
    stored = to_bytes(vector)
    for damaged in (b"", stored[:-1], stored + stored, to_bytes(vector * np.float32(0.5))):
        with pytest.raises(CorruptVector, match="encode the text again"):
            from_bytes(damaged)
    for damaged in (b"", stored + stored[:4], stored + bytes(DIMENSIONS * 4)):
        with pytest.raises(CorruptVector):
            chunks_from_bytes(damaged)
    with pytest.raises(NonFinite):
        from_bytes(struct.pack("<f", math.nan) + stored[4:])


def test_cached_vectors_are_compared_without_a_learning_library() -> None:
    code = (
        "import sys, scoring.vectors; print([m for m in ('torch', 'django') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
