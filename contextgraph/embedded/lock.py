"""One process at a time in a checkout's server state.

Guarantees: the lock belongs to an open file, so the kernel drops it when its holder dies in
whatever way; a lock file left on the disk locks nothing. Children never inherit it.

Does not guarantee fairness, nor anything across network file systems without flock.

Shaped by pid-file locks that a ``kill -9`` leaves behind for ever.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from contextgraph.embedded.account import open_private
from contextgraph.embedded.errors import StateUnusableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_POLL_SECONDS = 0.05


@contextmanager
def exclusive(path: Path, *, limit_seconds: float) -> Iterator[None]:
    """Hold the lock of a file for the time of the block.

    Raises StateUnusableError if another process holds it for longer than ``limit_seconds``.
    """
    deadline = time.monotonic() + limit_seconds
    with open_private(path, os.O_WRONLY | os.O_APPEND) as stream:
        while not _try_lock(stream.fileno()):
            if time.monotonic() > deadline:
                raise StateUnusableError(
                    f"Another process has held {path} for more than {limit_seconds:.0f} s. "
                    f"See who it is with 'fuser {path}'."
                )
            time.sleep(_POLL_SECONDS)
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
