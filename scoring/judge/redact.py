"""Takes secrets out of a script or a tip before it leaves for the judge.

Guarantees: `redact` is pure, linear and idempotent; each secret that it knows becomes
``[REDACTED:kind:n]``, the same one for the same secret, so that a judge still sees that two lines
use one password; ``kinds`` counts what was taken out, for the row to say so. Where two finds overlap,
all of both is taken out. Ordinary configuration is left alone: ages, counts, switches, paths,
variable references, checksums, public keys. `redact_within` reads no text that will be refused for
its length.

It knows shapes, names and commands (``scoring.judge.secret_shapes``, ``scoring.judge.secret_commands``),
not meanings: a password that stands in prose, or in a variable with a harmless name, is sent. Shaped
by a script of 341 kB that was searched for eleven seconds and then refused for its length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from scoring.judge.secret_commands import secrets_of_commands
from scoring.judge.secret_shapes import SHAPES, secrets_of_shapes


@dataclass(frozen=True, slots=True)
class Redacted:
    """The text that may leave, and how many stretches of each kind were taken out of it."""

    text: str
    kinds: dict[str, int]


_MARKER: Final = re.compile(r"\[REDACTED:(\w+):(\d{1,9})\]")
_MAX_PASSES: Final = 5
"""A marker may uncover what stands beside it: the text is read until nothing more is found."""
_RANK: Final = {kind: rank for rank, (kind, _) in reversed(list(enumerate(SHAPES)))}
"""Of finds that overlap, the one that is known by its own shape gives the kind."""


def redact(text: str) -> Redacted:
    """Return ``text`` with every known secret as ``[REDACTED:kind:n]``, n from 1 per kind.

    Markers that the text already holds are kept, and counting goes on after them.
    """
    last: dict[str, int] = {}
    for kind, number in _MARKER.findall(text):
        last[kind] = max(last.get(kind, 0), int(number))
    markers: dict[tuple[str, str], str] = {}
    kinds: dict[str, int] = {}
    for _ in range(_MAX_PASSES):
        parts: list[str] = []
        at = 0
        for start, end, kind in _secrets(text):
            key = (kind, text[start:end])
            if key not in markers:
                last[kind] = last.get(kind, 0) + 1
                markers[key] = f"[REDACTED:{kind}:{last[kind]}]"
            kinds[kind] = kinds.get(kind, 0) + 1
            parts += [text[at:start], markers[key]]
            at = end
        if not parts:
            break
        text = "".join([*parts, text[at:]])
    return Redacted(text, kinds)


def redact_within(text: str, limit: int) -> Redacted:
    """As `redact`; of a text over ``limit`` code points nothing is read and nothing can leave.

    What stands for it is as long as ``limit`` + 1: whoever asks about it refuses it for its length.
    """
    return redact(text) if len(text) <= limit else Redacted("#" * (limit + 1), {})


def _secrets(text: str) -> list[tuple[int, int, str]]:
    """Return start, end and kind of every secret, in order; none overlaps another, or a marker."""
    found = list(secrets_of_shapes(text))
    found += [(start, end, "password") for start, end in secrets_of_commands(text)]
    markers = [hit.span() for hit in _MARKER.finditer(text)]
    swept: list[tuple[int, int, str]] = []
    next_marker = 0
    for start, end, kind in sorted(found):
        while next_marker < len(markers) and markers[next_marker][1] <= start:
            next_marker += 1
        if next_marker < len(markers) and markers[next_marker][0] < end:
            continue
        if swept and start < swept[-1][1]:
            first, last, other = swept[-1]
            known = min(kind, other, key=lambda one: _RANK.get(one, len(SHAPES)))
            swept[-1] = (first, max(last, end), known)
        else:
            swept.append((start, end, kind))
    return swept
