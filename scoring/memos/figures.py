"""Finds every figure of a sentence: digits or words, with sign, scale, unit and bound.

Guarantees: each token that holds a digit, each number word, and each sign that belongs to a number ends
in a `Figure` or in an `Unreadable`; nothing is passed over. A figure knows the place it is written to,
so that a rounding can be told from a wrong value. Names in backticks and citations are not figures;
who may stand there is the gate's question. It does not know what is true.

Source: ADR-0006, issue 5; the original passed over integers under five digits and bare decimals.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_bare import both_at, cites
from scoring.memos.figures_dates import date_at
from scoring.memos.figures_model import (
    Figure,
    Found,
    NotAFigureError,
    Unreadable,
    digits_of,
    rough_place,
)
from scoring.memos.figures_pairs import joined, joint_after
from scoring.memos.figures_quantifiers import quantity_at, stem, vague_at
from scoring.memos.figures_tokens import Token, TokenKind, is_number_sign
from scoring.memos.figures_units import (
    SYMBOLS,
    Bound,
    Shape,
    Suffix,
    bound_after,
    bound_before,
    scale_at,
    share_at,
    suffix_at,
    word_at,
)
from scoring.memos.figures_words import EARLY, Spelled, Spelling, spelled_at, taken_apart
from scoring.memos.units import CURRENCIES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

MINUS: Final = "-\u2212\u2013"
_OPENERS: Final = "(\"'\u201c\u2018\u00ab\u2014\u2013\u2026=~\u2248<>\u2264\u2265/:;,|{+"
_BAD_AFTER: Final = "^#@&\\=_<>{~`"
_SCALED: Final = (
    "hundred", "thousand", "million", "billion", "trillion", "dozen", "quadrillion", "quintillion",
    "zillion", "gazillion", "bazillion", "lakh", "crore", "gross", "grand", "thou", "mln", "bln", "trn",
    "mio", "mrd", "myriad",
)  # fmt: skip
"""Scales and what looks like one; those that are read have been taken off before this is asked."""
_BEFORE_MINUS: Final = frozenset({
    "is", "was", "were", "are", "be", "of", "by", "at", "to", "from", "than", "and", "came",
    "reached",
})  # fmt: skip
_BEFORE_ONCE: Final = frozenset({"only", "just", "exactly", "than", "least", "most"})
_RANKED: Final = frozenset({"ranked", "ranks", "rank", "came", "comes", "finished", "placed"})
_LONE_UNITS: Final = frozenset({"percent", "pct", "bps", "bp", "pp", "dollars", "euros"})
_BEFORE_LONE_UNIT: Final = frozenset({"in", "as", "of", "the", "this", "by", "are", "is"})


def find_figures(
    tokens: Sequence[Token],
    masked: Collection[int] = (),
    nouns: Collection[str] = (),
    known: Collection[str] = (),
) -> Found:
    """Read the tokens of one sentence.

    ``masked`` are indexes to leave out (the words of a fact's own label); ``nouns`` are stems of what
    the facts count: "no", "every" and "the first" before one of them are figures. ``known`` are words
    of the labels of the facts that the sentence cites: "always" in one of them is no figure.
    """
    reader = _Sentence(tokens, frozenset(masked), frozenset(nouns), frozenset(known))
    reader.read()
    return Found(tuple(reader.figures), tuple(reader.unreadable), tuple(reader.vague))


class _Sentence:
    def __init__(
        self, tokens: Sequence[Token], masked: frozenset[int], nouns: frozenset[str],
        known: frozenset[str],
    ) -> None:  # fmt: skip
        self.tokens, self.masked, self.nouns = tokens, masked, nouns
        self.known, self.cites = known, cites(tokens)
        self.used = set(masked)
        self.figures: list[Figure] = []
        self.unreadable: list[Unreadable] = []
        self.vague: list[Token] = []

    def read(self) -> None:
        at = 0
        while at < len(self.tokens):
            at = max(at + 1, self._read_at(at))
        for first, stop in taken_apart(self.tokens):
            start, end = self.tokens[first].start, self.tokens[stop - 1].end
            self.unreadable.append(Unreadable(start, end, "a number word in pieces"))
        for at, token in enumerate(self.tokens):
            lone = token.norm in _LONE_UNITS and token.kind is TokenKind.WORD
            lone = lone and word_at(self.tokens, at - 1) not in _BEFORE_LONE_UNIT
            digits = token.kind in {TokenKind.NUM, TokenKind.DATE}
            if at not in self.used and (
                digits or lone or is_number_sign(token) or token.text == "`"
            ):
                self.unreadable.append(
                    Unreadable(token.start, token.end, "a number sign or digit beside no figure")
                )

    def _read_at(self, at: int) -> int:
        token = self.tokens[at]
        if at in self.masked or token.kind in {TokenKind.NAME, TokenKind.CITE}:
            return at + 1
        try:
            figure = self._figure_at(at)
        except NotAFigureError as error:
            span = self.tokens[error.first : error.stop]
            self.unreadable.append(Unreadable(span[0].start, span[-1].end, error.cause))
            self.used.update(range(error.first, error.stop))
            return max(at + 1, error.stop)
        if figure is None:
            if vague_at(self.tokens, at, self.nouns, bare=self._is_bare(at)):
                self.vague.append(token)
            return at + 1
        return self._with_second(figure)

    def _with_second(self, first: Figure) -> int:
        """Keep a figure and, if it is one end of a range or a fraction, the other."""
        joint = joint_after(self.tokens, first.first, first.stop, first.shape)
        second = None
        if joint and joint[1] < len(self.tokens) and joint[1] not in self.masked:
            self.used.update(range(first.first, joint[1]))
            try:
                second = self._figure_at(joint[1], after_joint=True)
            except NotAFigureError:
                second = None
        if joint is None or second is None or second.first > joint[1] + 3:
            self._keep(first)
            return first.stop
        for part in joined(first, second, joint[0]):
            self._keep(part)
        return second.stop

    def _keep(self, figure: Figure) -> None:
        self.used.update(range(figure.first, figure.stop))
        self.figures.append(figure)

    def _figure_at(self, at: int, *, after_joint: bool = False) -> Figure | None:
        tokens = self.tokens
        while after_joint and (
            tokens[at].is_sym("$\u20ac\u00a3\u00a5") or tokens[at].text in CURRENCIES
        ):
            at += 1
            if at >= len(tokens):
                return None
        if dated := date_at(tokens, at):
            day, first, stop = dated
            if day is None:
                raise NotAFigureError("a date that is none", first, stop)
            return self._dated(day, first, stop)
        if tokens[at].kind is TokenKind.NUM:
            return self._number(at, *digits_of(tokens[at]), at + 1, after_joint=after_joint)
        spelled = spelled_at(tokens, at) or self._small_word(at)
        if spelled and not self.masked & set(range(at, spelled.stop)):
            return self._in_words(at, spelled)
        if quantity := quantity_at(tokens, at, self.nouns, bare=self._is_bare(at)):
            shape, stop = quantity
            value = Decimal(shape is Shape.ALL)
            return self._make(
                at, stop, value=value, step=Decimal("0.01"), shape=shape, spelled=True
            )
        return None

    def _is_bare(self, at: int) -> bool:
        """Whether "nothing", "most" and the like are read at ``at`` without a noun behind them."""
        return self.cites and self.tokens[at].norm not in self.known

    def _small_word(self, at: int) -> Spelled | None:
        """Read first, second, single and once where they say how many or in which place."""
        token, following = self.tokens[at], word_at(self.tokens, at + 1)
        one = Spelled(Decimal(1), Decimal(1), at + 1, Spelling.CARDINAL)
        cited = self.tokens[at + 1 : at + 2]
        ranked = word_at(self.tokens, at - 1) in _RANKED or (
            bool(cited) and cited[0].kind is TokenKind.CITE
        )
        if token.is_word(*EARLY) and (ranked or stem(following) in self.nouns):
            return Spelled(Decimal(EARLY[token.norm]), Decimal(1), at + 1, Spelling.ORDINAL)
        if token.is_word("single", "sole", "lone") and stem(following) in self.nouns:
            return one
        if token.is_word("both") and self._is_bare(at) and both_at(self.tokens, at):
            return Spelled(Decimal(2), Decimal(1), at + 1, Spelling.CARDINAL)
        if token.is_word("once") and word_at(self.tokens, at - 1) != "at":
            closes = at + 1 >= len(self.tokens) or self.tokens[at + 1].kind is not TokenKind.WORD
            before = word_at(self.tokens, at - 1) in _BEFORE_ONCE
            return one if (closes and word_at(self.tokens, at + 1) != ",") or before else None
        return None

    def _dated(self, day: date, first: int, stop: int) -> Figure:
        figure = self._make(first, stop, value=Decimal(0), step=Decimal(0), shape=Shape.DATE)
        return replace(figure, day=day)

    def _in_words(self, at: int, spelled: Spelled) -> Figure:
        suffix = suffix_at(self.tokens, spelled.stop)
        if spelled.spelling is Spelling.CARDINAL or (
            spelled.spelling is Spelling.SHARE and suffix.shape is not Shape.PLAIN
        ):
            rough = rough_place(spelled.value, spelled.step)
            return self._number(at, spelled.value, spelled.step, rough, spelled.stop, spelled=True)
        shape = {
            Spelling.SHARE: Shape.SHARE,
            Spelling.MULTIPLE: Shape.MULTIPLE,
            Spelling.ORDINAL: Shape.ORDINAL,
        }[spelled.spelling]
        return self._make(
            at, spelled.stop, value=spelled.value, step=spelled.step, shape=shape, spelled=True
        )

    def _number(
        self, at: int, value: Decimal, step: Decimal, rough: Decimal, stop: int,
        *, spelled: bool = False, after_joint: bool = False,
    ) -> Figure:  # fmt: skip
        tokens = self.tokens
        first, sign, currency = self._prefix(at, spelled=spelled, after_joint=after_joint)
        scale, stop = scale_at(tokens, stop, money=bool(currency))
        suffix = _ordinal(tokens, stop) or suffix_at(tokens, stop)
        if currency:
            if suffix.shape not in {Shape.PLAIN, Shape.MONEY} or suffix.currency not in {
                "",
                currency,
            }:
                raise NotAFigureError("two units on one figure", first, suffix.stop)
            end = suffix.stop if suffix.currency else share_at(tokens, suffix.stop)
            shared = suffix.per_share or end > suffix.stop
            suffix = Suffix(Shape.MONEY, end, Decimal(1), currency, shared)
        self._check_end(first, suffix.stop)
        if suffix.shape is Shape.MONEY and _in_parentheses(tokens, first, suffix.stop) and not sign:
            sign, first, suffix = "-", first - 1, replace(suffix, stop=suffix.stop + 1)
        number = value * scale
        factor = suffix.factor or Decimal(1)
        large = max(scale, step) if scale >= 1000 or step >= 1000 else Decimal(1)
        figure = self._make(
            first, suffix.stop, value=number * factor, step=step * scale * factor,
            shape=suffix.shape, spelled=spelled,
        )  # fmt: skip
        return replace(
            figure, rough=rough * scale * factor, written=number, sign=sign, currency=suffix.currency,
            per_share=suffix.per_share, scale=large,
            grouped=not spelled and any(not char.isdigit() for char in tokens[at].text),
            unit_word=stem(tokens[suffix.stop - 1].norm) if suffix.shape is not Shape.PLAIN else "",
        )  # fmt: skip

    def _make(
        self,
        first: int,
        stop: int,
        *,
        value: Decimal,
        step: Decimal,
        shape: Shape,
        spelled: bool = False,
    ) -> Figure:
        bound, begin = bound_before(self.tokens, first)
        if self.used & set(range(begin, first)):
            bound, begin = Bound.ROUNDED, first
        after = (
            stop + 1
            if stop < len(self.tokens) and self.tokens[stop].kind is TokenKind.CITE
            else stop
        )
        if bound is Bound.ROUNDED:
            bound, end = bound_after(self.tokens, after)
            self.used.update(range(after, end))
            stop = end if after == stop else stop
        start, end = self.tokens[first].start, self.tokens[stop - 1].end
        return Figure(
            start, end, value, step, shape, begin, stop, rough=step, written=value,
            bound=bound, spelled=spelled,
        )  # fmt: skip

    def _prefix(self, at: int, *, spelled: bool, after_joint: bool) -> tuple[int, str, str]:
        """Read sign and currency backwards from the number; return where they begin."""
        first, sign, currency = at, "", ""
        while first > 0 and first - 1 not in self.used:
            token = self.tokens[first - 1]
            if not currency and token.is_sym("$\u20ac\u00a3\u00a5"):
                currency, first = SYMBOLS[token.text], first - 1
                if token.glued and first and self.tokens[first - 1].is_word("us"):
                    first -= 1
            elif not currency and token.text in CURRENCIES:
                currency, first = token.text, first - 1
            elif not sign and token.is_word("minus", "negative"):
                sign, first = "-", first - 1
            elif not sign and token.is_sym(MINUS + "+") and self._is_sign(first - 1):
                sign, first = "+" if token.text == "+" else "-", first - 1
            else:
                break
        if not after_joint or first < at:
            self._check_begin(first, at)
        return first, sign, currency

    def _is_sign(self, at: int) -> bool:
        token, number = self.tokens[at], self.tokens[at + 1]
        before = self.tokens[at - 1] if at else None
        joined = (
            before is not None
            and token.glued
            and not before.is_sym("(\"'\u201c\u2018\u00ab=:|~$\u20ac\u00a3\u00a5")
        )
        if number.glued:
            return not joined
        if token.text == "\u2212" and not joined:
            return True
        dash = before is not None and (before.norm in _BEFORE_MINUS or before.is_sym(":("))
        if not joined and (token.text == "-" or (dash and token.text != "+")):
            raise NotAFigureError("a spaced hyphen, which can be read as a minus", at, at + 2)
        return False

    def _check_begin(self, first: int, number: int) -> None:
        token = self.tokens[first]
        before = self.tokens[first - 1] if first else None
        if before is None or not token.glued:
            return
        if before.kind is not TokenKind.SYM or before.text not in _OPENERS:
            raise NotAFigureError("a number inside an identifier", first - 1, number + 1)
        inner = self.tokens[first - 2] if first > 1 else None
        word = inner is not None and before.glued and inner.kind is not TokenKind.SYM
        if before.text in "/+=_:,;" and word:
            raise NotAFigureError("a number inside an identifier", first - 2, number + 1)

    def _goes_on(self, at: int) -> bool:
        """Whether what stands behind a citation belongs to the number before it."""
        word = word_at(self.tokens, at)
        unit = suffix_at(self.tokens, at).shape is not Shape.PLAIN
        return unit or word.startswith(_SCALED) or word in {"k", "m", "bn", "tn", "point"}

    def _check_end(self, first: int, stop: int) -> None:
        after = self.tokens[stop] if stop < len(self.tokens) else None
        if after is not None and after.norm.startswith(_SCALED):
            raise NotAFigureError("a scale that is none", first, stop + 1)
        if after is not None and after.kind is TokenKind.CITE and self._goes_on(stop + 1):
            raise NotAFigureError("a citation inside a figure", first, stop + 2)
        if after is None or not after.glued:
            return
        following = self.tokens[stop + 1] if stop + 1 < len(self.tokens) else None
        joined = following is not None and following.glued
        if after.kind in {TokenKind.WORD, TokenKind.NUM, TokenKind.NAME, TokenKind.DATE}:
            raise NotAFigureError("a number inside an identifier", first, stop + 1)
        if after.kind is TokenKind.CITE and joined and following is not None:
            if following.kind in {
                TokenKind.NUM,
                TokenKind.WORD,
                TokenKind.NAME,
            } or following.is_sym("%"):
                raise NotAFigureError("a citation inside a number", first, stop + 2)
            return
        if after.is_sym(_BAD_AFTER):
            raise NotAFigureError("a number inside a formula or an identifier", first, stop + 1)
        if joined and following is not None:
            number = following.kind in {TokenKind.NUM, TokenKind.DATE}
            if (after.is_sym(".,:'\u2019") and number) or (after.is_sym("/") and not number):
                raise NotAFigureError("digits that make no one number", first, stop + 2)
            short = following.kind is TokenKind.WORD and len(following.norm) < 3
            known = suffix_at(self.tokens, stop).shape is not Shape.PLAIN or following.is_word(
                "to", "of"
            )
            if after.is_sym("-\u2010\u2011") and short and not known:
                raise NotAFigureError("a number inside an identifier", first, stop + 2)


def _ordinal(tokens: Sequence[Token], at: int) -> Suffix | None:
    if at < len(tokens) and tokens[at].glued and tokens[at].is_word("st", "nd", "rd", "th"):
        return Suffix(Shape.ORDINAL, at + 1)
    return None


def _in_parentheses(tokens: Sequence[Token], first: int, stop: int) -> bool:
    opened = first > 0 and tokens[first - 1].is_sym("(")
    return opened and stop < len(tokens) and tokens[stop].is_sym(")")
