"""The units a fact may have, and how far a written figure may be from the value.

Guarantees: the vocabulary is closed; each unit has one tolerance, and it stands in this table. A
tolerance is never enough by itself: a figure must also be a right rounding of the value at the
place it is written to (`scoring.memos.gate_match`). It converts nothing between currencies.
Source: ADR-0006, whose gate used one tolerance (two percent or 0.05) for all units.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Final


class Measure(StrEnum):
    """What kind of quantity a unit measures. NAME is no quantity: its facts hold text."""

    COUNT = "count"
    RANK = "rank"
    PERCENT = "percent"
    POINTS = "points"
    SCORE = "score"
    RATIO = "ratio"
    SECONDS = "seconds"
    TOKENS = "tokens"
    MONEY = "money"
    DATE = "date"
    YEAR = "year"
    NAME = "name"


TOLERANCE: Final = {
    Measure.COUNT: Decimal("0.05"),  # reached by scaled figures only: 48 thousand for 48,212
    Measure.RANK: Decimal(0),
    Measure.PERCENT: Decimal("0.10"),  # whole percents from about 5 on: 12% for 12.4
    Measure.POINTS: Decimal("0.10"),
    Measure.SCORE: Decimal("0.05"),
    Measure.RATIO: Decimal("0.05"),
    Measure.SECONDS: Decimal("0.05"),
    Measure.TOKENS: Decimal("0.05"),
    Measure.MONEY: Decimal("0.05"),
    Measure.DATE: Decimal(0),
    Measure.YEAR: Decimal(0),
    Measure.NAME: Decimal(0),
}
"""Share of the value by which a rounded figure may miss it: 0.05 is what two digits can miss by."""

EXACT_DIGITS: Final = 160
"""Digits in which values are rendered and compared: more than a value and its unit's factor can have, so
that nothing is rounded unseen (the default of `decimal` is 28)."""

WHOLE: Final = frozenset({Measure.COUNT, Measure.RANK, Measure.TOKENS, Measure.YEAR})
"""Measures whose values have no fraction."""

CURRENCIES: Final = frozenset(
    {"AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "ILS", "INR"}
    | {"JPY", "KRW", "MXN", "NOK", "NZD", "PLN", "SEK", "SGD", "TRY", "USD", "ZAR"}
)
"""ISO 4217 codes."""

ALIASES: Final = {
    "%": "percent", "percentage": "percent", "pp": "points", "percentage points": "points",
    "x": "ratio", "multiple": "ratio", "s": "seconds", "sec": "seconds", "second": "seconds",
    "token": "tokens", "number": "count", "text": "name", "index": "score",
}  # fmt: skip
"""What a file of facts may say instead of the name of a unit."""


class UnknownUnit(ValueError):
    """The unit is none of the vocabulary."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit. ``currency`` is an ISO 4217 code for money, else ""."""

    code: str
    measure: Measure
    currency: str = ""
    per_share: bool = False

    @property
    def tolerance(self) -> Decimal:
        """Share of the value by which a rounded figure may miss it, 0 to 1."""
        return TOLERANCE[self.measure]


@lru_cache(maxsize=256)
def unit_of(code: str) -> Unit:
    """Return the unit called ``code``: a measure's name, a currency (``USD``) or ``USD/share``.

    Raises UnknownUnit, which lists the vocabulary.
    """
    base, slash, per = code.partition("/")
    if base in CURRENCIES and (not slash or per == "share"):
        return Unit(code, Measure.MONEY, base, per_share=bool(slash))
    if code in set(Measure) - {Measure.MONEY}:
        return Unit(code, Measure(code))
    known = ", ".join(sorted(set(Measure) - {Measure.MONEY}))
    raise UnknownUnit(f"unknown unit {code!r}: use one of {known}, a currency code or CODE/share")
