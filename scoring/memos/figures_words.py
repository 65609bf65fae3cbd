"""The number words of English, and how they add up.

Guarantees: the vocabulary is closed and stands in tables; `spelled_at` reads the longest number that
begins at a token. Words that only look like numbers are told apart by closed lists ("no one", "the
latter one"). It knows English only: a memo in another language is not read.

Source: the original gate read one to twelve and the tens, and only before a scale word (hole 5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_model import NotAFigureError
from scoring.memos.figures_tokens import Token, TokenKind
from scoring.memos.render_words import SCALES, SMALL, TENS

if TYPE_CHECKING:
    from collections.abc import Sequence


class Spelling(StrEnum):
    """What a spelled number says: how many, a share, a multiple, a place in a row."""

    CARDINAL = "cardinal"
    SHARE = "share"
    MULTIPLE = "multiple"
    ORDINAL = "ordinal"


@dataclass(frozen=True, slots=True)
class Spelled:
    """A number in words: its value, the place it is given to, and the index after it."""

    value: Decimal
    step: Decimal
    stop: int
    spelling: Spelling


ONES: Final = {word: number for number, word in enumerate(SMALL)} | {
    "nil": 0, "nought": 0, "naught": 0, "zilch": 0,
}  # fmt: skip
TEN_FOLD: Final = {word: 10 * (number + 2) for number, word in enumerate(TENS)} | {"fourty": 40}
MULTIPLIERS: Final = {"hundred": 100, "dozen": 12} | SCALES
CARDINALS: Final = ONES | TEN_FOLD | MULTIPLIERS
PAIRS: Final = {
    "couple": 2, "pair": 2, "duo": 2, "trio": 3, "quartet": 4, "quintet": 5, "handful": 5,
}  # fmt: skip
MULTIPLES: Final = {
    "twice": 2, "thrice": 3, "double": 2, "doubled": 2, "doubles": 2, "doubling": 2, "triple": 3,
    "tripled": 3, "triples": 3, "tripling": 3, "treble": 3, "trebled": 3, "quadruple": 4,
    "quadrupled": 4, "quadruples": 4, "quintuple": 5, "quintupled": 5, "tenfold": 10,
}  # fmt: skip
_TWICE_DONE: Final = frozenset({"check", "checked", "checks", "quote", "quoted"})
PARTS: Final = {
    "half": 2, "halves": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "seventh": 7,
    "eighth": 8, "ninth": 9, "tenth": 10, "twentieth": 20, "hundredth": 100, "thousandth": 1000,
}  # fmt: skip
ORDINALS: Final = {
    "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10, "eleventh": 11, "twelfth": 12, "twentieth": 20, "thirtieth": 30, "fortieth": 40,
    "fiftieth": 50, "sixtieth": 60, "seventieth": 70, "eightieth": 80, "ninetieth": 90,
    "hundredth": 100, "thousandth": 1000, "millionth": 10**6,
} | {f"{word}th": ONES[word] for word in SMALL[13:]}  # fmt: skip
EARLY: Final = {"first": 1, "second": 2}
"""Ordinals that are ordinary words too; they count before a noun of the facts, or after tens."""
VAGUE: Final = frozenset(
    {"dozens", "hundreds", "thousands", "millions", "billions", "trillions", "myriad", "umpteen"}
    | {"teens", "decade", "decades", "century", "centuries", "fortnight", "digit", "digits"}
    | {word[:-1] + "ies" for word in TENS}
)  # fmt: skip
"""Words that state a number nobody can check."""
_NO_ONE_BEFORE: Final = frozenset(
    {"no", "the", "this", "that", "each", "every", "any", "another", "which", "some", "other", "a"}
    | {"former", "latter", "last", "first", "next", "same", "right", "wrong", "only"}
)
_ONE_AFTER: Final = frozenset({"another", "by", "or", "way", "hand", "side"})
_FOLD: Final = re.compile(rf"({'|'.join(sorted(CARDINALS, key=len, reverse=True))})fold")
_JOINED: Final = re.compile(
    rf"(?:(?:{'|'.join(sorted(CARDINALS, key=len, reverse=True))})(?:and)?)+"
)
_SPLIT: Final = re.compile("|".join(sorted(CARDINALS, key=len, reverse=True)))


_HIDEABLE: Final = frozenset(
    {*CARDINALS, *ORDINALS, *MULTIPLES, *PARTS, "dozens", "hundreds", "thousands"}
)


def taken_apart(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Return index ranges of number words that are written in pieces: "fi-ve", "t w o"."""
    words = [at for at, token in enumerate(tokens) if token.kind is TokenKind.WORD]
    found = []
    for place, first in enumerate(words):
        near = words[place : place + 10]
        joined, pieces = tokens[first].norm, [tokens[first].norm]
        for last in near[1:]:
            joined += tokens[last].norm
            pieces.append(tokens[last].norm)
            short = len(pieces) == 2 or all(len(piece) == 1 for piece in pieces)
            between = tokens[first + 1 : last]
            bare = all(
                token.kind is TokenKind.WORD or token.is_sym("-.\u2010\u2011") for token in between
            )
            if not bare or len(joined) > 10:
                break
            if short and joined in _HIDEABLE and not _HIDEABLE & set(pieces):
                found.append((first, last + 1))
    return found


def spelled_at(tokens: Sequence[Token], at: int) -> Spelled | None:
    """Read the number in words that begins at index ``at``, if one does."""
    token = tokens[at]
    if token.kind is not TokenKind.WORD:
        return None
    word = token.norm
    return (
        _multiple(tokens, at, word)
        or _half(tokens, at, word)
        or _parts(tokens, at)
        or _ordinal(tokens, at)
        or _cardinal(tokens, at)
        or _pair(tokens, at, word)
    )


def _next_word(tokens: Sequence[Token], at: int) -> str:
    """Return the word at ``at`` past one hyphen, or ""."""
    at = _past_hyphen(tokens, at)
    return tokens[at].norm if at < len(tokens) and tokens[at].kind is TokenKind.WORD else ""


def _past_hyphen(tokens: Sequence[Token], at: int) -> int:
    hyphen = at < len(tokens) and tokens[at].is_sym("-\u2010\u2011") and tokens[at].glued
    return at + 1 if hyphen else at


def _exact(value: int | Decimal, stop: int, spelling: Spelling) -> Spelled:
    return Spelled(Decimal(value), Decimal(1), stop, spelling)


def _multiple(tokens: Sequence[Token], at: int, word: str) -> Spelled | None:
    if word in {"halved", "halve", "halving"}:
        return Spelled(Decimal("0.5"), Decimal("0.1"), at + 1, Spelling.MULTIPLE)
    if fold := _FOLD.fullmatch(word):
        return _exact(CARDINALS[fold[1]], at + 1, Spelling.MULTIPLE)
    if word not in MULTIPLES:
        return None
    following = _next_word(tokens, at + 1)
    if word in {"double", "triple"} and following in _TWICE_DONE:
        return None
    counts = word in {"twice", "thrice"} and following not in {"as", "the", "that", "its"}
    return _exact(MULTIPLES[word], at + 1, Spelling.CARDINAL if counts else Spelling.MULTIPLE)


def _half(tokens: Sequence[Token], at: int, word: str) -> Spelled | None:
    """Half, and half a (dozen, million, hour)."""
    start = at
    if word in {"a", "one"} and _next_word(tokens, at + 1) == "half":
        start = _past_hyphen(tokens, at + 1)
    elif word not in {"half", "halves"}:
        return None
    after = start + 1
    if _next_word(tokens, after) in {"a", "an"}:
        inner = _past_hyphen(tokens, after) + 1
        scale = MULTIPLIERS.get(_next_word(tokens, inner))
        if scale:
            value = Decimal(scale) / 2
            return Spelled(value, value / 5, _past_hyphen(tokens, inner) + 1, Spelling.CARDINAL)
        return Spelled(Decimal("0.5"), Decimal("0.1"), inner, Spelling.SHARE)
    if scale := MULTIPLIERS.get(_next_word(tokens, after)):
        stop = _past_hyphen(tokens, after) + 1
        return Spelled(Decimal(scale) / 2, Decimal(scale) / 10, stop, Spelling.CARDINAL)
    return Spelled(Decimal("0.5"), Decimal("0.01"), after, Spelling.SHARE)


def _parts(tokens: Sequence[Token], at: int) -> Spelled | None:
    """A third, two-thirds, three quarters; a quarter alone counts before "of" only."""
    word = tokens[at].norm
    count = 1 if word in {"a", "an"} else ONES.get(word, 0)
    part_at = _past_hyphen(tokens, at + 1) if count else at
    if part_at >= len(tokens) or tokens[part_at].kind is not TokenKind.WORD:
        return None
    part = tokens[part_at].norm
    whole = PARTS.get(part) or PARTS.get(part.removesuffix("s"))
    plural = part.endswith("s") and part != "halves"
    if not whole or (not count and not plural and _next_word(tokens, part_at + 1) != "of"):
        return None
    if not count and plural and _next_word(tokens, part_at + 1) != "of":
        return None  # "quarters" of a year, "thirds" in a list
    value = Decimal(count or 1) / whole
    return Spelled(value, Decimal("0.01"), part_at + 1, Spelling.SHARE)


def _ordinal(tokens: Sequence[Token], at: int) -> Spelled | None:
    word = tokens[at].norm
    if word in ORDINALS:
        return _exact(ORDINALS[word], at + 1, Spelling.ORDINAL)
    last = _next_word(tokens, at + 1)
    if word in TEN_FOLD and (ORDINALS.get(last, 10) < 10 or last in EARLY):
        value = TEN_FOLD[word] + (ORDINALS.get(last) or EARLY[last])
        return _exact(value, _past_hyphen(tokens, at + 1) + 1, Spelling.ORDINAL)
    return None


def _pair(tokens: Sequence[Token], at: int, word: str) -> Spelled | None:
    if word in PAIRS and at + 1 < len(tokens) and tokens[at + 1].is_word("of", "more", "fewer"):
        return _exact(PAIRS[word], at + 1, Spelling.CARDINAL)
    return None


class _Sum:
    """Adds number words up, left to right."""

    def __init__(self) -> None:
        self.total, self.current, self.step, self.last = 0, 0, 1, ""

    def takes(self, word: str) -> bool:
        """Take the next word, or say that it begins another number."""
        if word in ONES:
            value = ONES[word]
            free = self.last in {"", "hundred", "scale"} or (self.last == "tens" and 0 < value < 10)
            if not free:
                return False
            self.current += value
            self.last = "ones" if value else "zero"
        elif word in TEN_FOLD:
            if self.last not in {"", "hundred", "scale"}:
                return False
            self.current, self.last = self.current + TEN_FOLD[word], "tens"
        elif word in {"hundred", "dozen"}:
            if self.last in {"hundred", "zero"}:
                return False
            self.current, self.last = (self.current or 1) * MULTIPLIERS[word], "hundred"
        else:
            scale = SCALES[word]
            self.total += (self.current or (1 if not self.total else 0)) * scale
            if self.last == "scale":  # "thousand million"
                self.total = self.total * scale if not self.current else self.total
            self.current, self.last, self.step = 0, "scale", scale
            return True
        self.step = 1
        return True


def _cardinal(tokens: Sequence[Token], at: int) -> Spelled | None:
    words = _number_words(tokens[at].norm)
    after_a = tokens[at].is_word("a", "an") and _next_word(tokens, at + 1) in MULTIPLIERS
    if not after_a and (not words or _is_pronoun(tokens, at)):
        return None
    adding, stop = _Sum(), at + 1 if after_a else at
    while stop < len(tokens):
        here = _joint(tokens, stop, adding) if stop > at else stop
        if here >= len(tokens) or tokens[here].kind is not TokenKind.WORD:
            break
        parts = _number_words(tokens[here].norm)
        if not parts or not all(adding.takes(part) for part in parts):
            break
        stop = here + 1
    if stop == at:
        raise NotAFigureError("number words run together that make no number", at, at + 1)
    value, step = Decimal(adding.total + adding.current), Decimal(adding.step)
    return _with_half(tokens, _with_decimals(tokens, Spelled(value, step, stop, Spelling.CARDINAL)))


def _number_words(word: str) -> list[str]:
    """Return the number words of ``word``: one, or more that were written as one ("fiftyfive")."""
    if word in CARDINALS:
        return [word]
    return _SPLIT.findall(word) if _JOINED.fullmatch(word) else []


def _joint(tokens: Sequence[Token], at: int, adding: _Sum) -> int:
    """Return the index past a hyphen or an "and" that holds one number together."""
    here = _past_hyphen(tokens, at)
    if here != at or not tokens[at].is_word("and"):
        return here
    large = adding.last in {"hundred", "scale"}
    following = _number_words(_next_word(tokens, at + 1))
    between = any(token.is_word("between") for token in tokens[max(0, at - 6) : at])
    return at + 1 if large and following and not between else at


def _is_pronoun(tokens: Sequence[Token], at: int) -> bool:
    """Whether "one" stands for a thing here, not for a number."""
    if tokens[at].norm != "one":
        return False
    if tokens[at].text[-2:] in {"'s", "\u2019s"}:
        return True
    before = tokens[at - 1].norm if at else ""
    after = tokens[at + 1].norm if at + 1 < len(tokens) else ""
    if after in MULTIPLIERS or (at + 1 < len(tokens) and tokens[at + 1].is_sym("%")):
        return False
    if after in {"of", "in"}:
        following = tokens[at + 2] if at + 2 < len(tokens) else None
        named = following is not None and following.is_word("the", "these", "those", "its", "them")
        return after == "of" and named
    if before == "the" and at > 1 and tokens[at - 2].is_word("just", "only"):
        return False
    closes = at + 1 >= len(tokens) or tokens[at + 1].kind is not TokenKind.WORD
    return (
        before in _NO_ONE_BEFORE - {"only", "a"}
        or after in _ONE_AFTER
        or (before == "a" and closes)
    )


def _with_decimals(tokens: Sequence[Token], whole: Spelled) -> Spelled:
    """Read "point five" after a whole number."""
    if whole.stop >= len(tokens) or not tokens[whole.stop].is_word("point"):
        return whole
    digits, stop = "", whole.stop + 1
    while (
        stop < len(tokens)
        and tokens[stop].kind is TokenKind.WORD
        and ONES.get(tokens[stop].norm, 10) < 10
    ):
        digits, stop = digits + str(ONES[tokens[stop].norm]), stop + 1
    if not digits:
        return whole
    value = whole.value + Decimal(f"0.{digits}")
    step = Decimal(1).scaleb(-len(digits))
    scale = SCALES.get(_next_word(tokens, stop))
    if scale:
        return Spelled(value * scale, step * scale, stop + 1, whole.spelling)
    return Spelled(value, step, stop, whole.spelling)


def _with_half(tokens: Sequence[Token], whole: Spelled) -> Spelled:
    """Read "and a half" after a whole number, with the scale that may follow."""
    words = [token.norm for token in tokens[whole.stop : whole.stop + 3]]
    if words != ["and", "a", "half"]:
        return whole
    stop = whole.stop + 3
    scale = SCALES.get(_next_word(tokens, stop), 1)
    value, step = (whole.value + Decimal("0.5")) * scale, Decimal("0.1") * scale
    return Spelled(value, step, stop + (scale > 1), whole.spelling)
