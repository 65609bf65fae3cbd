"""Two scripts side by side, line by line, for a person to read.

Guarantees: the lines of both in their order, each once; "equal" is said of the digests of the whole
scripts and is None where one is missing. At most LINES lines of each are laid out, and what was left
off is counted: difflib takes the square of the length in the worst case, and scripts come from
strangers. Does not understand bash: a moved block is a removal and an addition.
"""

from __future__ import annotations

import difflib
import enum
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory.models import Attempt

LINES: Final = 1_000
"""Lines of a script that are laid out."""

LINE: Final = 500
"""Characters of a line that are laid out."""


class LineChange(enum.StrEnum):
    """What became of a line of A."""

    SAME = "same"
    CHANGED = "changed"
    GONE = "gone"
    NEW = "new"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One row: the line in A and in B, None where there is none."""

    change: LineChange
    a: str | None
    b: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scripts:
    """Two scripts. Sizes in characters, None: there was no script. ``left_off``: lines of both."""

    equal: bool | None
    a_chars: int | None
    b_chars: int | None
    a_truncated: bool
    b_truncated: bool
    lines: tuple[Line, ...]
    left_off: int


def scripts_of(a: Attempt | None, b: Attempt | None, *, lines: bool) -> Scripts:
    """Compare the scripts of two attempts annotated with ``script_chars``.

    Args:
        a: an attempt of A, or None; with *lines* its script is read.
        b: the same for B.
        lines: lay the scripts out, too.
    """
    a_chars, b_chars = getattr(a, "script_chars", None), getattr(b, "script_chars", None)
    rows, left_off = _rows(a, b) if lines else ((), 0)
    equal = None
    if a is not None and b is not None and a_chars is not None and b_chars is not None:
        equal = a.script_sha256 == b.script_sha256
    return Scripts(
        equal=equal,
        a_chars=a_chars,
        b_chars=b_chars,
        a_truncated=a is not None and a.script_truncated,
        b_truncated=b is not None and b.script_truncated,
        lines=rows,
        left_off=left_off,
    )


def _rows(a: Attempt | None, b: Attempt | None) -> tuple[tuple[Line, ...], int]:
    texts = [attempt.script if attempt else None for attempt in (a, b)]
    # split at line feeds alone: a lone carriage return or form feed is part of what was run
    split = [text.removesuffix("\n").split("\n") if text else [] for text in texts]
    cut = [[line[:LINE] for line in lines[:LINES]] for lines in split]
    left_off = sum(max(len(lines) - LINES, 0) for lines in split)
    return tuple(side_by_side(*cut)), left_off


def side_by_side(a: list[str], b: list[str]) -> Iterator[Line]:
    """Rows in which equal lines stand beside each other."""
    kinds = {
        "equal": LineChange.SAME,
        "replace": LineChange.CHANGED,
        "delete": LineChange.GONE,
        "insert": LineChange.NEW,
    }
    for kind, a_from, a_to, b_from, b_to in difflib.SequenceMatcher(None, a, b).get_opcodes():
        for one, two in itertools.zip_longest(a[a_from:a_to], b[b_from:b_to]):
            change = kinds[kind]
            if change is LineChange.CHANGED and (one is None or two is None):
                change = LineChange.NEW if one is None else LineChange.GONE
            yield Line(change=change, a=one, b=two)
