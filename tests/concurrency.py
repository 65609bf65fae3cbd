"""Jobs at the same time, each with a connection of its own, and a look at who waits for a lock."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

WAIT_S = 60.0


class Job:
    """A callable in a thread; a context manager that waits for its end. ``error``: what it raised."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.error: BaseException | None = None
        self._pid = 0
        self._work = work
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Job:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "the job has not come to its end"

    def _run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                self._pid = cursor.fetchone()[0]
            self._work()
        except BaseException as error:  # noqa: BLE001 - a thread's error must reach the test
            self.error = error
        finally:
            connection.close()

    @property
    def waits(self) -> bool:
        """Whether it waits for a lock that another connection holds."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [self._pid])
            return bool(cursor.fetchone()[0])

    def until_it_waits(self) -> None:
        """Return when it waits for a lock; fail when it ends before."""
        self.until_it_waits_or_ends()
        assert self._thread.is_alive(), f"the job met no lock ({self.error!r})"

    def until_it_waits_or_ends(self) -> None:
        """Return when it waits for a lock, or has come to its end."""
        deadline = time.monotonic() + WAIT_S
        while self._thread.is_alive() and not self.waits:
            if time.monotonic() > deadline:
                pytest.fail("the job neither waits nor ends")
            time.sleep(0.01)
