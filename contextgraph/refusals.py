"""Why intake refuses a message: one exception, one mapping from every error that a sender can cause.

Guarantees: each error that reading, checking or storing a document raises on purpose has one reason
code of :class:`~contextgraph.models.RejectedMessage`, a cause, and the mend where there is one.

Does not cover a database that went away: that is no fault of the message, see ``database.py``.

Shaped by: consumers that died of one bad message, came back, and met the same message again.
"""

from __future__ import annotations

from contextgraph.envelope import EnvelopeError, UnknownVersion
from contextgraph.ingest import RunConflict
from contextgraph.models import RejectedMessage
from contextgraph.run_rows import TooMuchText
from contextgraph.runlogs import RunLogError

Reason = RejectedMessage.Reason


class Refusal(Exception):
    """A message that is not stored as a run. ``detail`` is place, cause and mend in one line."""

    def __init__(self, reason: Reason, cause: str, *, mend: str = "") -> None:
        self.reason = reason
        self.detail = f"{cause} ({mend})" if mend else cause
        super().__init__(f"{reason.value}: {self.detail}")


def refusal_of(error: EnvelopeError) -> Refusal:
    """The refusal that an error of the readers, the envelope or the ingest amounts to."""
    if isinstance(error, RunConflict):
        return Refusal(Reason.CONFLICT, str(error))
    if isinstance(error, UnknownVersion):
        return Refusal(Reason.VERSION, str(error))
    if isinstance(error, TooMuchText):
        return Refusal(Reason.TOO_LARGE, str(error))
    if isinstance(error, RunLogError):
        return Refusal(Reason.UNREADABLE, str(error))
    return Refusal(Reason.SCHEMA, str(error))
