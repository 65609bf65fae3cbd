"""One expanded command line, and what running it would do.

Guarantees: immutable values; wrappers and leading assignments are looked through, whatever their
number.

Does not guarantee knowledge of every wrapper's options: those that take a value are listed.

Shaped by `sudo -u root timeout 5 sh …`: the program that matters is seldom the first word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scoring.trace.actions import Action, ActionKind, base_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scoring.trace.vocabulary import ActionVocabulary

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_DURATION: Final = re.compile(r"\d+(\.\d+)?[smhd]?")
_VALUE_OPTIONS: Final = ("-u", "-g", "-n", "-s", "-k")
_LINES_A_TEXT: Final = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Invocation:
    """One expanded command line: program and arguments, what it reads, and where it stands."""

    argv: tuple[str, ...]
    stdin: tuple[str, ...]
    line: int
    vocabulary: ActionVocabulary
    depth: int = 0

    def nested(self, argv: Sequence[str]) -> Invocation:
        return Invocation(
            argv=tuple(argv),
            stdin=self.stdin,
            line=self.line,
            vocabulary=self.vocabulary,
            depth=self.depth + 1,
        )

    @property
    def args(self) -> tuple[str, ...]:
        return self.argv[1:]

    @property
    def operands(self) -> tuple[str, ...]:
        return tuple(arg for arg in self.argv[1:] if not arg.startswith("-") and arg)

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(arg for arg in self.argv[1:] if arg.startswith("-"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """Actions in order, and the texts that standard output may hold."""

    actions: tuple[Action, ...] = ()
    outputs: tuple[str, ...] = ()


def unwrapped(argv: tuple[str, ...], vocabulary: ActionVocabulary) -> tuple[str, ...]:
    """Drop leading assignments and wrappers such as `sudo -u root` or `timeout 5`."""
    index = 0
    while index < len(argv):
        word = argv[index]
        if _ASSIGNMENT.match(word):
            index += 1
            continue
        name = base_name(word)
        if name not in vocabulary.wrappers or index + 1 >= len(argv):
            break
        index += 1
        while index < len(argv) and argv[index].startswith("-"):
            index += 2 if argv[index] in _VALUE_OPTIONS else 1
        if name == "timeout" and index < len(argv) and _DURATION.fullmatch(argv[index]):
            index += 1
    return argv[index:]


def write_actions(
    path: str, texts: Sequence[str], *, line: int, verb: str = "writes"
) -> tuple[Action, ...]:
    """Return one WRITE action for every non-empty line of the texts that go into a file."""
    if not path or (path.startswith("/dev/") and path != "/dev/shm"):  # noqa: S108  a mount point, named not used
        return ()
    actions = [
        Action(kind=ActionKind.WRITE, target=path, verb=verb, text=row.strip(), line=line)
        for text in texts
        for row in text.split("\n")[:_LINES_A_TEXT]
        if row.strip()
    ]
    if not actions:
        return (Action(kind=ActionKind.CREATE, target=path, verb="creates", line=line),)
    return tuple(actions)
