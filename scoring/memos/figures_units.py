"""What may stand before and after a number: scales, currencies, percent, time, bounds.

Guarantees: closed tables and the readers of them; each reader takes tokens and an index and returns
what it found and the index after it. Letters glued to a number that are in no table make the whole
unreadable (an identifier), which `scoring.memos.figures` reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_tokens import Token, TokenKind
from scoring.memos.render_words import SCALES
from scoring.memos.units import CURRENCIES

if TYPE_CHECKING:
    from collections.abc import Sequence


class Shape(StrEnum):
    """What a figure says it is. SHARE is a part in words (half); NONE and ALL are "no" and "every";
    OTHER has a unit that no fact has."""

    PLAIN = "plain"
    PERCENT = "percent"
    POINTS = "points"
    MONEY = "money"
    TIME = "time"
    TOKENS = "tokens"
    MULTIPLE = "multiple"
    SHARE = "share"
    ORDINAL = "ordinal"
    DATE = "date"
    OTHER = "other"
    NONE = "none"
    ALL = "all"


class Bound(StrEnum):
    """How a figure limits the value: a rounding unless a word before it says otherwise."""

    ROUNDED = "rounded"
    EXACT = "exactly"
    ABOUT = "about"
    ABOVE = "above"
    AT_LEAST = "at least"
    BELOW = "below"
    AT_MOST = "at most"


SYMBOLS: Final = {"$": "USD", "\u20ac": "EUR", "\u00a3": "GBP", "\u00a5": "JPY"}
MONEY_WORDS: Final = {
    "dollar": "USD", "dollars": "USD", "euro": "EUR", "euros": "EUR", "pound": "GBP",
    "pounds": "GBP", "yen": "JPY", "francs": "CHF",
}  # fmt: skip
GLUED_SCALES: Final = {
    "k": 10**3, "K": 10**3, "M": 10**6, "mn": 10**6, "B": 10**9, "bn": 10**9, "T": 10**12,
    "tn": 10**12,
}  # fmt: skip
SECONDS: Final = {
    "millisecond": Decimal("0.001"), "ms": Decimal("0.001"), "second": Decimal(1),
    "sec": Decimal(1), "s": Decimal(1), "minute": Decimal(60), "min": Decimal(60),
    "hour": Decimal(3600), "h": Decimal(3600), "hr": Decimal(3600), "day": Decimal(86400),
    "week": Decimal(604800),
}  # fmt: skip
"""Seconds of a unit of time; months and years have no fixed length."""
LOOSE_TIMES: Final = frozenset({"month", "year", "decade", "quarter", "fortnight", "century"})
OTHER_UNITS: Final = frozenset({
    "byte", "kilobyte", "megabyte", "gigabyte", "terabyte", "bit", "kb", "mb", "gb", "tb", "kib",
    "mib", "gib", "km", "kilometre", "kilometer", "metre", "meter", "mile", "kg", "kilogram",
    "gram", "ton", "tonne", "degree", "volt", "watt", "hz", "khz", "mhz", "ghz", "promille",
    "permille", "litre", "bp", "kilotoken", "rpm", "dpi", "pixel", "px", "inch", "foot", "feet",
    "ounce", "acre", "cm", "mm",
})  # fmt: skip
TIMES_AFTER: Final = frozenset({
    "as", "more", "higher", "larger", "greater", "bigger", "the", "that", "what", "its", "fewer",
    "less", "lower", "smaller", "longer",
})  # fmt: skip
BOUNDS: Final = (
    (("more", "than"), Bound.ABOVE), (("greater", "than"), Bound.ABOVE), (("over",), Bound.ABOVE),
    (("higher", "than"), Bound.ABOVE), (("larger", "than"), Bound.ABOVE), (("above",), Bound.ABOVE),
    (("exceeding",), Bound.ABOVE), (("exceeds",), Bound.ABOVE), (("exceeded",), Bound.ABOVE),
    (("beyond",), Bound.ABOVE), (("upwards", "of"), Bound.ABOVE), (("upward", "of"), Bound.ABOVE),
    (("topped",), Bound.ABOVE), (("tops",), Bound.ABOVE), (("exactly",), Bound.EXACT),
    (("precisely",), Bound.EXACT), (("exactly", "at"), Bound.EXACT), (("a", "full"), Bound.EXACT),
    (("at", "least"), Bound.AT_LEAST), (("no", "less", "than"), Bound.AT_LEAST),
    (("no", "fewer", "than"), Bound.AT_LEAST), (("not", "less", "than"), Bound.AT_LEAST),
    (("minimum", "of"), Bound.AT_LEAST), (("less", "than"), Bound.BELOW),
    (("fewer", "than"), Bound.BELOW), (("lower", "than"), Bound.BELOW),
    (("smaller", "than"), Bound.BELOW), (("under",), Bound.BELOW), (("below",), Bound.BELOW),
    (("nearly",), Bound.BELOW), (("almost",), Bound.BELOW), (("just", "short", "of"), Bound.BELOW),
    (("short", "of"), Bound.BELOW), (("at", "most"), Bound.AT_MOST), (("up", "to"), Bound.AT_MOST),
    (("no", "more", "than"), Bound.AT_MOST), (("not", "more", "than"), Bound.AT_MOST),
    (("maximum", "of"), Bound.AT_MOST), (("about",), Bound.ABOUT), (("around",), Bound.ABOUT),
    (("roughly",), Bound.ABOUT), (("approximately",), Bound.ABOUT), (("approx", "."), Bound.ABOUT),
    (("approx",), Bound.ABOUT), (("circa",), Bound.ABOUT), (("close", "to"), Bound.ABOUT),
    (("some",), Bound.ABOUT), (("~",), Bound.ABOUT), (("\u2248",), Bound.ABOUT),
    (("<",), Bound.BELOW), ((">",), Bound.ABOVE), (("\u2264",), Bound.AT_MOST),
    (("\u2265",), Bound.AT_LEAST), (("<", "="), Bound.AT_MOST), ((">", "="), Bound.AT_LEAST),
)  # fmt: skip
BOUNDS_BY_LAST: Final = {
    last: sorted((item for item in BOUNDS if item[0][-1] == last), key=lambda item: -len(item[0]))
    for last in {words[-1] for words, _ in BOUNDS}
}
AFTER_BOUNDS: Final = {
    ("or", "more"): Bound.AT_LEAST, ("or", "above"): Bound.AT_LEAST, ("or", "higher"): Bound.AT_LEAST,
    ("or", "less"): Bound.AT_MOST, ("or", "fewer"): Bound.AT_MOST, ("or", "lower"): Bound.AT_MOST,
    ("or", "below"): Bound.AT_MOST, ("or", "so"): Bound.ABOUT, ("and", "above"): Bound.AT_LEAST,
    ("at", "least"): Bound.AT_LEAST, ("at", "most"): Bound.AT_MOST, ("exactly",): Bound.EXACT,
    ("precisely",): Bound.EXACT, ("sharp",): Bound.EXACT, ("and", "counting"): Bound.ABOVE,
    ("plus",): Bound.AT_LEAST, ("odd",): Bound.ABOVE,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Suffix:
    """What stands after a number. ``factor`` turns the written number into the shape's base unit."""

    shape: Shape
    stop: int
    factor: Decimal = Decimal(1)
    currency: str = ""
    per_share: bool = False


def word_at(tokens: Sequence[Token], at: int) -> str:
    """Return the compared form of the word or sign at ``at``, or ""."""
    if not 0 <= at < len(tokens) or tokens[at].kind not in {TokenKind.WORD, TokenKind.SYM}:
        return ""
    return tokens[at].norm


def scale_at(tokens: Sequence[Token], at: int, *, money: bool) -> tuple[Decimal, int]:
    """Read scales (thousand, k, M, bn…) from ``at`` on; the factor is 1 if there is none."""
    factor = Decimal(1)
    while at < len(tokens):
        hyphen = tokens[at].is_sym("-") and tokens[at].glued
        here = at + 1 if hyphen else at
        if here >= len(tokens) or tokens[here].kind is not TokenKind.WORD:
            break
        token = tokens[here]
        size = SCALES.get(token.norm) or (100 if token.norm == "hundred" else 0)
        size = size or (12 if token.norm == "dozen" else 0)
        if not size and factor == 1 and not hyphen:  # 10-K is a form
            size = GLUED_SCALES.get(token.text, 0)
            size = size or (10**6 if money and token.text == "m" and token.glued else 0)
            size = size or (10**9 if money and token.text == "b" and token.glued else 0)
        if not size:
            break
        factor, at = factor * size, here + 1
    return factor, at


def suffix_at(tokens: Sequence[Token], at: int) -> Suffix:
    """Read the unit after a number; PLAIN with ``stop`` at ``at`` if there is none."""
    here = (
        at + 1
        if at < len(tokens) and tokens[at].is_sym("-\u2010\u2011") and tokens[at].glued
        else at
    )
    word = word_at(tokens, here)
    if not word:
        return Suffix(Shape.PLAIN, at)
    return (
        _percent(tokens, here, word)
        or _money(tokens, here)
        or _time(tokens, here, word)
        or _multiple(tokens, here, word)
        or Suffix(Shape.PLAIN, at)
    )


def _percent(tokens: Sequence[Token], at: int, word: str) -> Suffix | None:
    after = at + 1
    if word == "per" and word_at(tokens, after) == "cent":
        word, after = "percent", after + 1
    following = after + 1 if word_at(tokens, after) in {"-", "\u2011"} else after
    if word in {"%", "percent", "percentage", "pct"}:
        if word_at(tokens, following) in {"point", "points", "pts"}:
            return Suffix(Shape.POINTS, following + 1)
        return Suffix(Shape.PERCENT, after) if word != "percentage" else None
    if word in {"pp", "pps", "ppt", "ppts", "points", "point", "pts", "pt"}:
        return Suffix(Shape.POINTS, after)
    if word in {"bp", "bps"}:
        return Suffix(Shape.POINTS, after, Decimal("0.01"))
    if word == "basis" and word_at(tokens, following) in {"point", "points"}:
        return Suffix(Shape.POINTS, following + 1, Decimal("0.01"))
    return None


def _money(tokens: Sequence[Token], at: int) -> Suffix | None:
    token = tokens[at]
    if token.is_sym("$\u20ac\u00a3\u00a5"):
        return _with_share(tokens, Suffix(Shape.MONEY, at + 1, currency=SYMBOLS[token.text]))
    if token.text in CURRENCIES:
        return _with_share(tokens, Suffix(Shape.MONEY, at + 1, currency=token.text))
    if token.norm in MONEY_WORDS:
        return _with_share(tokens, Suffix(Shape.MONEY, at + 1, currency=MONEY_WORDS[token.norm]))
    if token.is_word("us") and word_at(tokens, at + 1) in {"dollar", "dollars"}:
        return _with_share(tokens, Suffix(Shape.MONEY, at + 2, currency="USD"))
    if token.is_word("cent", "cents"):
        return Suffix(Shape.MONEY, at + 1, Decimal("0.01"), "USD")
    return None


def _with_share(tokens: Sequence[Token], found: Suffix) -> Suffix:
    stop = share_at(tokens, found.stop)
    return Suffix(found.shape, stop, found.factor, found.currency, stop > found.stop)


def share_at(tokens: Sequence[Token], at: int) -> int:
    """Return the index after "per share", "a share" or "/share", or ``at``."""
    here = at + 1 if word_at(tokens, at) == "-" else at
    if word_at(tokens, here) in {"per", "a", "each", "/"}:
        here += 1
        here += word_at(tokens, here) == "-"
        if word_at(tokens, here) == "share":
            return here + 1
    return at


def _time(tokens: Sequence[Token], at: int, word: str) -> Suffix | None:
    if word in {"token", "tokens"}:
        return Suffix(Shape.TOKENS, at + 1)
    single = word if word in SECONDS else word.removesuffix("s")
    if single in SECONDS and (len(single) > 1 or tokens[at].glued or single == word == "s"):
        return Suffix(Shape.TIME, at + 1, SECONDS[single])
    if single in OTHER_UNITS:
        return Suffix(Shape.OTHER, at + 1)
    if single in LOOSE_TIMES:
        return Suffix(Shape.TIME, at + 1, Decimal(0))
    return None


def _multiple(tokens: Sequence[Token], at: int, word: str) -> Suffix | None:
    if word in {"x", "\u00d7", "fold"}:
        return Suffix(Shape.MULTIPLE, at + 1)
    if word == "times" and word_at(tokens, at + 1) in TIMES_AFTER:
        return Suffix(Shape.MULTIPLE, at + 1)
    return None


def bound_before(tokens: Sequence[Token], at: int) -> tuple[Bound, int]:
    """Read the bound that ends just before index ``at``; return it and the index where it begins."""
    for words, bound in BOUNDS_BY_LAST.get(word_at(tokens, at - 1), ()):
        begin = at - len(words)
        if begin >= 0 and all(word_at(tokens, begin + n) == word for n, word in enumerate(words)):
            return bound, begin
    return Bound.ROUNDED, at


def bound_after(tokens: Sequence[Token], at: int) -> tuple[Bound, int]:
    """Read a bound that begins at ``at`` ("or more", "at least", "+"), and the index after it."""
    if at < len(tokens) and tokens[at].is_sym("+") and tokens[at].glued:
        return Bound.AT_LEAST, at + 1
    for words, bound in AFTER_BOUNDS.items():
        if all(word_at(tokens, at + n) == word for n, word in enumerate(words)):
            return bound, at + len(words)
    return Bound.ROUNDED, at
