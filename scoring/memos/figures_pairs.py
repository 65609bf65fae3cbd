"""Figures that belong together: both ends of a range, and the two numbers of "3 of 5".

Guarantees: the two figures of a pair stay two figures, so that each needs its own source; one lends
the other the unit, currency or scale that is written once ("$1.2-1.4B"). Only small shares in words
("one in five") become one figure. It does not say which end is which.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_units import Shape, word_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scoring.memos.figures_model import Figure
    from scoring.memos.figures_tokens import Token

_DASHES: Final = frozenset({"-", "\u2013", "\u2014", "\u2212", "to", "through", "until", "till"})
_SMALL: Final = 10
"""The largest number of a share in words: one in ten, nine out of ten."""


def joint_after(
    tokens: Sequence[Token], first: int, stop: int, shape: Shape
) -> tuple[str, int] | None:
    """Return how the figure at ``first`` goes on ("range", "fraction", "in"), and where."""
    word = word_at(tokens, stop)
    if word in _DASHES:
        return "range", stop + 1
    if word == "and" and any(
        token.is_word("between") for token in tokens[max(0, first - 2) : stop]
    ):
        return "range", stop + 1
    if word == "." and word_at(tokens, stop + 1) == ".":
        return "range", stop + 2 + (word_at(tokens, stop + 2) == ".")
    if word == "/" and shape is Shape.PLAIN:
        return "fraction", stop + 1
    if word == "in" and shape is Shape.PLAIN:
        return "in", stop + 1
    if word == "of" or (word == "out" and word_at(tokens, stop + 1) == "of"):
        begin = stop + 1 + (word == "out")
        return "fraction", begin + (
            word_at(tokens, begin) in {"the", "all", "those", "these", "its"}
        )
    return None


def joined(first: Figure, second: Figure, joint: str) -> tuple[Figure, ...]:
    """Return both figures, each with the unit and scale that the other lends it."""
    if joint == "in":
        return _share(first, second)
    if joint == "fraction":
        return replace(first, pair=joint), replace(second, pair=joint)
    if second.scaled and not first.scaled and first.sign == second.sign == "":
        first = _times(first, second.scale)
    if first.shape is Shape.PLAIN and second.shape is not Shape.PLAIN:
        factor = Decimal(1)
        if second.shape in {Shape.TIME, Shape.POINTS} and second.written:
            factor = second.value / second.written
        first = replace(
            _times(first, factor), shape=second.shape, currency=second.currency,
            per_share=second.per_share, unit_word=second.unit_word, scale=first.scale,
        )  # fmt: skip
    elif second.shape is Shape.PLAIN and first.shape is Shape.MONEY:
        second = replace(second, shape=Shape.MONEY, currency=first.currency)
    return replace(first, pair="range"), replace(second, pair="range")


def _times(figure: Figure, factor: Decimal) -> Figure:
    return replace(
        figure, value=figure.value * factor, step=figure.step * factor, rough=figure.rough * factor,
        written=figure.written * factor, scale=figure.scale * factor,
    )  # fmt: skip


def _share(first: Figure, second: Figure) -> tuple[Figure, ...]:
    plain = first.shape is Shape.PLAIN and second.shape is Shape.PLAIN
    if not plain or not 0 < first.value < second.value <= _SMALL:
        return first, second
    share = replace(
        first, end=second.end, stop=second.stop, shape=Shape.SHARE, spelled=True,
        value=first.value / second.value, step=Decimal("0.01"),
    )  # fmt: skip
    return (share,)
