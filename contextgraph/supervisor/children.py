"""One supervised process: started in its own group, watched, restarted with patience, ended whole.

Guarantees: the kernel sends it SIGTERM when the supervisor dies, even by SIGKILL; when its leader
is gone the rest of its group is killed before the dead leader is collected, so that its number
cannot have been given to a stranger meanwhile; restarts are spread by full jitter, so that
processes that fell together (over a broker that went away) do not come back together.

Does not reach grandchildren that leave the group (setsid).

Shaped by worker pools that lived on after their parent and went on consuming.
"""

from __future__ import annotations

import ctypes
import functools
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contextgraph.embedded.processes import start_mark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PR_SET_PDEATHSIG = 1
_BACKOFF_BASE_SECONDS = 0.5
_BACKOFF_CAP_SECONDS = 30.0
_BACKOFF_FLOOR_SECONDS = 0.1
# A process that lived this long was well: its next crash is a first one again.
_STABLE_SECONDS = 60.0
_READ_BYTES = 65536
_LINE_LIMIT_BYTES = 65536
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class ProcessSpec:
    """What to run: a unique name, the command, and variables added to the environment."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


def backoff_seconds(crashes: int) -> float:
    """Answer the pause before a restart: full jitter under a doubling bound of at most 30 s."""
    bound = min(_BACKOFF_CAP_SECONDS, _BACKOFF_BASE_SECONDS * 2.0 ** min(crashes, 16))
    return max(_BACKOFF_FLOOR_SECONDS, random.uniform(0.0, bound))  # noqa: S311 - spreads restarts, protects no secret


class Child:
    """The life of one spec: not running, running, or waiting for its restart."""

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        self.starts = 0
        self.mark: str | None = None
        self._crashes = 0
        self._due = 0.0
        self._started = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._partial = b""

    @property
    def pid(self) -> int | None:
        """The pid of the leader, None while it does not run."""
        return None if self._process is None else self._process.pid

    @property
    def output(self) -> int | None:
        """The descriptor to read the output from, None while the process does not run."""
        if self._process is None or self._process.stdout is None:
            return None
        return self._process.stdout.fileno()

    def is_due(self) -> bool:
        """True if the process does not run and its pause is over."""
        return self._process is None and time.monotonic() >= self._due

    def seconds_until_due(self) -> float | None:
        """Answer the rest of the pause, None while the process runs."""
        return None if self._process is not None else max(0.0, self._due - time.monotonic())

    def start(self) -> None:
        """Start the process. Raises OSError if the command cannot be run at all."""
        self._started = time.monotonic()
        # preexec_fn is safe here only because the supervisor has a single thread.
        self._process = subprocess.Popen(
            list(self.spec.argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self.spec.env},
            process_group=0,
            preexec_fn=functools.partial(_die_with, os.getpid()),
        )
        self.starts += 1
        self.mark = start_mark(self._process.pid)
        if self.output is not None:
            os.set_blocking(self.output, False)

    def read(self) -> bytes | None:
        """Answer output that is there, b"" at its end, None if there is none just now."""
        if self.output is None:
            return b""
        try:
            return os.read(self.output, _READ_BYTES)
        except BlockingIOError:
            return None

    def lines_of(self, data: bytes) -> list[bytes]:
        """Answer the lines that data completes; at the end (b"") also one without a newline."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        if self._partial and (not data or len(self._partial) > _LINE_LIMIT_BYTES):
            lines.append(self._partial)
            self._partial = b""
        return lines

    def exited(self) -> bool:
        """True if the leader has ended; it is not collected yet."""
        if self._process is None:
            return False
        state = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return state is not None

    def collect(self) -> int:
        """End what is left of the group and answer the exit code (-n: ended by signal n)."""
        if self._process is None:
            raise RuntimeError(f"{self.spec.name} does not run")
        self.signal_group(signal.SIGKILL)
        code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process, self.mark, self._partial = None, None, b""
        return code

    def postpone(self) -> float:
        """Plan the restart after a crash; answer the pause in seconds."""
        if time.monotonic() - self._started >= _STABLE_SECONDS:
            self._crashes = 0
        pause = backoff_seconds(self._crashes)
        self._crashes += 1
        self._due = time.monotonic() + pause
        return pause

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the leader alone: a worker pool ends its own children, warmly."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGTERM)

    def signal_group(self, order: signal.Signals) -> None:
        """Send a signal to the whole group; the leader is alive or not yet collected."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, order)
            except (ProcessLookupError, PermissionError):
                return  # nobody is left in it, or only zombies


def _die_with(supervisor: int) -> None:
    """Run in the child before exec: ask the kernel for SIGTERM when the supervisor dies."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != supervisor:
            os._exit(1)  # it died before the request was in place
