"""What turns a text into a vector, as far as this room is concerned: a name and a function, registered.

Guarantees: nothing is loaded until a text has to be encoded; a text is encoded once per process (the
latest few hundred are kept); no encoder registered, or one that cannot work here, is an answer, not an
error of the ranker. Does not know any model: ``memory`` may not import ``scoring``, which registers one.

Vectors of two names must never be compared: the name is the sha256 of weights and recipe.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float32]

QUERY_CHARACTERS: Final = 4000
"""More than a sentence model reads of a text; longer queries are cut, so that the cache stays small."""


class CannotEncode(Exception):
    """A text has no vector here; says why and what mends it."""


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """``name``: sha256 of weights and recipe, hex. ``encode``: text -> unit vector of float32.

    ``encode`` raises CannotEncode.
    """

    name: str
    encode: Callable[[str], FloatArray]


_builders: list[Callable[[], TextEncoder]] = []


def register_encoder(build: Callable[[], TextEncoder] | None) -> None:
    """Have the encoder of *build* used from now on, instead of an earlier one; None: there is none.

    *build* is called at the first use; it must not load a model, ``TextEncoder.encode`` may.
    """
    _builders[:] = [build] if build else []
    current_encoder.cache_clear()
    _encoded.cache_clear()


@lru_cache(maxsize=1)
def current_encoder() -> TextEncoder | None:
    """The registered encoder."""
    return _builders[0]() if _builders else None


def encode_query(encoder: TextEncoder, text: str) -> FloatArray:
    """The vector of *text* (its first QUERY_CHARACTERS), shape (n,), read-only. Raises CannotEncode."""
    return _encoded(encoder, text[:QUERY_CHARACTERS])


@lru_cache(maxsize=512)
def _encoded(encoder: TextEncoder, text: str) -> FloatArray:
    vector = encoder.encode(text)
    vector.setflags(write=False)
    return vector
