"""File modes, octal and symbolic: do two `chmod` values leave the same bits?

Guarantees: octal values compare as numbers; a symbolic value that only removes bits is equal to the
octal one when it removes exactly what that one forbids.

Does not guarantee a mode that depends on what the file had before (`u+x` on an unknown file).

Shaped by remediations that write `u-xs,g-xwrs,o-xwrt` where the text they implement says 0600.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_ALL: Final = 0o7777
_CLAUSE: Final = re.compile(r"([ugoa]*)((?:[-+=][rwxXst]*)+)")
_STEP: Final = re.compile(r"([-+=])([rwxXst]*)")


def modes_agree(wanted: str, given: str) -> float:
    """Return 1.0 for the same mode, about a half for a stricter or similar one, 0.0 otherwise."""
    left, right = _octal(wanted), _octal(given)
    if left is not None and right is not None:
        return 1.0 if left == right else 0.0
    if left is not None:
        return _against_symbolic(left, given)
    if right is not None:
        return _against_symbolic(right, wanted)
    one, other = _changes(wanted), _changes(given)
    if one is None or other is None:
        return 0.0
    return (
        1.0
        if one == other
        else 0.5
        if one[0] | one[1] == (one[0] | one[1]) & (other[0] | other[1])
        else 0.0
    )


def _octal(mode: str) -> int | None:
    return int(mode, 8) if re.fullmatch(r"[0-7]{1,5}", mode) else None


def _against_symbolic(octal: int, symbolic: str) -> float:
    changes = _changes(symbolic)
    if changes is None:
        return 0.0
    added, removed = changes
    forbidden = _ALL & ~octal
    if added & forbidden:
        return 0.0
    if removed & octal:
        return 0.2
    # Special bits are often left out: what counts is who may read and write.
    return 1.0 if removed & 0o777 == forbidden & 0o777 else 0.5 if removed else 0.0


@lru_cache(maxsize=1_024)
def _changes(symbolic: str) -> tuple[int, int] | None:
    """Return (bits added, bits removed) of a symbolic mode; None when it is not one."""
    added = removed = 0
    for part in symbolic.split(","):
        match = _CLAUSE.fullmatch(part)
        if match is None:
            return None
        who = match[1] or "a"
        for sign, letters in _STEP.findall(match[2]):
            bits = _bits(who, letters)
            added |= bits if sign in "+=" else 0
            removed |= bits if sign == "-" else 0
            removed |= _bits(who, "rwxst") & ~bits if sign == "=" else 0
    return added, removed


def _bits(who: str, letters: str) -> int:
    total = 0
    for person, shift, special in (("u", 6, 0o4000), ("g", 3, 0o2000), ("o", 0, 0)):
        if person not in who and "a" not in who:
            continue
        for letter, bit in (("r", 4), ("w", 2), ("x", 1), ("X", 1)):
            if letter in letters:
                total |= bit << shift
        if "s" in letters:
            total |= special
    return total | (0o1000 if "t" in letters else 0)
