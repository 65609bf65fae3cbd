"""What a run-log reader raises, and nothing else.

Guarantees: every refusal says where (``line 812``, ``attempts.3.number``), why, and what to do about it.
A reader refuses only what it cannot give an identity or a meaning; everything else is counted as a
:class:`~contextgraph.runlogs.hazards.Hazard` and read on.

Does not guarantee: that records yielded before the refusal are worth keeping. Store a run only when its
footer has arrived.

Shaped by: a parser that skipped undecodable lines in silence and reported "nothing to score".
"""

from __future__ import annotations

from contextgraph.envelope import EnvelopeError, UnknownVersion


class RunLogError(EnvelopeError):
    """A log that cannot be read. ``place``, ``cause`` and ``mend`` are one phrase each."""

    def __init__(self, cause: str, *, place: str = "", mend: str = "") -> None:
        self.mend = mend
        super().__init__(cause, place=place)

    def __str__(self) -> str:
        """The refusal as one line: place, cause, mend."""
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.cause}" + (f" ({self.mend})" if self.mend else "")


class UnknownRunLogVersion(RunLogError, UnknownVersion):
    """The envelope names a schema version that this build does not read."""
