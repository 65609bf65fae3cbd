"""Cuts any text into commands and words as a shell would, as far as it needs to find secrets in them.

Guarantees: `commands_of` is pure, total and linear; offsets are those of the text. Each command knows
its words, the here-documents and here-strings it is given, the files it reads and writes, and what is
piped into it, groups included. A quotation that holds blanks is read as a text of its own, so that
commands in ``bash -c '…'`` and in prose are found; an apostrophe that never closes is a letter.

It is no parser: it knows no branches and expands nothing. Tips are prose with commands in them, so
that a grammar for whole scripts would not do. Shaped by a dozen regular expressions, each of which
read quotes and pipes in a way of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int]

MAX_LEVELS: Final = 4
"""Quotations in quotations that are read."""

_TOKEN: Final = re.compile(
    r"""(?P<blank> (?: [ \t\r]|\\\r?\n )++ )
    | (?P<document> <<-?[ \t]*+ (?P<q>['"\\]?) (?P<mark>[A-Za-z_]\w{0,60}+) (?:(?P=q)|) (?!<) )
    | (?P<string> <<<[ \t]*+ ) | (?P<file> \d?(?:>>|>\||>&|&>>|&>|<>|>|<)[ \t]*+ )
    | (?P<pipe> \|&?(?!\|) ) | (?P<open> [({](?=\s|$)|\( ) | (?P<close> [)}] )
    | (?P<end> [\n;`]|&&?|\|\| )
    | (?P<word> (?: [^\s'"`;|&()<>\\{}]++ | \\. | [{}](?!\s|$)
        | '[^'\n]*+' | "(?:[^"\\\n]|\\.)*+"
        | (?<![^\s=(|;&]) (?: '[^']{0,2000}+' | "(?:[^"\\]|\\.){0,2000}+" )
        | \$(?=[({]) | \{[^\s{}]*+\} | ['"\\{}] )++ )
    | (?P<other> . )""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED: Final = re.compile(r"""\$?'([^']*+)'|\$?"((?:[^"\\]|\\.)*+)\"""", re.DOTALL)
_ONE_WORD_LINE: Final = re.compile(r"^[ \t]*+([A-Za-z_]\w*+)[ \t\r]*+$", re.MULTILINE)
_BLANK: Final = re.compile(r"[\s|;]")


@dataclass(slots=True)
class Command:
    """A simple command. ``words`` are as written, with quotes; ``given`` are the texts it is handed.

    ``source`` are the commands whose output is piped into it.
    """

    words: list[Span] = field(default_factory=list)
    given: list[Span] = field(default_factory=list)
    reads: list[Span] = field(default_factory=list)
    writes: list[Span] = field(default_factory=list)
    source: list[Command] = field(default_factory=list)


def commands_of(text: str) -> list[Command]:
    """Return the commands of a text, those in its quotations too."""
    found: list[Command] = []
    closings = _closings(text)
    waiting = [(0, len(text), 0)]
    while waiting:
        start, end, level = waiting.pop()
        commands = _Reader(text, start, end, closings).read()
        found += commands
        if level < MAX_LEVELS:
            words = (span for command in commands for span in (*command.words, *command.given))
            waiting += [(*inner, level + 1) for span in words for inner in _quotations(text, *span)]
    return found


def unquoted(text: str, start: int, end: int) -> Span:
    """Return the place of a word without the quotes around all of it."""
    found = _QUOTED.fullmatch(text, start, end)
    if found is None:
        return start, end
    return found.span(1 if found[1] is not None else 2)


def _quotations(text: str, start: int, end: int) -> Iterator[Span]:
    for hit in _QUOTED.finditer(text, start, end):
        inner = hit.span(1 if hit[1] is not None else 2)
        if _BLANK.search(text, *inner):
            yield inner


class _Reader:
    """One pass over a stretch of the text."""

    def __init__(self, text: str, start: int, end: int, closings: dict[str, list[Span]]) -> None:
        self.text, self.at, self.end, self.closings = text, start, end, closings
        self.done: list[Command] = []
        self.current = Command()
        self._documents: list[tuple[Command, str]] = []
        self._groups: list[int] = []
        self._last_group: list[Command] = []
        self._expects: list[Span] | None = None

    def read(self) -> list[Command]:
        """Return the commands, in order."""
        while self.at < self.end:
            hit = _TOKEN.match(self.text, self.at, self.end)
            if hit is None:  # cannot be: any character is a token
                break
            self.at = hit.end()
            self._take(hit.lastgroup or "", hit)
        self._close()
        return self.done

    def _take(self, kind: str, hit: re.Match[str]) -> None:
        if hit["document"]:
            self._documents.append((self.current, hit["mark"]))
        elif kind == "string":
            self._expects = self.current.given
        elif kind == "file":
            self._expects = self.current.reads if "<" in hit[0] else self.current.writes
        elif kind == "word":
            target = self.current.words if self._expects is None else self._expects
            target.append(hit.span())
            self._expects = None
        elif kind == "pipe":
            self._pipe()
        elif kind == "open":
            self._close()
            self._groups.append(len(self.done))
        elif kind == "close":
            self._close()
            self._last_group = self.done[self._groups.pop() :] if self._groups else []
            self._last_group = self._last_group[-20:]
        elif kind == "end":
            self._close()
            self._last_group = []
            if hit[0] == "\n":
                self._skip_documents()

    def _pipe(self) -> None:
        empty = not self.current.words
        source = self._last_group if empty else [self.current]
        if not empty:
            source = [self.current, *self.current.source[:8]]
        self._close()
        self._last_group = []
        self.current.source = source

    def _close(self) -> None:
        if self.current.words or self.current.given:
            self.done.append(self.current)
            self.current = Command()
        elif not self.current.source:
            self.current = Command()
        self._expects = None

    def _skip_documents(self) -> None:
        """Hand the here-documents that the line before has opened to their commands.

        One that never ends is no document: what follows is read as commands.
        """
        for command, mark in self._documents:
            places = self.closings.get(mark, [])
            number = bisect_left(places, (self.at, 0))
            if number < len(places) and places[number][1] <= self.end:
                command.given.append((self.at, places[number][0]))
                self.at = places[number][1]
        self._documents.clear()


def _closings(text: str) -> dict[str, list[Span]]:
    """Where lines of a single word stand: they may close a here-document."""
    places: dict[str, list[Span]] = defaultdict(list)
    for hit in _ONE_WORD_LINE.finditer(text):
        places[hit[1]].append(hit.span())
    return places
