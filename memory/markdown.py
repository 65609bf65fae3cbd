"""Text of strangers in Markdown: shown as it is, and read as nothing but text.

Guarantees: inside what ``code`` returns no heading, list, link, image, mention, reference or HTML can
begin, and it cannot end before its end: it is a code span on one line, fenced by more backticks than
the text holds. ``cell`` can stand in a table as well: a bar is written as an escape there, because no
way of quoting one is read alike by all renderers. Control characters are shown as ``memory.terminal``
shows them.

Does not make text safe where a renderer lets code spans be something else than text.

Shaped by: tips whose text is a heading or an image, in reports that people open in a browser.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

EMPTY: Final = "(empty)"

_BACKTICKS: Final = re.compile(r"`+")


def code(text: object, *, limit: int | None = None) -> str:
    """*text* as a code span; at most *limit* characters of it. An empty one says so."""
    shown = visible(text, limit=limit).strip()
    if not shown:
        return EMPTY
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(shown)), default=0))
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def cell(text: object, *, limit: int | None = None) -> str:
    """As :func:`code`, for the cell of a table."""
    return code(visible(text, limit=limit).replace("|", r"\x7c"))


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The lines of a table; what strangers wrote has been through :func:`cell`."""
    lines = [head, tuple("---" for _ in head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
