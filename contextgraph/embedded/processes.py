"""Start server processes, recognise them again, and end them, by identity and never by number.

Guarantees: a process counts as ours only if it runs under the servers' account and carries the
checkout's token in its command line, so a recycled pid, or a pid written into a pid file by
anybody, is never signalled. Zombies count as dead. Command lines are what identifies, because
root in a container may not read ``/proc/<pid>/cwd`` or ``exe`` of another user's process.

Does not see processes of another pid namespace; those are found by asking their socket.

Shaped by "already running" answers about a dead postmaster that its parent had not reaped.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypedDict

import psutil

from contextgraph.embedded.account import ServerAccount, open_private

if TYPE_CHECKING:
    import signal

_LOG_LIMIT_BYTES = 10 * 1024 * 1024
_TAIL_BYTES = 4000
_POLL_SECONDS = 0.01
# What a server may inherit. Not the rest: PGPORT or PGDATA would redirect it, and the keys of
# the judge are no business of a database.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
_started: dict[int, subprocess.Popen[bytes]] = {}


class Identity(TypedDict, total=False):
    """The arguments of subprocess that change the user."""

    user: int
    group: int
    extra_groups: list[int]


class _Outliving(subprocess.Popen[bytes]):
    """A child that is meant to outlive its parent.

    Popen warns (ResourceWarning) when it is collected before its process has ended.
    """

    def __del__(self) -> None:
        """Leave the process alone."""


def identity_of(account: ServerAccount) -> Identity:
    """Answer what makes subprocess run a command as the account; nothing if we are it."""
    if account.is_self:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def server_environment() -> dict[str, str]:
    """Answer the environment of a server: programs are found, nothing is redirected."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {**kept, "LC_ALL": "C", "HOME": "/"}


def open_log(path: Path) -> IO[bytes]:
    """Open a log for appending; one of more than 10 MiB is first set aside as ``*.1``."""
    if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return open_private(path, os.O_WRONLY | os.O_APPEND)


def log_tail(path: Path) -> str:
    """Answer the last 4,000 bytes of a log as printable text."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError as error:
        return f"({error})"
    return "".join(char for char in text if char.isprintable() or char == "\n").strip()


def start(argv: list[str], *, account: ServerAccount, log: Path) -> psutil.Process:
    """Start a server in a session of its own, its output appended to the log."""
    with open_log(log) as stream:
        child = _Outliving(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=server_environment(),
            umask=0o077,
            start_new_session=True,
            **identity_of(account),
        )
    _started[child.pid] = child
    return psutil.Process(child.pid)


def is_alive(process: psutil.Process) -> bool:
    """True if the very same process still runs; a zombie does not."""
    _reap()
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def find(token: str, *, account: ServerAccount) -> list[psutil.Process]:
    """Answer the living processes of the account whose command line carries the token."""
    _reap()
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.uids().effective == account.uid and token in command_line(process):
                found.append(process)
    return found


def command_line(process: psutil.Process) -> str:
    """Answer a process's command line or title, "" for a zombie or a process that is gone."""
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def start_mark(pid: int) -> str | None:
    """Answer a text that no other process with this pid ever has; None if it is dead or a zombie.

    The boot and the clock tick of the start: unlike a wall time it does not move with the clock.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # The name in parentheses may hold anything, so fields are counted from behind it.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in ("Z", "X") else f"{boot}:{fields[19]}"


def end(processes: list[psutil.Process], *, by: signal.Signals, within_seconds: float) -> bool:
    """Send a signal to processes and wait; True if all of them are gone in time.

    psutil compares start times before it signals, so a pid that was recycled meanwhile is spared.
    """
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(by)
    # Not psutil's wait: it waits for the parent to collect a zombie, which may take for ever.
    deadline = time.monotonic() + within_seconds
    while any(is_alive(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _reap() -> None:
    """Collect our own dead children, which would otherwise stay in the table as zombies."""
    for pid, child in list(_started.items()):
        if child.poll() is not None:
            del _started[pid]
