"""Splits advice into its steps: "delete X from F, add Y and restart Z" are three.

Guarantees: a step begins at an imperative after a comma, a semicolon, "and" or "then", or at a quoted
command after "then"; never inside quotes. Every character stays in exactly one step.

Does not guarantee that verbs are found in other forms than the imperative.

Shaped by "delete each A line and add B": read as one removal, a script that added B violated it.
"""

from __future__ import annotations

import re
from typing import Final

from scoring.trace.english import IMPERATIVES

_QUOTED: Final = re.compile(r"`[^`\n]{1,400}`|\"[^\"\n]{1,400}\"|(?<!\w)'[^'\n]{1,200}'(?!\w)")
_BOUNDARY: Final = re.compile(
    r"(?:[,;:]\s*(?:and\s+|then\s+|but\s+)?(?:then\s+)?|\s(?:and|then)\s+(?:then\s+)?)"
    rf"(?=(?:{'|'.join(sorted(IMPERATIVES))})\b(?![-/=]))"
    r"|(?:[,;]\s*(?:and\s+)?|\s(?:and\s+)?)then\s+(?=`)",
    re.IGNORECASE,
)


def steps(text: str) -> list[str]:
    """Return the steps of a prescribing clause in order."""
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    parts: list[str] = []
    start = 0
    for match in _BOUNDARY.finditer(text):
        if any(begin <= match.start() < end for begin, end in quoted):
            continue
        if len(text[start : match.start()].split()) == 1:
            # "Stop and disable X": two verbs, one object.
            continue
        parts.append(text[start : match.start()])
        start = match.start()
    parts.append(text[start:])
    return [part for part in parts if part.strip(" ,;:.")]
