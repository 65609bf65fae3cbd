"""The supervisor's loop: start, relay, restart, and stop all of them on request.

Guarantees: one supervisor for a checkout at a time; SIGTERM, SIGINT or SIGHUP stops every child
(SIGTERM, then after the period of grace SIGKILL for its whole group; a second signal cuts the grace
short); ``run`` returns only when no child is left; a child that exits for any other reason is
started again, for ever.

Does not decide that a system which keeps crashing should be given up: its output says so.

One thread, woken by descriptors: the parent-death signal belongs to the thread that forks, and
forking beside other threads may hang. Shaped by test runs that ended and left their workers.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from typing import TYPE_CHECKING

from contextgraph.embedded.errors import StateUnusableError
from contextgraph.embedded.location import make_logs_dir, make_state_dir, state_dir_of
from contextgraph.embedded.lock import exclusive
from contextgraph.embedded.processes import start_mark
from contextgraph.supervisor import record
from contextgraph.supervisor.children import Child, ProcessSpec
from contextgraph.supervisor.output import FileSink, Sink, TerminalSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import FrameType

_NAME = "supervisor"
_IDLE_SECONDS = 1.0
_LAST_READS = 100


class AlreadyRunningError(RuntimeError):
    """Another supervisor of this checkout runs."""


class Supervisor:
    """Runs processes in the foreground until it is told to stop."""

    def __init__(
        self,
        root: Path,
        specs: Sequence[ProcessSpec],
        *,
        quiet: bool = False,
        grace_seconds: float = 30.0,
        sink: Sink | None = None,
    ) -> None:
        """Prepare to run the specs of a checkout; their names must differ.

        ``quiet`` sends their output to ``.contextgraph/logs/<name>.log`` instead of the terminal.
        """
        names = [spec.name for spec in specs]
        if len(set(names)) != len(names):
            raise ValueError(f"Names of processes must differ: {names}")
        self._state_dir = state_dir_of(root)
        self._children = [Child(spec) for spec in specs]
        self._quiet = quiet
        self._grace_seconds = grace_seconds
        self._sink = sink
        self._names = [_NAME, *names]
        self._selector = selectors.DefaultSelector()
        self._started_at = 0.0
        self._orders = 0  # how often a signal asked to stop
        self._kill_at: float | None = None

    def run(self) -> None:
        """Hold the processes until a signal; call it in the main thread.

        Raises AlreadyRunningError if another supervisor of this checkout runs.
        """
        make_state_dir(self._state_dir)
        if self._sink is None:
            logs = make_logs_dir(self._state_dir)
            self._sink = FileSink(logs) if self._quiet else TerminalSink(self._names)
        with self._alone(), self._signals(), self._selector:
            self._started_at = time.time()
            try:
                self._loop()
            finally:
                self._kill_all()
                record.record_path(self._state_dir).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = exclusive(self._state_dir / "supervisor.lock", limit_seconds=0)
        try:
            lock.__enter__()
        except StateUnusableError:
            raise AlreadyRunningError(
                f"Another supervisor runs in {self._state_dir}. Stop it first."
            ) from None
        try:
            yield
        finally:
            lock.__exit__(None, None, None)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Turn signals into bytes of a socket, which the selector sees."""
        reader, writer = socket.socketpair()
        for end in (reader, writer):
            end.settimeout(0)
        self._selector.register(reader, selectors.EVENT_READ)
        stops = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup stays in force
            stops.append(signal.SIGHUP)
        before = {order: signal.signal(order, self._ordered) for order in stops}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _noticed)
        wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for order, handler in before.items():
                signal.signal(order, handler)
            reader.close()
            writer.close()

    def _ordered(self, _number: int, _frame: FrameType | None) -> None:
        self._orders += 1

    def _loop(self) -> None:
        while True:
            self._collect_exited()
            if self._orders:
                self._wind_down()
                if all(child.pid is None for child in self._children):
                    return
            else:
                self._start_due()
            self._relay(self._pause_seconds())

    def _start_due(self) -> None:
        for child in self._children:
            if not child.is_due():
                continue
            try:
                child.start()
            except OSError as error:
                pause = child.postpone()
                self._say(f"{child.spec.name} cannot be started: {error}; again in {pause:.1f} s")
                continue
            if child.output is not None:
                self._selector.register(child.output, selectors.EVENT_READ, child)
            self._say(f"{child.spec.name} started, pid {child.pid}")
            self._write_record()

    def _collect_exited(self) -> None:
        for child in self._children:
            if not child.exited():
                continue
            child.signal_group(signal.SIGKILL)  # first, or its last writer may never end
            self._drain(child)
            code = child.collect()
            if self._orders:
                self._say(f"{child.spec.name} stopped ({_meaning(code)})")
            else:
                pause = child.postpone()
                self._say(f"{child.spec.name} ended ({_meaning(code)}); again in {pause:.1f} s")
            self._write_record()

    def _wind_down(self) -> None:
        if self._kill_at is None:
            self._say("stopping; once more to stop at once")
            self._kill_at = time.monotonic() + self._grace_seconds
            for child in self._children:
                child.ask_to_stop()
        elif self._orders > 1 or time.monotonic() >= self._kill_at:
            for child in self._children:
                child.signal_group(signal.SIGKILL)

    def _kill_all(self) -> None:
        """Leave nobody behind when the loop itself failed."""
        for child in self._children:
            if child.pid is not None:
                child.collect()

    def _relay(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, Child):
                self._relay_lines(key.data)
            elif isinstance(key.fileobj, socket.socket):
                with contextlib.suppress(BlockingIOError):
                    key.fileobj.recv(4096)

    def _relay_lines(self, child: Child) -> bool:
        """Pass on what there is to read; True if more may be there at once."""
        data = child.read()
        if data is None:
            return False
        for line in child.lines_of(data):
            self._write(child.spec.name, line)
        if not data:
            self._unregister(child)
        return bool(data)

    def _drain(self, child: Child) -> None:
        """Pass on the last words of a dead process, whose pipe a stray grandchild may hold open."""
        for _ in range(_LAST_READS):
            if not self._relay_lines(child):
                break
        for line in child.lines_of(b""):
            self._write(child.spec.name, line)
        self._unregister(child)

    def _unregister(self, child: Child) -> None:
        if child.output is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(child.output)

    def _pause_seconds(self) -> float:
        pauses = [_IDLE_SECONDS]
        if self._kill_at is not None:
            pauses.append(max(0.0, self._kill_at - time.monotonic()))
        else:
            waits = (child.seconds_until_due() for child in self._children)
            pauses.extend(wait for wait in waits if wait is not None)
        return min(pauses)

    def _write_record(self) -> None:
        pid = os.getpid()
        children = tuple(
            record.ChildStatus(child.spec.name, child.pid, child.mark, child.starts)
            for child in self._children
        )
        status = record.SupervisorStatus(
            pid=pid,
            mark=start_mark(pid) or "",
            started_at=self._started_at,
            grace_seconds=self._grace_seconds,
            children=children,
        )
        record.write(self._state_dir, status)

    def _say(self, text: str) -> None:
        self._write(_NAME, text.encode())

    def _write(self, name: str, line: bytes) -> None:
        if self._sink is not None:
            self._sink.write(name, line)


def _noticed(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the handler is there so that the signal wakes the loop."""


def _meaning(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
