"""Looks every quote of a verdict up in the script, and takes back what the script does not show.

Guarantees: `verify` is pure; a positive label (followed, contradicted) stands only if at least one
claim that carries it quotes text that is in the script, does something there, and is more than
boilerplate; else the label becomes unclear with the reason ``quote_unverified``. A quote is looked
for exactly, then folded: NFKC, white space, typographic quotes and hyphens, terminal colours. The
folding table is closed: no case folding, no transliteration, no left-out words. Nothing that the
reply says can switch the check off, and no quote is skipped: what cannot be decided is counted as
``cannot_check``.

It does not say that the quote proves the claim. Shaped by verifiers that called real quotes
invented for a curly apostrophe, and by ones that passed every quote under twelve characters.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from scoring.judge.fences import as_written
from scoring.judge.inert import ScriptReading, read_script
from scoring.judge.verdict import Finding, Label, Verdict

QUOTE_UNVERIFIED: Final = "quote_unverified"
MIN_WORD_CHARS: Final = 3
"""A quote with fewer letters and digits is found everywhere."""
LONG_QUOTE_CHARS: Final = 12
"""A shorter quote must begin and end where words do."""
MAX_PLACES: Final = 200
"""Places at which a quote is looked at, from the start of the script on."""

CARRIES: Final = {Label.FOLLOWED: Finding.DONE, Label.CONTRADICTED: Finding.OPPOSITE}
BOILERPLATE: Final = frozenset(
    {
        "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac",
        "in", "function", "return", "exit", "break", "continue", "set", "e", "u", "x", "eu", "ex",
        "ux", "eux", "euo", "o", "pipefail", "trap", "shift", "local", "export", "readonly", "sudo",
        "bash", "sh", "env", "usr", "bin", "true", "false", "yes", "no", "on", "off", "null", "none",
        "0", "1", "2", "dev", "EOF", "EOT", "END", "END_OF_FILE", "begin", "end", "import", "from",
        "def", "class", "pass", "try", "except", "finally", "with", "as", "let", "var", "const",
        "self", "echo", "printf", "cat",
    }
)  # fmt: skip
"""Words that stand in any script; a quote of nothing else shows nothing."""

_FOLDED = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ELISION = re.compile(r"\s*(?:\[(?:\.\.\.|\u2026)\]|\.\.\.|\u2026)\s*")
_WORD_CHAR = re.compile(r"[^\W_]")


class Match(StrEnum):
    """What the script says about a quote."""

    MATCH = "match"
    ABSENT = "absent"
    CANNOT_CHECK = "cannot_check"


@dataclass(frozen=True, slots=True)
class Span:
    """One quote of the checklist. ``claim`` is the index of its claim.

    Where the quote was found, ``quote`` is the slice of the script itself and ``start`` and ``end``
    its place in code points (also when it cannot be checked: then it stands in a comment, or is
    boilerplate); else ``quote`` is what the judge wrote, and both are None.
    """

    claim: int
    quote: str
    start: int | None
    end: int | None
    match: Match


@dataclass(frozen=True, slots=True)
class Verified:
    """The label that may be stored. ``reason`` is "" or "quote_unverified"."""

    label: Label
    reason: str
    spans: tuple[Span, ...]


def verify(verdict: Verdict, script: str) -> Verified:
    """Check the quotes of ``verdict`` against ``script``, the text that the judge was shown.

    ``script`` is the text that went into the question (after redaction), before it was fenced.
    """
    spans = tuple(
        _checked(number, claim.quote, script)
        for number, claim in enumerate(verdict.claims)
        if claim.quote.strip() or claim.finding in CARRIES.values()
    )
    carrier = CARRIES.get(verdict.label)
    carried = any(
        span.match is Match.MATCH and verdict.claims[span.claim].finding is carrier
        for span in spans
    )
    if carrier is None or carried:
        return Verified(verdict.label, "", spans)
    return Verified(Label.UNCLEAR, QUOTE_UNVERIFIED, spans)


def _checked(number: int, quote: str, script: str) -> Span:
    text = as_written(quote).strip()
    if not _has_weight(text):
        place = _first(_exact_places(text, script)) if text else None
        return _span(number, quote, script, place, Match.CANNOT_CHECK)
    places = _exact_places(text, script) or _folded_places(text, script)
    for start, end in places:
        if _acts(script, start, end) and _says_what_to(text, script, start, end):
            return _span(number, quote, script, (start, end), Match.MATCH)
    if places:
        return _span(number, quote, script, places[0], Match.CANNOT_CHECK)
    elided = _is_elided(text, script)
    return _span(number, quote, script, None, Match.CANNOT_CHECK if elided else Match.ABSENT)


def _span(
    number: int, quote: str, script: str, place: tuple[int, int] | None, match: Match
) -> Span:
    if place is None:
        return Span(number, quote, None, None, match)
    start, end = place
    return Span(number, script[start:end], start, end, match)


def _has_weight(text: str) -> bool:
    if len(_WORD_CHAR.findall(text)) < MIN_WORD_CHARS:
        return False
    return any(word not in BOILERPLATE for word in re.findall(r"\w+", text))


def _says_what_to(text: str, script: str, start: int, end: int) -> bool:
    """Whether a quote names more than a program: two words of weight, a whole command or line."""
    words = [word for word in re.findall(r"\w+", text) if word not in BOILERPLATE]
    if len(words) > 1 or _read(script).holds_command(start, end):
        return True
    line_start = script.rfind("\n", 0, start) + 1
    line_end = end + len(script[end:].partition("\n")[0])
    return script[line_start:line_end].strip() == script[start:end].strip()


def _acts(script: str, start: int, end: int) -> bool:
    """Whether enough of the slice does something."""
    parts = _read(script).acting(start, end)
    return _has_weight(" ".join(script[first:last] for first, last in parts))


@lru_cache(
    maxsize=64
)  # the tips of one attempt share its script, and many threads judge side by side
def _read(script: str) -> ScriptReading:
    return read_script(script)


def _first(places: list[tuple[int, int]]) -> tuple[int, int] | None:
    return places[0] if places else None


def _exact_places(text: str, script: str) -> list[tuple[int, int]]:
    return [(at, at + len(text)) for at in _occurrences(text, script)]


def _folded_places(text: str, script: str) -> list[tuple[int, int]]:
    wanted = _fold(text)[0].strip()
    folded, starts, ends = _fold(script)
    if not wanted:
        return []
    found = _occurrences(wanted, folded)
    return [(starts[at], ends[at + len(wanted) - 1]) for at in found]


def _occurrences(wanted: str, text: str) -> list[int]:
    """Return where ``wanted`` stands in ``text``; a short one only where it is not part of a word."""
    found: list[int] = []
    at = text.find(wanted)
    while at >= 0 and len(found) < MAX_PLACES:
        if len(wanted) >= LONG_QUOTE_CHARS or _stands_alone(text, at, at + len(wanted)):
            found.append(at)
        at = text.find(wanted, at + 1)
    return found


def _stands_alone(text: str, start: int, end: int) -> bool:
    def joined(left: str, right: str) -> bool:
        return bool(_WORD_CHAR.fullmatch(left)) and bool(_WORD_CHAR.fullmatch(right))

    before, after = text[start - 1 : start], text[end : end + 1]
    return not joined(before, text[start]) and not joined(text[end - 1], after)


def _is_elided(text: str, script: str) -> bool:
    """Whether the quote leaves something out and its parts are there, in order.

    What was left out may turn the meaning, so such a quote is not counted as found.
    """
    parts = [part for part in (_fold(part)[0].strip() for part in _ELISION.split(text)) if part]
    if len(parts) < 2 or not all(map(_has_weight, parts)):
        return False
    folded, at = _fold(script)[0], 0
    for part in parts:
        at = folded.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


@lru_cache(maxsize=64)
def _fold(text: str) -> tuple[str, list[int], list[int]]:
    """Return the folded text, and where each of its characters begins and ends in the original."""
    out: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at, length = 0, len(text)
    while at < length:
        colour = _COLOUR.match(text, at) if text[at] == "\x1b" else None
        if colour:
            at = colour.end()
            continue
        end = at + 1
        while end < length and unicodedata.combining(text[end]):
            end += 1
        cluster = text[at:end]
        shown = cluster if cluster.isascii() else unicodedata.normalize("NFKC", cluster)
        for char in shown.translate(_FOLDED):
            blank = char.isspace()
            if blank and out and out[-1] == " ":
                ends[-1] = end
                continue
            out.append(" " if blank else char)
            starts.append(at)
            ends.append(end)
        at = end
    return "".join(out), starts, ends
