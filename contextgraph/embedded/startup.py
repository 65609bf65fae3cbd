"""The one way in which a server is brought up, whatever state it was left in.

Guarantees: at return the server has answered a real request. A server that is already up, is
starting, or is recovering is waited for, not started twice; one that dies during its start is
tried again, because a killed predecessor's children may hold its lock for a moment; one that
lives without listening at its socket is stopped and started anew. A failure carries the end of
the server's log.

Does not lock: the caller holds the checkout's lock. Does not stop a server that is merely slow:
after the limit it goes on, and the next call adopts it.

Shaped by ``kill -9`` of a postmaster: stale lock files, orphaned backends, refused restarts.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Protocol

from contextgraph.embedded import processes
from contextgraph.embedded.errors import ServerStartError

if TYPE_CHECKING:
    from pathlib import Path

    import psutil

START_LIMIT_SECONDS = 30.0
_POLL_SECONDS = 0.02
_CONNECT_SECONDS = 1.0
_RETRY_SECONDS = 0.25
_EARLY_EXITS_ALLOWED = 8
# Both servers listen before they recover their data, so they are deaf for an instant only.
_DEAF_AFTER_SECONDS = 3.0


class Server(Protocol):
    """What ``bring_up`` needs to know about a server."""

    @property
    def name(self) -> str: ...

    @property
    def log(self) -> Path: ...

    @property
    def socket(self) -> Path: ...

    def answers(self) -> bool:
        """True if the server completed a request just now."""

    def main_process(self) -> psutil.Process | None:
        """The living server process, found by identity."""

    def launch(self, *, durable: bool) -> psutil.Process:
        """Make the data if there is none, clear what a dead predecessor left, and start."""

    def halt(self, process: psutil.Process) -> None:
        """Stop the server process and wait for its end."""


def bring_up(server: Server, *, durable: bool, limit_seconds: float = START_LIMIT_SECONDS) -> None:
    """Return when the server answers.

    ``durable=False`` trades safety at a power loss for speed; it concerns a server started here.
    Raises ServerStartError after the limit, or when the server keeps exiting.
    """
    deadline = time.monotonic() + limit_seconds
    early_exits = 0
    while time.monotonic() < deadline:
        process = server.main_process()
        if process is None:
            process = server.launch(durable=durable)
            if early_exits == 0:  # the first launch makes the data: that is not the start's time
                deadline = time.monotonic() + limit_seconds
        if _wait_for_answer(server, process, deadline):
            return
        if processes.is_alive(process):
            if listens(server.socket):
                break  # alive and listening, but not answering: the limit has passed
            server.halt(process)
            continue
        early_exits += 1
        if early_exits > _EARLY_EXITS_ALLOWED:
            raise _failure(server, f"exited {early_exits} times while starting")
        time.sleep(_RETRY_SECONDS)
    raise _failure(server, f"did not answer within {limit_seconds:.0f} s")


def _wait_for_answer(server: Server, process: psutil.Process, deadline: float) -> bool:
    """True if the server answers; False if it died, is deaf, or the time is up."""
    heard = time.monotonic()
    while time.monotonic() < deadline:
        if server.answers():
            return True
        if not processes.is_alive(process):
            return False
        if listens(server.socket):
            heard = time.monotonic()
        elif time.monotonic() - heard > _DEAF_AFTER_SECONDS:
            return False
        time.sleep(_POLL_SECONDS)
    return False


def listens(address: Path) -> bool:
    """True if a process accepts connections at a Unix socket, answering or not."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(str(address))
    except OSError:
        return False
    return True


def _failure(server: Server, cause: str) -> ServerStartError:
    return ServerStartError(
        server=server.name, cause=cause, log=server.log, log_tail=processes.log_tail(server.log)
    )
