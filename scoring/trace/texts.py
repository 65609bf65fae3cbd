"""Text that the shell itself produces: echo, printf, escapes, braces.

Guarantees: bounded output (VALUE_LIMIT characters a value, CANDIDATES values a word), no error on
any format string; what is not known stays UNKNOWN.

Does not guarantee locale, field widths or arithmetic.

Shaped by remediation libraries that never write a line in one piece: the key comes from one
variable, the value from another, `printf -v` joins them, and a reader of literal text sees neither.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Final

from scoring.trace.actions import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

VALUE_LIMIT: Final = 8_000
CANDIDATES: Final = 32

_ESCAPES: Final = {"n": "\n", "t": "\t", "\\": "\\", "a": "", "b": "", "r": "", "0": "", '"': '"'}
_FORMAT: Final = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?([a-zA-Z%])")
_BRACES: Final = re.compile(r"\{([^{}\s]*,[^{}\s]*)\}")


def unescape(text: str) -> str:
    """Turn backslash escapes into characters, as `echo -e` and printf do."""
    if "\\" not in text:
        return text
    pieces: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        if char == "\\" and index + 1 < len(text):
            index += 1
            pieces.append(_ESCAPES.get(text[index], "\\" + text[index]))
        else:
            pieces.append(char)
        index += 1
    return "".join(pieces)


def echo_text(arguments: Sequence[str]) -> str:
    """Return what `echo` prints for these arguments."""
    escapes = False
    start = 0
    for argument in arguments:
        if not re.fullmatch(r"-[neE]+", argument):
            break
        escapes = "e" in argument
        start += 1
    text = " ".join(arguments[start:])
    return (unescape(text) if escapes else text)[:VALUE_LIMIT]


def printf_text(arguments: Sequence[str]) -> str:
    """Return what `printf FORMAT ARGUMENT…` prints, reusing the format as bash does."""
    if not arguments:
        return ""
    layout = unescape(arguments[0])
    values = list(arguments[1:])
    slots = sum(1 for match in _FORMAT.finditer(layout) if match[1] != "%")
    rounds = 1 if not slots else max(1, -(-len(values) // slots))
    pieces: list[str] = []
    for _ in range(min(rounds, 200)):
        pieces.append(_FORMAT.sub(lambda match: _field(match, values), layout))
    return "".join(pieces)[:VALUE_LIMIT]


def _field(match: re.Match[str], values: list[str]) -> str:
    if match[1] == "%":
        return "%"
    value = values.pop(0) if values else ""
    return unescape(value) if match[1] == "b" else value


def brace_expanded(word: str) -> tuple[str, ...]:
    """Expand the first `{a,b}` of an unquoted word (further ones stay literal)."""
    match = _BRACES.search(word)
    if match is None or UNKNOWN in match[1]:
        return (word,)
    before, after = word[: match.start()], word[match.end() :]
    return tuple(before + part + after for part in match[1].split(",")[:CANDIDATES])


def joined(parts: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Concatenate the possible values of a word's parts, at most CANDIDATES results."""
    total = 1
    for part in parts:
        total *= max(1, len(part))
    if total == 1:
        return ("".join(part[0] if part else "" for part in parts)[:VALUE_LIMIT],)
    if total <= CANDIDATES:
        return unique(
            "".join(choice)[:VALUE_LIMIT] for choice in product(*(p or ("",) for p in parts))
        )
    width = min(CANDIDATES, max(len(part) for part in parts))
    return unique(
        "".join(part[i % len(part)] if part else "" for part in parts)[:VALUE_LIMIT]
        for i in range(width)
    )


def unique(values: Iterable[str]) -> tuple[str, ...]:
    """Return the first CANDIDATES different values in order."""
    return tuple(dict.fromkeys(values))[:CANDIDATES]


def combinations(words: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the command lines that words with several possible values stand for."""
    total = 1
    for word in words:
        total *= max(1, len(word))
    if total <= CANDIDATES:
        return list(product(*(word or ("",) for word in words)))
    width = min(CANDIDATES, max(len(word) for word in words))
    return [tuple(word[i % len(word)] if word else "" for word in words) for i in range(width)]
