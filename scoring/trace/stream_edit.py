"""Reads sed programs: what text they write, what they delete or comment out.

Guarantees: linear in the program's length, never raises, and never runs a regular expression taken
from a script (patterns are read as text). A pattern becomes the text that it would match, with
UNKNOWN where that is not fixed; back references in a replacement become that text.

Does not guarantee a full sed: addresses by number, branches and hold space are skipped.

Shaped by a script that deletes a line and appends the right one: word overlap saw the deleted key
and the written key alike, and a commented-out value counted as set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scoring.trace.actions import UNKNOWN

_SPACES: Final = ("[[:space:]]", "[[:blank:]]", "[ \\t]", "[ \t]", "[\\t ]", "[\\s]", "\\s", "\\t")
_LIMIT: Final = 4_000
_TEXT_COMMANDS: Final = "aic"


@dataclass(frozen=True, kw_only=True, slots=True)
class TextEdit:
    """One effect of a program: `written` replaces or is added, `removed` disappears."""

    written: str = ""
    removed: str = ""

    def vanished(self) -> list[str]:
        """Return the words of what is replaced that do not come back in what is written."""
        words = self.removed.replace(UNKNOWN, " ").split()
        if not self.written:
            return words
        kept = self.written.replace(UNKNOWN, " ").replace("=", " ").split()
        words = [part for word in words for part in word.split("=")]
        return [word for word in words if word not in kept and any(char.isalpha() for char in word)]


def sed_edits(program: str, *, extended: bool) -> tuple[TextEdit, ...]:
    """Return the effects of a sed program, in its order. `extended` is sed's -E or -r."""
    scanner = _Scanner(program[:_LIMIT], extended=extended)
    edits: list[TextEdit] = []
    while not scanner.done():
        edit = scanner.next_edit()
        if edit is not None:
            edits.append(edit)
    return tuple(edits)


def literal_substitution(program: str, text: str) -> str | None:
    """Apply `s/x/y/g` to a known text when x is a plain string or one bracket class, else None.

    Scripts quote keys that way (`sed 's/[\\^=]*//g' <<< "^KEY"`). Anything that would need a real
    regular expression is left unknown: patterns of a script are hostile input.
    """
    if len(program) < 4 or program[0] != "s" or len(program) > _LIMIT:
        return None
    parts = _split_parts(program, 1)
    if parts is None:
        return None
    pattern, replacement, flags, end = parts
    if program[end:].strip() or flags.strip("g"):
        return None
    replacement = _unescape(replacement)
    bracket = pattern.rstrip("*+").removesuffix("\\")
    if bracket.startswith("[") and bracket.endswith("]") and "[:" not in bracket:
        members = set(bracket[1:-1].replace("\\", "") + ("\\" if "\\\\" in bracket else ""))
        if bracket.startswith("[^") or replacement:
            return None
        return "".join(char for char in text if char not in members)
    plain = _unescape(pattern)
    if any(char in pattern.replace("\\/", "") for char in "*[]^$\\+?(|{."):
        return None
    return text.replace(plain, replacement) if flags else text.replace(plain, replacement, 1)


def pattern_text(pattern: str, *, extended: bool) -> tuple[str, tuple[str, ...]]:
    """Return the text that a basic or extended regular expression stands for, and its groups."""
    reader = _PatternReader(pattern[:_LIMIT], extended=extended)
    return reader.read()


def _unescape(text: str) -> str:
    pieces: list[str] = []
    index = 0
    while index < len(text):
        if text[index] == "\\" and index + 1 < len(text):
            index += 1
            pieces.append({"n": "\n", "t": "\t"}.get(text[index], text[index]))
        else:
            pieces.append(text[index])
        index += 1
    return "".join(pieces)


def _split_parts(program: str, start: int) -> tuple[str, str, str, int] | None:
    """Split `/pattern/replacement/flags` at `start`; None when it is not complete."""
    if start >= len(program):
        return None
    delimiter = program[start]
    parts: list[str] = []
    current: list[str] = []
    index = start + 1
    while index < len(program) and len(parts) < 2:
        char = program[index]
        if char == "\\" and index + 1 < len(program):
            following = program[index + 1]
            current.append(following if following == delimiter != "/" else char + following)
            index += 2
            continue
        if char == delimiter:
            parts.append("".join(current))
            current = []
        else:
            current.append(char)
        index += 1
    if len(parts) < 2:
        return None
    flags_start = index
    while index < len(program) and (program[index].isalnum()):
        index += 1
    return parts[0], parts[1], program[flags_start:index], index


class _Scanner:
    """Walks over the commands of one program."""

    def __init__(self, program: str, *, extended: bool) -> None:
        self.program = program
        self.extended = extended
        self.index = 0

    def done(self) -> bool:
        return self.index >= len(self.program)

    def next_edit(self) -> TextEdit | None:
        address = self._address()
        if self.done():
            return None
        command = self.program[self.index]
        self.index += 1
        if command == "s":
            return self._substitute(address)
        if command == "d":
            return TextEdit(removed=address) if address else None
        if command in _TEXT_COMMANDS:
            text = self._text_argument()
            return (
                TextEdit(written=text, removed=address if command == "c" else "") if text else None
            )
        if command in "bt:rRwW":
            self._skip_line()
        return None

    def _address(self) -> str:
        """Read addresses, separators and braces before a command; return the pattern's text."""
        text = ""
        while not self.done():
            char = self.program[self.index]
            if char in "/\\" and (char == "/" or self.index + 1 < len(self.program)):
                self.index += 1 if char == "/" else 2
                pattern = self._until(self.program[self.index - 1])
                found = pattern_text(pattern, extended=self.extended)[0]
                text = text or found
                while not self.done() and self.program[self.index] in "IM":
                    self.index += 1
            elif char in " \t\n;{},!$0123456789~+":
                if char in ";\n":
                    text = ""
                self.index += 1
            else:
                break
        return text

    def _until(self, delimiter: str) -> str:
        start = self.index
        while not self.done():
            char = self.program[self.index]
            if char == "\\":
                self.index += 2
            elif char == delimiter:
                self.index += 1
                return self.program[start : self.index - 1]
            else:
                self.index += 1
        self.index = len(self.program)
        return self.program[start:]

    def _text_argument(self) -> str:
        rest = self.program[self.index :]
        self.index = len(self.program)
        rest = rest.lstrip(" \t").removeprefix("\\").lstrip("\n")
        return _unescape(rest).strip()

    def _skip_line(self) -> None:
        while not self.done() and self.program[self.index] not in "\n;}":
            self.index += 1

    def _substitute(self, address: str) -> TextEdit | None:
        parts = _split_parts(self.program, self.index)
        if parts is None:
            self.index = len(self.program)
            return None
        pattern, replacement, _, self.index = parts
        old, groups = pattern_text(pattern, extended=self.extended)
        new = _replacement_text(replacement, old, groups)
        return _effect(address, old, new)


def _effect(address: str, old: str, new: str) -> TextEdit | None:
    """Decide what replacing `old` by `new` on lines of `address` does."""
    if not new.strip(f" \t{UNKNOWN}"):
        return TextEdit(removed=old or address) if (old or address) else None
    commented = old.lstrip().startswith(("#", ";"))
    if new.lstrip().startswith(("#", ";")):
        return None if commented else TextEdit(removed=old or address)
    if address and not any(char.isalpha() for char in old.replace(UNKNOWN, "")):
        new = f"{address} {new}"
    return TextEdit(written=new, removed=old)


def _replacement_text(replacement: str, old: str, groups: tuple[str, ...]) -> str:
    pieces: list[str] = []
    index = 0
    while index < len(replacement):
        char = replacement[index]
        if char == "\\" and index + 1 < len(replacement):
            index += 1
            following = replacement[index]
            if following.isdigit():
                number = int(following)
                known = 0 < number <= len(groups)
                pieces.append(old if number == 0 else groups[number - 1] if known else UNKNOWN)
            elif following not in "LUElue":
                pieces.append({"n": "\n", "t": "\t"}.get(following, following))
        else:
            pieces.append(old if char == "&" else char)
        index += 1
    return "".join(pieces)


class _PatternReader:
    """Turns a pattern into text with one pass and an explicit stack of groups."""

    def __init__(self, pattern: str, *, extended: bool) -> None:
        self.pattern = pattern
        self.extended = extended
        self.pieces: list[str] = []
        self.stack: list[tuple[int, int]] = []
        self.groups: list[str] = []
        self.index = 0

    def read(self) -> tuple[str, tuple[str, ...]]:
        while self.index < len(self.pattern):
            self._step()
        return _tidy("".join(self.pieces)), tuple(_tidy(group) for group in self.groups)

    def _step(self) -> None:
        for space in _SPACES:
            if self.pattern.startswith(space, self.index):
                self.index += len(space)
                self.pieces.append(" ")
                return
        char = self.pattern[self.index]
        if char == "[":
            self._bracket()
            return
        self.index += 1
        if char == "\\" and self.index < len(self.pattern):
            following = self.pattern[self.index]
            self.index += 1
            self._special(following, escaped=True)
        else:
            self._special(char, escaped=False)

    def _special(self, char: str, *, escaped: bool) -> None:
        syntax = escaped != self.extended
        if char in "()" and syntax:
            self._open() if char == "(" else self._close()
        elif (char in "+?" and syntax) or (char == "*" and not escaped):
            self._quantify()
        elif char == "{" and syntax:
            end = self.pattern.find("}", self.index)
            self.index = len(self.pattern) if end < 0 else end + 1
            self._quantify()
        elif char == "|" and syntax:
            self.pieces.append(UNKNOWN)
        elif (char in "^$" and not escaped) or (char in "<>bBwW" and escaped):
            if char in "wW":
                self.pieces.append(UNKNOWN)
            elif char == "$" and self.index < len(self.pattern):
                self.pieces.append(char if self.pattern[self.index] not in "|)\\" else "")
        else:
            self.pieces.append("\n" if escaped and char == "n" else char)

    def _open(self) -> None:
        self.groups.append("")
        self.stack.append((len(self.groups) - 1, len(self.pieces)))

    def _close(self) -> None:
        if self.stack:
            number, start = self.stack.pop()
            self.groups[number] = "".join(self.pieces[start:])

    def _quantify(self) -> None:
        """A repeated space stays a space; any other repeated atom is not known."""
        if self.pieces and self.pieces[-1] not in (" ", UNKNOWN, ""):
            self.pieces[-1] = "" if self.pieces[-1] in "#;" else UNKNOWN

    def _bracket(self) -> None:
        end = self.index + 1
        if self.pattern[end : end + 1] == "^":
            end += 1
        if self.pattern[end : end + 1] == "]":
            end += 1
        while end < len(self.pattern) and self.pattern[end] != "]":
            named = self.pattern.startswith("[:", end)
            close = self.pattern.find(":]", end) if named else -1
            end = close + 2 if close >= 0 else end + 1
        self.index = end + 1
        self.pieces.append(UNKNOWN)


def _tidy(text: str) -> str:
    while UNKNOWN * 2 in text:
        text = text.replace(UNKNOWN * 2, UNKNOWN)
    return " ".join(text.split(" ")) if "  " not in text else _single_spaces(text)


def _single_spaces(text: str) -> str:
    while "  " in text:
        text = text.replace("  ", " ")
    return text
