"""Finds the parts of a script that say something and do nothing: comments, messages, looks, dead code.

Guarantees: `read_script` is pure and total. ``inert`` are the sorted, disjoint stretches whose text
cannot carry a verdict: comments, docstrings, what echo, printf, logger, ``:`` and their kind only
show, what grep, test and their kind only look at, here-documents that are only shown, texts in
variables that nothing uses, branches and functions that are never run, the title and the description
of a rule. Output that is written to a file or piped to a program that does something counts as an
act. Where a line can be read in two ways, the reading that counts less text as an act is taken.

What a shell runs is read off its syntax tree (``scoring.judge.shell_flow``); comments, docstrings and
printing of other languages are known by their shape. It runs nothing, and a comment that a tip asks
for counts as nothing. Shaped by scripts that promise a tip in a comment, in a pattern of grep or
behind ``if false`` and do something else, and by "all advice followed" printed at every attempt's end.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from scoring.judge.shell_flow import read_shell
from scoring.judge.shell_state import Span, Spans

_LINE_COMMENT: Final = re.compile(r"[ \t]*(?:#|//(?!\w[\w.-]*/)|--[ \t])[^\n]*")
_RULE_PROSE: Final = re.compile(r"^(?:title|description):[^\n]*(?:\n[ \t]+\S[^\n]*)*", re.MULTILINE)
_DOCSTRING: Final = re.compile(
    r"^[ \t]*[rRuU]?(\"\"\"|''')(?:(?!\1).)*\1[ \t]*$", re.MULTILINE | re.DOTALL
)
_CALL: Final = re.compile(
    r"^[ \t]*(?:print|console\.log|log(?:ger|ging)?\.\w+)[ \t]*\([^;\n]*", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class ScriptReading:
    """What does nothing in a script, and which commands of it act.

    ``inert`` and ``commands`` are sorted; ``whole`` are looks that count only from their first
    character on: a pattern by itself is only looked for.
    """

    inert: list[Span]
    whole: list[Span]
    commands: list[Span]

    def acting(self, start: int, end: int) -> list[Span]:
        """Return the parts of start..end that do something."""
        cut = [(start, min(end, last)) for first, last in self.whole if first < start < last]
        return outside(Spans([*self.inert, *cut]).all if cut else self.inert, start, end)

    def holds_command(self, start: int, end: int) -> bool:
        """Whether a whole command that acts lies in start..end."""
        at = bisect_left(self.commands, (start, start))
        return any(last <= end for first, last in self.commands[at:] if first < end)


def read_script(script: str) -> ScriptReading:
    """Read ``script``; offsets are in code points."""
    shell = read_shell(script)
    silent = Spans(shell.silent).all
    for start, end in Spans(shell.live).all:
        silent = [part for span in silent for part in outside([(start, end)], *span)]
    silent += _line_comments(script)
    for pattern in (_RULE_PROSE, _DOCSTRING, _CALL):
        silent.extend(hit.span() for hit in pattern.finditer(script))
    return ScriptReading(Spans(silent).all, shell.whole, sorted(shell.commands))


def outside(spans: list[Span], start: int, end: int) -> list[Span]:
    """Return the parts of start..end that lie in none of the sorted, disjoint ``spans``."""
    parts: list[Span] = []
    for first, last in spans:
        if last <= start or first >= end:
            continue
        if first > start:
            parts.append((start, first))
        start = last
    return [*parts, (start, end)] if start < end else parts


def _line_comments(script: str) -> list[Span]:
    """Comments as a reader sees them who takes each line by itself, quotes included."""
    found: list[Span] = []
    start = 0
    for line in script.split("\n"):
        whole = _LINE_COMMENT.match(line)
        at = 0 if whole else _hash_outside_quotes(line)
        if at >= 0:
            found.append((start + at, start + len(line)))
        start += len(line) + 1
    return found


def _hash_outside_quotes(line: str) -> int:
    if " #" not in line and "\t#" not in line:
        return -1
    open_quote = ""
    for at, char in enumerate(line):
        if open_quote:
            open_quote = "" if char == open_quote else open_quote
        elif char in "'\"":
            open_quote = char
        elif char == "#" and line[at - 1 : at].isspace():
            return at
    return -1
