"""A process that writes a memo and is killed at it: ``doomed PLAN MARK RUN``, on the database of a test.

``in-synthesis``: MARK is made when the text is being written, and then nothing happens until the kill.
``before-commit``: SIGKILL from within, when the row is inserted and not committed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
LONG_S = 120


def in_synthesis(mark: Path) -> None:
    """Hold the lock, and write for ever."""
    from scoring.memos import memo_making

    def write(*_args: Any, **_kwargs: Any) -> None:
        mark.touch()
        time.sleep(LONG_S)

    memo_making.synthesise = write  # type: ignore[assignment]


def before_commit(mark: Path) -> None:
    """Insert the row, and die before it is committed."""
    from django.db.models.query import QuerySet

    original = QuerySet.bulk_create

    def insert(rows: Any, *args: Any, **kwargs: Any) -> None:
        original(rows, *args, **kwargs)
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    QuerySet.bulk_create = insert  # type: ignore[assignment, method-assign]


PLANS = {"in-synthesis": in_synthesis, "before-commit": before_commit}


def main() -> None:
    """Lay the trap, and ask for the memo."""
    plan, mark, run = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    import django

    django.setup()
    from scoring.memos.service import memo

    PLANS[plan](Path(mark))
    memo("run", run)


if __name__ == "__main__":
    main()
