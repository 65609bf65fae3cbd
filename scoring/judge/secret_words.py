"""Cuts any text into commands and words as a shell would, as far as it needs to find secrets in them.

Guarantees: `commands_of` is pure, total and linear; offsets are those of the text. Each command knows
its words, the here-documents and here-strings it is given, the files it reads and writes, and what is
piped into it, groups included. A quotation that holds blanks is read as a text of its own, so that
commands in ``bash -c '…'`` and in prose are found; an apostrophe that never closes is a letter.

It is no parser: it sees where loops and branches end, not which is taken, and expands nothing. Tips
are prose with commands in them, so that a grammar for whole scripts would not do. Shaped by a dozen
regular expressions, each of which read quotes and pipes in a way of its own, and by ``do echo … |
chpasswd``, whose ``do`` was taken for the program.
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
_ENDS: Final = {
    "while": "done", "until": "done", "for": "done", "select": "done", "if": "fi", "case": "esac",
}  # fmt: skip
KEYWORDS: Final = frozenset(
    {"do", "then", "else", "elif", "if", "while", "until", "time", "!", ")", "}", *_ENDS.values()}
)
"""Words in front of a command, or of what a group is joined to, that name no program."""
_MAX_SOURCES: Final = 100
"""Commands of one group or pipe that are kept: no text makes the reader copy ever longer lists."""
_MAX_OPEN: Final = 8
"""Groups in prose that never close and are stepped over."""
_QUOTED: Final = re.compile(r"""\$?'([^']*+)'|\$?"((?:[^"\\]|\\.)*+)\"""", re.DOTALL)
_ONE_WORD_LINE: Final = re.compile(r"^[ \t]*+([A-Za-z_]\w*+)[ \t\r]*+$", re.MULTILINE)
_BLANK: Final = re.compile(r"[\s|;]")


@dataclass(slots=True)
class Command:
    """A simple command. ``words`` are as written, with quotes; ``given`` are the texts it is handed.

    ``source`` are the commands whose output is piped into it; ``group`` are those inside of the group
    that ends here (its first word is ``done``, ``fi``, ``esac`` or a bracket).
    """

    words: list[Span] = field(default_factory=list)
    given: list[Span] = field(default_factory=list)
    reads: list[Span] = field(default_factory=list)
    writes: list[Span] = field(default_factory=list)
    source: list[Command] = field(default_factory=list)
    group: list[Command] = field(default_factory=list)


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
        self._groups: list[tuple[str, int]] = []
        self._leads = True
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
            self._word(hit)
        elif kind == "pipe":
            self._pipe()
        elif kind == "open":
            self._close()
            self._groups.append((")" if "(" in hit[0] else "}", len(self.done)))
        elif kind == "close":
            self._close()
            self._word(hit)
        elif kind == "end":
            self._close()
            if hit[0] == "\n":
                self._skip_documents()

    def _word(self, hit: re.Match[str]) -> None:
        if self._expects is not None:
            self._expects.append(hit.span())
            self._expects = None
            return
        if self._leads:
            word = hit[0]
            if word in _ENDS:
                self._groups.append((_ENDS[word], len(self.done)))
            elif word in KEYWORDS:
                self._end_group(word)
            self._leads = word in KEYWORDS
        self.current.words.append(hit.span())

    def _end_group(self, word: str) -> None:
        """Close the group that ``word`` ends, if there is one; a ``)`` may end a pattern of ``case``."""
        for back in range(1, min(len(self._groups), _MAX_OPEN) + 1):
            closing, start = self._groups[-back]
            if closing == word:
                del self._groups[-back:]
                self.current.group = self.done[max(start, len(self.done) - _MAX_SOURCES) :]
                return
            if word == ")" and closing == "esac":
                return

    def _pipe(self) -> None:
        one = self.current
        source = [one, *one.group, *one.source][:_MAX_SOURCES] if one.words or one.given else []
        self._close()
        self.current.source = source

    def _close(self) -> None:
        if self.current.words or self.current.given:
            self.done.append(self.current)
            self.current = Command()
        elif not self.current.source:
            self.current = Command()
        self._expects = None
        self._leads = True

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
