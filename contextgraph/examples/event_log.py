"""Writes events of the upstream run log: one JSON object a line, on a clock that a seed cannot move.

Guarantees: the same calls give the same bytes; timestamps never go back; the envelope keys and their
order are those of the upstream logger, ``iteration`` 0 included.

Does not guarantee: a script longer than the log holds. ``cut`` is the upstream logger's limit, applied
where the story says that the old logger was still in place.

Shaped by: a log whose times came from the wall clock, so that rebuilding it changed every line.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

LOGGER_CUT = 200
"""Characters the upstream logger keeps of each argument."""

SHOWN_LIMIT = 260
"""Characters of a tip that the prompt of this job shows."""


class EventLog:
    """Collects the lines of one run."""

    def __init__(self, started: datetime) -> None:
        self._started = started
        self._elapsed = 0.0
        self._lines: list[str] = []

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the run, two decimals."""
        return round(self._elapsed, 2)

    def add(self, event: str, agent: str, data: dict[str, Any], *, after: float = 0.1) -> None:
        """Append one event, *after* seconds after the one before it."""
        self._elapsed += after
        moment = self._started + timedelta(seconds=self.elapsed)
        line = {
            "timestamp": moment.isoformat(timespec="milliseconds"),
            "elapsed_s": self.elapsed,
            "event_type": event,
            "agent": agent,
            "iteration": 0,
            "data": data,
        }
        self._lines.append(json.dumps(line, ensure_ascii=False))

    def text(self) -> str:
        """All lines, each ended by a newline."""
        return "\n".join(self._lines) + "\n"


def shown(text: str) -> str:
    """The part of a tip's text that the agent sees."""
    return text[:SHOWN_LIMIT]


def outcome_signal(value: float) -> dict[str, Any]:
    """The sender's own grade, as logged beside each evaluation."""
    return {
        "value": value,
        "confidence": 1.0,
        "utility_contribution": value,
        "signal_type": "graded",
    }


def call_arguments(script: str, *, revert: str, says: str, cut: bool) -> dict[str, Any]:
    """Arguments of ``apply_fix``; a cut script carries its mark and its true length."""
    if not cut:
        return {"fix_script": script, "revert_script": revert, "description": says}
    return {
        "fix_script": script[:LOGGER_CUT],
        "fix_script_truncated": True,
        "fix_script_len": len(script),
        "revert_script": revert[:LOGGER_CUT],
        "description": says[:LOGGER_CUT],
    }
