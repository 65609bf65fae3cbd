"""Days of the calendar as a memo may write them: 2026-03-12, 12 March 2026, March 12, 2026.

Guarantees: a day is read only where it is complete; day and month without a year, or a month and a
year, are no day (their numbers are then figures like any other). No numeric form but ISO 8601 is
read, because 03/04 is two days. A date that the calendar does not have is reported as none.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_tokens import Token, TokenKind

if TYPE_CHECKING:
    from collections.abc import Sequence

MONTHS: Final = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH: Final = {name: number for number, name in enumerate(MONTHS, start=1)} | {
    name[:3]: number for number, name in enumerate(MONTHS, start=1)
}


def date_at(tokens: Sequence[Token], at: int) -> tuple[date | None, int, int] | None:
    """Return the day written at ``at`` (None if there is no such day), and its first and next index."""
    token = tokens[at]
    if token.kind is TokenKind.DATE:
        glued = at + 1 < len(tokens) and tokens[at + 1].glued and _joins(tokens[at + 1])
        before = token.glued and at > 0 and _joins(tokens[at - 1])
        return (None if glued or before else _day(token.text)), at, at + 1
    if token.kind is TokenKind.NUM and _month(tokens, at + 1) and _is_year(tokens, at + 2):
        return _written(tokens[at + 2], _month(tokens, at + 1), token), at, at + 3
    if _month(tokens, at) and at + 1 < len(tokens) and tokens[at + 1].kind is TokenKind.NUM:
        year = at + 3 if at + 2 < len(tokens) and tokens[at + 2].is_sym(",") else at + 2
        if _is_year(tokens, year) and len(tokens[at + 1].text) <= 2:
            return _written(tokens[year], _month(tokens, at), tokens[at + 1]), at, year + 1
    return None


def _joins(token: Token) -> bool:
    return token.kind in {TokenKind.WORD, TokenKind.NUM, TokenKind.NAME} or token.is_sym(
        "-_/\u2013"
    )


def _month(tokens: Sequence[Token], at: int) -> int:
    if at >= len(tokens) or tokens[at].kind is not TokenKind.WORD or tokens[at].glued:
        return _MONTH.get(tokens[at].norm, 0) if at == 0 and tokens else 0
    return _MONTH.get(tokens[at].norm, 0)


def _is_year(tokens: Sequence[Token], at: int) -> bool:
    if at >= len(tokens) or tokens[at].kind is not TokenKind.NUM or tokens[at].glued:
        return False
    text = tokens[at].text
    closed = at + 1 >= len(tokens) or not (tokens[at + 1].glued and _joins(tokens[at + 1]))
    return len(text) == 4 and text.isdigit() and text[0] in "12" and closed


def _written(year: Token, month: int, day: Token) -> date | None:
    if not day.text.isdigit() or len(day.text) > 2:
        return None
    return _day(f"{year.text}-{month:02}-{int(day.text):02}")


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
