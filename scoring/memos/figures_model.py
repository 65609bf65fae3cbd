"""What a figure is, and how the digits of one are read.

Guarantees: a figure carries its value and the place it is written to, both as decimals in the base
unit of its shape. It holds no text of the memo but its place there.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_units import Bound, Shape

if TYPE_CHECKING:
    from datetime import date

    from scoring.memos.figures_tokens import Token


MAX_FIGURE_CHARS: Final = 130
"""A value has at most 30 digits, and 60 decimals, see `scoring.memos.facts`; commas stand between."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. ``value`` is in the base unit of its shape (seconds, percentage points, money).

    ``step`` is the place it is written to and ``rough`` the place it is written to if its trailing
    zeros are rounding; ``written`` is the number before its unit. ``first`` and ``stop`` are token
    indexes in the sentence. ``pair`` is "range" or "fraction" for either end of one.
    """

    start: int
    end: int
    value: Decimal
    step: Decimal
    shape: Shape
    first: int
    stop: int
    rough: Decimal = Decimal(1)
    written: Decimal = Decimal(0)
    sign: str = ""
    currency: str = ""
    per_share: bool = False
    scale: Decimal = Decimal(1)
    spelled: bool = False
    grouped: bool = False
    bound: Bound = Bound.ROUNDED
    unit_word: str = ""
    pair: str = ""
    day: date | None = None

    @property
    def scaled(self) -> bool:
        """Whether the figure is written in thousands or more, so that it is rounded by its nature."""
        return self.scale > 1


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Text that holds a digit or a number sign and is no figure."""

    start: int
    end: int
    cause: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a sentence holds."""

    figures: tuple[Figure, ...]
    unreadable: tuple[Unreadable, ...]
    vague: tuple[Token, ...]


class NotAFigureError(Exception):
    """A number that stands in something else; ``cause`` says in what."""

    def __init__(self, cause: str, first: int, stop: int) -> None:
        super().__init__(cause)
        self.cause, self.first, self.stop = cause, first, stop


def digits_of(token: Token) -> tuple[Decimal, Decimal, Decimal]:
    """Return the value of a NUM token, the place it is written to, and that without trailing zeros."""
    shown = token.text.replace("\u2212", "-")
    mantissa, _, exponent = shown.lower().partition("e")
    power = int(exponent) if exponent else 0
    if abs(power) > 40 or len(shown) > MAX_FIGURE_CHARS:
        raise NotAFigureError("a number beyond all facts", 0, 1)
    plain = "".join(char for char in mantissa if char.isdigit() or char == ".")
    step = Decimal(1).scaleb(power - len(plain.partition(".")[2]))
    value = Decimal(plain).scaleb(power)
    return value, step, rough_place(value, step)


def rough_place(value: Decimal, step: Decimal) -> Decimal:
    """Return the place of the last digit that is not zero, for whole numbers."""
    if value == 0 or step < 1:
        return step
    exponent = value.normalize().as_tuple().exponent
    return max(step, Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0))
