"""What the action trace answers: a verdict, a graded score, and what was seen on which line.

Guarantees: plain frozen values without a database, comparable and hashable, so that a caller may
cache or store them. A score exists exactly when the trace did not abstain.

Does not guarantee that a verdict is right: it is a reading of actions by rules, one signal of
three. The evidence is there so that a reviewer can disagree with it.

Shaped by a post-mortem that blamed four tips for a script that had followed none of them: a bare
number could not have shown that, a cited line could.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.StrEnum):
    """What the script did with the tip.

    VIOLATED is the opposite of what the tip prescribes, or something that it forbids;
    NOT_FOLLOWED is that nothing (or too little) of it occurs; ABSTAINED is that the tip names
    nothing that can be looked for, or that the script cannot be read.
    """

    FOLLOWED = "followed"
    VIOLATED = "violated"
    NOT_FOLLOWED = "not_followed"
    ABSTAINED = "abstained"


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """One thing that the tip names, and whether the script does it.

    `clause` is "prescribes" or "forbids"; `line` is the 1-based line of the script, None when
    nothing was found; `text` is one sentence for a reviewer. Terms and texts quote tip and script:
    they are data, to be escaped where they are shown.
    """

    clause: str
    term: str
    kind: str
    found: bool
    line: int | None
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceResult:
    """Verdict and score in [0, 1] (1 = clearly followed); the score is None iff ABSTAINED."""

    verdict: Verdict
    score: float | None
    evidence: tuple[Evidence, ...] = ()
