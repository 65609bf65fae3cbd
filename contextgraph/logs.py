"""One line per log record, with its facts: ``run.done run_id=7 round=1``.

Guarantees: what a caller passes as ``extra`` is printed, sorted, with control characters made visible,
so that text from agents cannot forge a line. Shaped by bare lines ("batch.error") that named no batch.
"""

from __future__ import annotations

import logging
from typing import Final

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_CELERY: Final = frozenset({"data"})


class FactsFormatter(logging.Formatter):
    """Time, level, logger, message, then the facts as key=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Append the facts to the line, before any traceback."""
        line = super().formatMessage(record)
        facts = {
            name: value
            for name, value in vars(record).items()
            if name not in _STANDARD and name not in _CELERY
        }
        return " ".join([line, *(f"{name}={_visible(facts[name])}" for name in sorted(facts))])


def _visible(value: object) -> str:
    text = str(value)
    plain = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:500])
    return repr(plain) if " " in plain else plain
