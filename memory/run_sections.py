"""What other rooms have to say about a run: sections that they register, and `show_run` prints.

Guarantees: memory imports none of them; sections come in the order of their names; a section is plain
data for JSON and lines of text for people. Does not decide what a section holds.

Shaped by: a command of this room that wanted to show what judging cost, which only scoring knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from memory.models import Run


@dataclass(frozen=True, slots=True)
class Section:
    """One room's words about one run."""

    data: dict[str, Any]
    lines: tuple[str, ...]


_BUILDERS: Final[dict[str, tuple[Callable[[Run], Section], bool]]] = {}


def register_section(
    name: str, build: Callable[[Run], Section], *, only_when_asked: bool = False
) -> None:
    """Have *build* called for every run that is shown; a second one of the same name replaces it.

    *only_when_asked*: it has a line or more per row of the run, too many for who did not ask.
    """
    _BUILDERS[name] = (build, only_when_asked)


def names_to_ask_for() -> list[str]:
    """Sections that come only when they are asked for."""
    return sorted(name for name, (_, only_when_asked) in _BUILDERS.items() if only_when_asked)


def sections_of(run: Run, *, asked: Collection[str] = ()) -> dict[str, Section]:
    """Name -> section: those that always come, and those of *asked*."""
    return {
        name: build(run)
        for name, (build, only_when_asked) in sorted(_BUILDERS.items())
        if not only_when_asked or name in asked
    }
