"""What other rooms have to say about a run: sections that they register, and `show_run` prints.

Guarantees: memory imports none of them; sections come in the order of their names; a section is plain
data for JSON and lines of text for people. Does not decide what a section holds.

Shaped by: a command of this room that wanted to show what judging cost, which only scoring knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory.models import Run


@dataclass(frozen=True, slots=True)
class Section:
    """One room's words about one run."""

    data: dict[str, Any]
    lines: tuple[str, ...]


_BUILDERS: Final[dict[str, Callable[[Run], Section]]] = {}


def register_section(name: str, build: Callable[[Run], Section]) -> None:
    """Have *build* called for every run that is shown; a second one of the same name replaces it."""
    _BUILDERS[name] = build


def sections_of(run: Run) -> dict[str, Section]:
    """Name -> section."""
    return {name: _BUILDERS[name](run) for name in sorted(_BUILDERS)}
