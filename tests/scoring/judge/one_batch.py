"""A worker of one batch in a process of its own: ``one_batch BATCH READY GO``, on a test's database.

Makes the file READY when all is imported, waits for GO, and works on the batch as any worker does.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
LONG_S = 60


def main() -> None:
    """Be ready, wait, work."""
    batch, ready, go = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    import django

    django.setup()
    from scoring.work import score_batch

    Path(ready).touch()
    end = time.monotonic() + LONG_S
    while not Path(go).exists():
        if time.monotonic() > end:
            raise SystemExit("nobody said go")
        time.sleep(0.01)
    score_batch(int(batch))


if __name__ == "__main__":
    main()
