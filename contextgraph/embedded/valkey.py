"""One checkout's Valkey, broker and result store: started, asked, stopped.

Guarantees: every write that was acknowledged is in the append-only file first, so it survives
``kill -9`` (and, with ``durable=True``, a power loss); keys are never evicted, because an evicted
queue is lost work; it listens on a Unix socket of mode 0700 and nowhere else.

Does not need the valkey client package, and works with a redis-server from 6.2 on.

Shaped by a wrapper whose defaults are no persistence and SIGKILL at exit.
"""

from __future__ import annotations

import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from contextgraph.embedded import binaries, processes
from contextgraph.embedded.account import make_private_dir
from contextgraph.embedded.errors import ServerStopError

if TYPE_CHECKING:
    from pathlib import Path

    from contextgraph.embedded.location import Location

_REQUEST_SECONDS = 2.0
_STOP_SECONDS = 30.0
_KILL_SECONDS = 5.0


@dataclass(frozen=True)
class Valkey:
    """The Valkey of a location; holds no state of its own."""

    location: Location
    name = "Valkey"

    @property
    def data_dir(self) -> Path:
        return self.location.home / "valkey"

    @property
    def log(self) -> Path:
        return self.location.logs / "valkey.log"

    @property
    def socket(self) -> Path:
        return self.location.socket_dir / "valkey.sock"

    def answers(self) -> bool:
        """True if the server answers a PING; one that still loads its data does not."""
        if not self.socket.exists():
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(_REQUEST_SECONDS)
                connection.connect(str(self.socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False

    def main_process(self) -> psutil.Process | None:
        """Answer the living server process of this location."""
        servers = self._family()
        pids = {process.pid for process in servers}
        # A fork that rewrites the append-only file is a child of the server.
        mains = [process for process in servers if _parent(process) not in pids]
        return mains[0] if mains else None

    def launch(self, *, durable: bool) -> psutil.Process:
        """Start a server; the caller has seen that none is alive.

        Raises BinariesNotFoundError.
        """
        program = binaries.valkey(self.location.account)
        make_private_dir(self.data_dir, self.location.account)
        self.socket.unlink(missing_ok=True)
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.data_dir),
            "appendonly": "yes",
            "appendfsync": "always" if durable else "no",
            "save": "",
            "maxmemory-policy": "noeviction",
            "proc-title-template": f"{{title}} {self.location.token}",
        }
        argv = [str(program.path)]
        argv += [part for name, value in options.items() for part in (f"--{name}", value)]
        return processes.start(argv, account=self.location.account, log=self.log)

    def halt(self, process: psutil.Process) -> None:
        """Stop the server as SHUTDOWN does: the append-only file is written out first.

        Raises ServerStopError if it stays.
        """
        if processes.end([process], by=signal.SIGTERM, within_seconds=_STOP_SECONDS):
            return
        # It had its time. With the append-only file nothing acknowledged depends on its goodbye.
        if not processes.end([process], by=signal.SIGKILL, within_seconds=_KILL_SECONDS):
            raise ServerStopError(
                f"Valkey (pid {process.pid}, {self.data_dir}) did not stop. See {self.log}."
            )

    def stop(self) -> bool:
        """Stop whatever runs here; True if something did. Raises ServerStopError."""
        process = self.main_process()
        if process is not None:
            self.halt(process)
        return process is not None

    def _family(self) -> list[psutil.Process]:
        found = processes.find(self.location.token, account=self.location.account)
        return [process for process in found if self._is_server(process)]

    def _is_server(self, process: psutil.Process) -> bool:
        # The title is "<path of the program> <token>"; a reader of our log has the token elsewhere.
        program, token, _ = processes.command_line(process).partition(self.location.token)
        return bool(token) and any(name in program for name in binaries.VALKEY_NAMES)


def _parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return 0
