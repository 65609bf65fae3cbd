"""Text of strangers on a terminal: control characters are made visible, and nothing else is changed.

Guarantees: what ``visible`` returns holds no character that moves the cursor, changes colours, sets
the window title, reverses the reading direction or hides what stands beside it; the escapes shown
are those of Python string literals, so that a reviewer can tell what was there. Does not translate
look-alike letters, and is no HTML escaping: the admin has its own.

Shaped by: tips and scripts are written by models that read hostile pages, and an operator's terminal
obeys whatever is printed to it.
"""

from __future__ import annotations

import unicodedata
from typing import IO, TYPE_CHECKING, Final, cast

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from io import TextIOBase

    from rich.console import RenderableType

PIPE_WIDTH: Final = 140
"""Columns when the output is no terminal: wide enough that tables are not cut in a log or a pager."""

INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that print as nothing or as an order to the terminal."""


def visible(text: object, *, limit: int | None = None, lines: bool = False) -> str:
    """*text* with every control or invisible character written as its escape.

    Args:
        text: anything; ``str()`` is taken.
        limit: at most this many characters of the text; "…" stands for the rest.
        lines: keep line feeds and tabs, for texts that are shown as blocks.
    """
    raw = str(text)
    if limit is not None and len(raw) > limit:
        raw = raw[: max(limit - 1, 0)] + "…"
    kept = "\n\t" if lines else ""
    return "".join(char if char in kept else _shown(char) for char in raw)


def _shown(char: str) -> str:
    if unicodedata.category(char) not in INVISIBLE:
        return char
    return char.encode("unicode_escape").decode("ascii")


def plain(text: object, style: str = "", *, limit: int | None = None) -> Text:
    """*text* for a rich table or line: visible, and never read as markup."""
    return Text(visible(text, limit=limit), style=style)


def console_for(stream: TextIOBase) -> Console:
    """A console on *stream*, for a command's ``self.stdout``. Colour only on a terminal."""
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(
        file=cast("IO[str]", stream), width=width, markup=False, emoji=False, highlight=False
    )


def print_all(stream: TextIOBase, parts: Iterable[RenderableType]) -> None:
    """Print *parts* one below the other."""
    console = console_for(stream)
    for part in parts:
        console.print(part)
