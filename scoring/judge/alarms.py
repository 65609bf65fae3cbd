"""Calls something at a time to come, from one thread for all of a process.

Guarantees: what is to be called is called once, not before its time, and in the order of the times;
one call that raises is logged and keeps none of the others from theirs. A process that was forked has a
thread of its own, and alarms of its own. The thread ends with its process.

Nothing is taken back: who needs an alarm no longer lets it ring in vain. Not for calls that take long.
Shaped by a timer per request, each a thread of its own that had to be started before the request was.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


class Alarms:
    """See the module's description."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call ``call()`` in *seconds* (at once if there are none)."""
        with self._changed:
            alarm = (time.monotonic() + seconds, next(self._number), call)
            heapq.heappush(self._due, alarm)
            if self._thread is None:
                thread = threading.Thread(target=self._ring, name="alarms", daemon=True)
                thread.start()  # before it is noted: where no thread can be had, the next call tries
                self._thread = thread
            elif self._due[0] is alarm:  # the thread sleeps for longer than that
                self._changed.notify()

    def _ring(self) -> None:
        while True:
            call = self._next()
            try:
                call()
            except Exception:  # the others must still ring
                logger.exception("an alarm failed")

    def _next(self) -> Callable[[], None]:
        with self._changed:
            while not self._due or (left := self._due[0][0] - time.monotonic()) > 0:
                self._changed.wait(left if self._due else None)
            return heapq.heappop(self._due)[2]
