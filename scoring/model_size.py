"""The one rule on model size: a judge whose name says "below a billion parameters" has no figures.

Guarantees: `too_small` reads the size from the name (135M, 0.5B, 270m, 8x7B) and takes the largest
one named; "tiny" or "random" without a size counts as small, as test models are called. Pure.

Does not guarantee that a name tells the truth, or says anything: a name without a size passes.

Shaped by quality figures that somebody quoted from a test model that had answered at random.
"""

from __future__ import annotations

import re
from typing import Final

SMALLEST_SHOWN: Final = 1.0
"""Billions of parameters from which a judge's figures may be shown."""

_SIZE = re.compile(r"(?<![A-Za-z0-9.])(?:\d+x)?(\d+(?:\.\d+)?)([mb])(?![A-Za-z0-9])", re.IGNORECASE)
_TEST_MODEL = re.compile(r"(?<![A-Za-z])(?:tiny|random)(?![A-Za-z])", re.IGNORECASE)
_PER_BILLION: Final = {"b": 1.0, "m": 1_000.0}


class ModelTooSmall(ValueError):
    """Figures of this model are never shown."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model!r} names a model below {SMALLEST_SHOWN:g}B parameters: its verdicts show that "
            f"the pipeline works, not how well it judges, so no figure of it is shown; name a "
            f"larger model"
        )


def billions_named(model: str) -> float | None:
    """The largest number of parameters that *model*'s name states, in billions; None: none stated."""
    sizes = [float(number) / _PER_BILLION[unit.lower()] for number, unit in _SIZE.findall(model)]
    return max(sizes, default=None)


def too_small(model: str) -> bool:
    """Whether quality figures of *model* must not be shown."""
    size = billions_named(model)
    if size is None:
        return _TEST_MODEL.search(model) is not None
    return size < SMALLEST_SHOWN


NAME_AT_MOST: Final = 120
"""Characters of a model's name that ``llm_source`` keeps; a system check refuses longer ones."""


def source_name(model: str, prompt_sha256: str) -> str:
    """The judge as ``llm_source`` of a retrieval names it: model @ prompt sha256."""
    return f"{model[:NAME_AT_MOST]}@{prompt_sha256}"
