"""What a walk over a shell script knows and finds: flows, outputs, variables, and the reading itself.

Guarantees: values only; joining flows loses no look and no act. Offsets are code points of the script.

Holds no rules about commands (``scoring.judge.shell_simple``) or constructs
(``scoring.judge.shell_flow``).
Shaped by a reader that had one flag for "shown" and could not tell a caller's file from a screen.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tree_sitter import Node

Span = tuple[int, int]

POSITIONAL: Final = "@"
"""Stands for all of ``$1``, ``$@`` and ``$*``."""
_READ: Final = re.compile(r"\$\{?[#!]?(\w+|[@*])")
_READ_BARE: Final = re.compile(r"(?:\(\(|\blet\b|[ \t]-v[ \t])[^\n]*")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_WORD: Final = re.compile(r"[\w-]+")
_GIVEN: Final = re.compile(r"(?<![\w$])(\w++)=(?=([^\s;&|]{1,1000}))")
_UNKNOWN_READERS: Final = re.compile(r"\$\{!|^[ \t]*(?:\.|source|eval)[ \t]", re.MULTILINE)
_NOT_READ: Final = re.compile(r"[^\x01-\x0c\x0e-\x7f]")


def one_byte_a_character(script: str) -> str:
    """Return ``script`` in ASCII, character by character, so that byte offsets are its own."""
    return _NOT_READ.sub(lambda found: " " if found[0] == "\r" else "_", script)


def span_of(node: Node) -> Span:
    """Return where a node stands."""
    return node.start_byte, node.end_byte


@dataclass(slots=True)
class ShellReading:
    """``silent`` stretches do nothing, ``live`` ones do, also inside of silent ones; ``whole`` ones
    count from their first character only; ``commands`` are the commands that act."""

    silent: list[Span] = field(default_factory=list)
    live: list[Span] = field(default_factory=list)
    whole: list[Span] = field(default_factory=list)
    commands: list[Span] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Flow:
    """What one statement comes to.

    ``does``: something in it acts; ``asks``: it asks the system, or defines something; ``takes``:
    what is piped into it goes somewhere; ``truth``: its status, if known; ``ends``: what follows is
    never run; ``leaves``: it may end what it stands in; ``looks``: looks on which nothing hangs so
    far; ``output``: where ``exec`` sends all further output, None: no change.
    """

    does: bool = False
    asks: bool = False
    takes: bool = False
    truth: bool | None = None
    ends: bool = False
    leaves: bool = False
    looks: tuple[Span, ...] = ()
    output: bool | None = None

    def then(self, later: Flow, *, ends: bool) -> Flow:
        """Join with what comes behind; the status is that of the later one."""
        return Flow(
            does=self.does or later.does,
            asks=self.asks or later.asks,
            takes=self.does or later.does,
            truth=later.truth,
            ends=self.ends or ends,
            leaves=self.leaves or later.leaves,
            looks=self.looks + later.looks,
            output=self.output if later.output is None else later.output,
        )

    def contained(self) -> Flow:
        """What is left of it outside of a process of its own, or of a loop."""
        return replace(self, ends=False, output=None)


@dataclass(frozen=True, slots=True)
class Output:
    """Where redirections send the output: True somewhere, False nowhere, None where it goes anyway.

    ``texts`` are the here-documents and here-strings that come with them, ``words`` the arguments of
    the command that stand behind them.
    """

    to: bool | None = None
    texts: tuple[Node, ...] = ()
    words: tuple[Node, ...] = ()

    def of(self, goes: bool) -> bool:  # noqa: FBT001
        """Whether output goes somewhere, ``goes`` being where it goes without redirections."""
        return goes if self.to is None else self.to

    def within(self, outer: Output) -> Output:
        """These redirections, inside of a statement that has others."""
        to = outer.to if self.to is None else self.to
        return Output(to, self.texts + outer.texts, self.words + outer.words)


@dataclass(frozen=True, slots=True)
class Variable:
    """A text that is given a name; ``open_``: others than this script may read it."""

    name: str
    at: Span
    text: str
    open_: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What one walk has found out for the next; names and places."""

    unused: frozenset[Span] = frozenset()
    called: dict[str, bool] = field(default_factory=dict)
    acting: frozenset[str] = frozenset()
    looked: dict[str, tuple[Span, ...]] = field(default_factory=dict)


class Spans:
    """Stretches, merged and sorted (`all`); `holds` asks whether one of them holds a place."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.all: list[Span] = []
        for start, end in sorted(span for span in spans if span[0] < span[1]):
            if self.all and start <= self.all[-1][1]:
                self.all[-1] = (self.all[-1][0], max(end, self.all[-1][1]))
            else:
                self.all.append((start, end))
        self._starts = [start for start, _ in self.all]

    def holds(self, place: int) -> bool:
        """Whether the character at ``place`` lies in one of them."""
        at = bisect_right(self._starts, place) - 1
        return at >= 0 and place < self.all[at][1]


def any_outside(places: list[int], span: Span) -> bool:
    """Whether one of the sorted ``places`` lies outside of ``span``."""
    return bisect_left(places, span[1]) - bisect_left(places, span[0]) < len(places)


class Places:
    """Where a script reads its variables, and where its words stand; ``given``: what they are set to."""

    def __init__(self, script: str) -> None:
        self.unknown_readers = bool(_UNKNOWN_READERS.search(script))
        self._reads: dict[str, list[int]] = defaultdict(list)
        for hit in _READ.finditer(script):
            name = POSITIONAL if hit[1].isdigit() or hit[1] in "@*" else hit[1]
            self._reads[name].append(hit.start())
        for line in _READ_BARE.finditer(script):
            for hit in _NAME.finditer(script, *line.span()):
                self._reads[hit[0]].append(hit.start())
        for places in self._reads.values():
            places.sort()
        self.given: dict[str, set[str]] = defaultdict(set)
        for hit in _GIVEN.finditer(script):
            self.given[hit[1]].add(hit[2])
        self._words: dict[str, list[int]] = defaultdict(list)
        for hit in _WORD.finditer(script):
            self._words[hit[0]].append(hit.start())

    def reads(self, name: str) -> list[int]:
        """Return where a variable is read, in order."""
        return self._reads.get(name, [])

    def words(self, word: str) -> list[int]:
        """Return where a word stands."""
        return self._words.get(word, [])
