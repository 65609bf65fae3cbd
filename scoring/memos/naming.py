"""Names of tips, runs, rules and categories as a memo may write them: in backticks, on one line.

Guarantees: a shown name has no backtick, no square bracket, no hidden character and no line end, is never
read as a figure and has at most NAME_CHARS characters; within one `Shown` two names that differ are
shown differently, also to who ignores case. A name that would read as a figure gets the word for its kind
in front; one that had to be altered ends in a part of its sha256. What is shown is not the key of a row:
provenance holds that.

Shaped by: names come from senders, and stand in labels that the gate reads.
"""

from __future__ import annotations

import hashlib
from typing import Final

from memory.terminal import visible
from scoring.memos.figures import find_figures
from scoring.memos.figures_tokens import tokens_of

NAME_CHARS: Final = 70
"""So that two names fit into one label."""
TEXT_CHARS: Final = 300
"""Of a quoted tip."""
_MARK: Final = 8
_SHORT: Final = 4
_PLAIN: Final = str.maketrans({"`": "'", "[": "(", "]": ")"})


def clean(text: str) -> str:
    """Return ``text`` on one line, with hidden characters written as escapes; "" if nothing is left."""
    return " ".join(visible(" ".join(text.split())).translate(_PLAIN).split())


def quoted(text: str) -> str:
    """Return the beginning of a text as a name fact may hold it; "" of an empty one."""
    shown = clean(text)
    return shown if len(shown) <= TEXT_CHARS else shown[: TEXT_CHARS - 1].rstrip() + "…"


def reads_as_figure(name: str) -> bool:
    """Whether the gate would take ``name`` for a quantity, as in `17 times` (``gate_names``)."""
    tokens = tokens_of(name)
    figures = find_figures(tokens).figures
    return bool(figures) and figures[0].first == 0 and len(tokens) < _SHORT


class Shown:
    """The names of one snapshot. ``kind`` is the word before a name that would read as a figure."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()

    def name(self, kind: str, raw: str) -> str:
        """Return what ``raw``, a name of a ``kind``, is called; the same each time."""
        key = (kind, raw)
        if key not in self._shown:
            shown = self._fitting(kind, raw)
            self._taken.add(_compared(shown))
            self._shown[key] = shown
        return self._shown[key]

    def _fitting(self, kind: str, raw: str) -> str:
        shown = clean(raw)
        plain = shown == raw
        if not any(char.isalnum() for char in shown) or reads_as_figure(shown):
            shown = f"{kind} {shown}".rstrip()
        if plain and len(shown) <= NAME_CHARS and _compared(shown) not in self._taken:
            return shown
        return self._marked(shown, raw)

    def _marked(self, shown: str, raw: str) -> str:
        digest = hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()
        for size in range(_MARK, len(digest) + 1, _MARK):
            mark = f" #{digest[:size]}"
            found = shown[: NAME_CHARS - len(mark)].rstrip() + mark
            if _compared(found) not in self._taken:
                return found
        return f"#{digest}"


def _compared(name: str) -> str:
    return " ".join(name.casefold().split())
