"""Finds the parts of a script that say something and do nothing: comments, messages, unused texts.

Guarantees: `inert_spans` is pure and total; it returns the sorted, disjoint stretches whose text
cannot carry a verdict: comments, docstrings, what echo, printf, logger, ``:`` and their kind only
show, a here-document that is only shown, prose in a variable that is never read, the title and the
description of a rule. Output that is written to a file or piped onward counts as an act. Where a
line can be read in two ways, the reading that counts less text as an act is taken.

It is no parser: a branch that is never reached still counts as an act, a comment that a tip asks
for counts as nothing. Shaped by scripts that promise a tip in a comment and do something else, and
by "all advice followed" printed at the end of every attempt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

Span = tuple[int, int]

SHOWS: Final = frozenset(
    {"echo", "printf", "print", "logger", "wall", ":", "true", "false", "say", "puts"}
)
"""Commands whose words are shown or thrown away, unless their output goes somewhere."""
PASSES_ON: Final = frozenset({"cat", "less", "more", "logger", "wall", "true", ":", "fold", "head"})
"""Commands that make no more than a message of what they are given."""
_BEFORE_COMMAND: Final = frozenset(
    {"if", "elif", "while", "until", "then", "do", "else", "{", "(", ")", "!", "time", "sudo"}
)
_CLOSER_OF: Final = {"{": "}", "(": ")", "do": "done", "then": "fi"}

_STOP = re.compile(r"[\\'\"`#;&|()<>\n]")
_WORD = re.compile(r"[^\s;&|<>()]+|[()]")
_DOUBLE_QUOTED = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SETS = re.compile(r"\w+\+?=[^'\"`$]*")
_DOCUMENT = re.compile(r"<<(-?)[ \t]*(['\"]?)(\w+)\2")
_WRITES = re.compile(r"(?:>>|>\||>)[ \t]*(?!&[\d-]|/dev/(?:null|stderr|stdout|tty)\b)\S")
_UNUSED = re.compile(r"[ \t]*(?:(?:local|readonly|declare)[ \t]+)?(\w+)=('[^']*'|\"[^\"]*\")[ \t]*")
_PROSE = re.compile(r"(?<!\S)[A-Za-z']{2,}[.,:;!]?(?!\S)")
_LINE_COMMENT = re.compile(r"[ \t]*(?:#|//|--[ \t])[^\n]*")
_RULE_PROSE = re.compile(r"^(?:title|description):[^\n]*(?:\n[ \t]+\S[^\n]*)*", re.MULTILINE)
_DOCSTRING = re.compile(
    r"^[ \t]*[rRuU]?(\"\"\"|''')(?:(?!\1).)*\1[ \t]*$", re.MULTILINE | re.DOTALL
)
_CALL = re.compile(
    r"^[ \t]*(?:print|console\.log|log(?:ger|ging)?\.\w+)[ \t]*\([^;\n]*", re.MULTILINE
)


@dataclass(slots=True)
class _Command:
    """A simple command, or the word that closes a group with the redirections behind it."""

    start: int
    end: int = 0
    writes: bool = False
    ended_by: str = ""
    bodies: list[Span] = field(default_factory=list)
    first: str = ""
    name: str = ""
    openers: list[str] = field(default_factory=list)


def inert_spans(script: str) -> list[Span]:
    """Return the stretches of ``script`` (start, end in code points) that do nothing."""
    reader = _Reader(script)
    reader.read()
    found = reader.comments + _line_comments(script)
    commands = reader.commands
    acts = _acts_of_groups(commands)
    for number, command in enumerate(commands):
        if acts[number] or _goes_somewhere(commands, number):
            continue
        if command.name in SHOWS:
            found.append((command.start, command.end))
        if command.name in SHOWS | PASSES_ON:
            found.extend(command.bodies)
        found.extend(_unused_prose(script, command))
    for pattern in (_RULE_PROSE, _DOCSTRING, _CALL):
        found.extend(hit.span() for hit in pattern.finditer(script))
    return _merged(found)


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


class _Reader:
    """Cuts a script into simple commands, as a shell would, in one pass."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.commands: list[_Command] = []
        self.comments: list[Span] = []
        self._documents: list[tuple[_Command, str]] = []
        self._never_closed = False

    def read(self) -> None:
        """Fill ``commands`` and ``comments``."""
        at, length = 0, len(self.script)
        current = _Command(0)
        while at < length:
            hit = _STOP.search(self.script, at)
            if hit is None:
                break
            at, ended_by = self._step(hit.start(), current)
            if not ended_by:
                continue
            self._close(current, hit.start(), ended_by)
            if ended_by == "\n":
                at = self._skip_documents(at)
            current = _Command(hit.start() if ended_by in "()" else at)
        self._close(current, length, "")

    def _step(self, at: int, current: _Command) -> tuple[int, str]:
        """Return where to go on, and what ended the command ("" if nothing did)."""
        script, char = self.script, self.script[at]
        if char == "\\":
            return at + 2, ""
        if char in "'`":
            return self._after_quote(at), ""
        if char == '"':
            return self._after_double_quote(at), ""
        if char == "#":
            return self._comment(at), ""
        if char in "<>":
            return self._redirection(at, current), ""
        if char == "&" and (script[at - 1 : at] in {"<", ">"} or script[at + 1 : at + 2] == ">"):
            return at + 1, ""
        if char == "(" and script[at - 1 : at] in {"$", "<", ">", "="}:
            return self._after_substitution(at), ""  # belongs to the command around it
        double = script[at : at + 2]
        token = double if double in {"&&", "||", ";;", "|&"} else char
        return at + len(token), token[0] if token in {";;", "|&"} else token

    def _close(self, current: _Command, end: int, ended_by: str) -> None:
        text = self.script[current.start : end]
        if not text.strip() and not current.bodies:
            return
        current.end, current.ended_by = end, ended_by
        for hit in _WORD.finditer(text):
            word = hit[0]
            current.first, current.name = current.first or word, word
            if word in _BEFORE_COMMAND:
                current.openers.append(word)
            elif not _SETS.fullmatch(word):
                break
        self.commands.append(current)

    def _after_quote(self, at: int) -> int:
        end = self.script.find(self.script[at], at + 1)
        return at + 1 if end < 0 else end + 1

    def _after_double_quote(self, at: int) -> int:
        found = _DOUBLE_QUOTED.match(self.script, at)
        return found.end() if found else at + 1

    def _after_substitution(self, at: int) -> int:
        """Return the place behind the parenthesis that closes the one at ``at``."""
        depth, here = 0, at
        while not self._never_closed and (hit := _STOP.search(self.script, here)):
            here, char = hit.start(), hit[0]
            if char == "\\":
                here += 2
            elif char in "'`":
                here = self._after_quote(here)
            elif char == '"':
                here = self._after_double_quote(here)
            else:
                depth += {"(": 1, ")": -1}.get(char, 0)
                here += 1
                if depth == 0:
                    return here
        self._never_closed = True
        return at + 1

    def _comment(self, at: int) -> int:
        before = self.script[at - 1 : at]
        if before and not before.isspace() and before not in ";&|()":
            return at + 1
        end = self.script.find("\n", at)
        end = len(self.script) if end < 0 else end
        self.comments.append((at, end))
        return end

    def _redirection(self, at: int, current: _Command) -> int:
        script = self.script
        if script.startswith("<<<", at):
            return at + 3
        document = _DOCUMENT.match(script, at)
        if document:
            self._documents.append((current, document[3]))
            return document.end()
        errors_only = script[at - 1 : at] == "2" and script[at - 2 : at - 1].isspace()
        if script[at] == ">" and not errors_only and _WRITES.match(script, at):
            current.writes = True
        return at + (2 if script.startswith(">>", at) else 1)

    def _skip_documents(self, at: int) -> int:
        """Step over the here-documents that the line before ``at`` has opened."""
        for command, word in self._documents:
            closing = re.compile(rf"^[ \t]*{word}[ \t]*$", re.MULTILINE).search(self.script, at)
            end = closing.start() if closing else len(self.script)
            command.bodies.append((at, end))
            if closing:
                self.comments.append(closing.span())
            at = min(closing.end() + 1, len(self.script)) if closing else len(self.script)
        self._documents.clear()
        return at


def _acts_of_groups(commands: list[_Command]) -> list[bool]:
    """Whether each command stands in a group whose output goes somewhere."""
    acts = [False] * len(commands)
    opened: list[tuple[str, int]] = []
    for number, command in enumerate(commands):
        opened.extend((word, number) for word in command.openers if word in _CLOSER_OF)
        if opened and command.first == _CLOSER_OF[opened[-1][0]]:
            first = opened.pop()[1]
            if command.writes or _piped_onward(commands, number):
                acts[first:number] = [True] * (number - first)
    return acts


def _goes_somewhere(commands: list[_Command], number: int) -> bool:
    return commands[number].writes or _piped_onward(commands, number)


def _piped_onward(commands: list[_Command], number: int) -> bool:
    while commands[number].ended_by == "|" and number + 1 < len(commands):
        number += 1
        if commands[number].writes or commands[number].name not in PASSES_ON:
            return True
    return False


def _unused_prose(script: str, command: _Command) -> list[Span]:
    """A text of three words or more in a variable that nothing reads is a note, not an act."""
    found = _UNUSED.fullmatch(script, command.start, command.end)
    if found is None or len(_PROSE.findall(found[2][1:-1])) < 3:
        return []
    read = re.search(rf"\$\{{?{found[1]}\b", script)
    return [] if read else [found.span()]


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


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
