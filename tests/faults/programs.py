"""One process of a system under test: started in a group of its own, and ended whole.

Guarantees: a signal goes to the very process that was started here, because it is collected only
after its group was killed, so that neither number can belong to a stranger; what it printed is kept
in a log. It dies with the test run, even with one that was killed (see saboteur).

Does not restart anything by itself: a test that kills says what comes back.
Shaped by workers that outlived their test run and went on consuming.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil

from tests.faults.saboteur import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

STOP_S = 25.0
POLL_S = 0.05


def wait_until(condition: Callable[[], object], *, within: float, what: str) -> None:
    """Poll *condition*; raises AssertionError that says *what* did not come to pass."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}"
        time.sleep(POLL_S)


class Program:
    """``celery ...`` or ``manage.py ...``, by way of the saboteur."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        folder: Path,
        plan: str = "none",
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.mark = folder / f"{name}.{plan}"
        self.mark.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.faults.saboteur", plan, str(self.mark), *argv]
        with self.log.open("ab") as log:
            log.write(f"--- {' '.join(command)}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._log_start = self.log.stat().st_size

    @property
    def pid(self) -> int:
        """Of the leader, which is also the number of the group."""
        return self._process.pid

    def exited(self) -> bool:
        """True if the leader has ended; it is not collected by looking."""
        if self._process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def died(self) -> bool:
        """True if it ended by itself: :meth:`kill` and :meth:`stop` were not called."""
        return self._process.returncode is None and self.exited()

    def printed(self, text: str) -> bool:
        """True if *text* stands in what this process printed."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return text.encode() in log.read()

    def wait_for_line(self, text: str, *, within: float = 40.0) -> None:
        """Wait until *text* is printed; raises AssertionError with the log when it is not."""

        def seen() -> bool:
            assert not self.exited(), f"{self.name} ended:\n{self.tail()}"
            return self.printed(text)

        wait_until(seen, within=within, what=f"{text!r} in {self.log}\n{self.tail()}")

    def tail(self, size: int = 3000) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-size:]

    def children(self) -> list[psutil.Process]:
        """Processes that it forked, the oldest first."""
        return psutil.Process(self.pid).children()

    def kill(self) -> None:
        """SIGKILL to the leader and to everything in its group, whatever lives of them."""
        if self._process.returncode is None:
            self.signal_group(signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        """SIGTERM to the leader, as `make up` and docker do it; SIGKILL when that does not help."""
        if self._process.returncode is None:
            os.kill(self.pid, signal.SIGTERM)
            deadline = time.monotonic() + STOP_S
            while not self.exited() and time.monotonic() < deadline:
                time.sleep(POLL_S)
            warm = self.exited()
            self.kill()
            assert warm, f"{self.name} did not stop on SIGTERM:\n{self.tail()}"

    def signal_group(self, order: signal.Signals) -> None:
        """Send a signal to the group of a leader that is not collected yet."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, order)
