"""Small parts of the tables that a comparison of runs is printed with.

Guarantees: every cell goes through ``memory.terminal``; an empty table says "none"; a list that was cut
says of how many. Holds no figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from memory.audit.render import NOTHING, rate_text
from memory.terminal import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["NOTHING", "add", "cut", "grade", "or_none", "points", "rate_text", "table", "title"]


def title(text: str) -> Text:
    """A heading with an empty line above; *text* may be a stranger's."""
    return Text("\n").append_text(plain(text, "bold"))


def table(*columns: str, numbers: int = 0) -> Table:
    """A table whose last *numbers* columns are set flush right."""
    found = Table(box=None, pad_edge=False, header_style="bold")
    for position, column in enumerate(columns):
        right = position >= len(columns) - numbers
        found.add_column(plain(column), justify="right" if right else "left", overflow="fold")
    return found


def add(to: Table, *cells: object) -> None:
    """A row."""
    to.add_row(*(plain(cell) for cell in cells))


def or_none(found: Table) -> RenderableType:
    """The table, or the word "none" for one without rows."""
    return found if found.row_count else Text("none")


def cut(listed: int, total: int) -> str:
    """`` (3)``, or `` (15 of 40)`` where a list was cut."""
    return f" ({total})" if listed == total else f" ({listed} of {total})"


def grade(value: float | None) -> str:
    """``+0.80``; a dash for no grade. Adding zero makes -0.00 a +0.00."""
    return NOTHING if value is None else f"{round(value, 2) + 0.0:+.2f}"


def points(difference: float | None) -> str:
    """A difference of rates in percentage points."""
    return NOTHING if difference is None else f"{100 * difference + 0.0:+.1f}"
