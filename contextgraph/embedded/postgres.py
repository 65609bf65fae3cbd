"""One checkout's Postgres: made, started, asked, stopped.

Guarantees: every commit that was acknowledged survives ``kill -9`` of any of its processes
(fsync on, unless ``durable=False``); it listens on a Unix socket in a 0700 directory and nowhere
else, where whoever can open the socket is trusted; a data directory appears complete or not at all.

Does not install extensions and does not migrate. Does not open the data of another major version.

Shaped by what a killed postmaster leaves: backends that still hold its shared memory, and pid files
that Postgres itself believes as long as any process, even a zombie, has that number.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import psycopg
from psycopg import sql

from contextgraph.embedded import binaries, processes
from contextgraph.embedded.account import make_private_dir
from contextgraph.embedded.errors import (
    MajorVersionMismatchError,
    ServerStartError,
    ServerStopError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from contextgraph.embedded.location import Location

DATABASE = "contextgraph"
SUPERUSER = "postgres"
PORT = 5432  # names the socket file; nothing listens on TCP
_REQUEST_SECONDS = 2
_DATABASE_SECONDS = 30
_STOP_SECONDS = 30.0
_ORPHAN_SECONDS = 5.0
_INITDB_SECONDS = 60
_NOT_DURABLE = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


@dataclass(frozen=True)
class Postgres:
    """The Postgres of a location; holds no state of its own."""

    location: Location
    name = "Postgres"

    @property
    def data_dir(self) -> Path:
        return self.location.home / "postgres"

    @property
    def log(self) -> Path:
        return self.location.logs / "postgres.log"

    @property
    def socket(self) -> Path:
        return self.location.socket_dir / f".s.PGSQL.{PORT}"

    def answers(self) -> bool:
        """True if the server runs a statement (its own database may not be there yet)."""
        return self._runs_statement_in("postgres")

    def has_database(self) -> bool:
        """True if the server runs a statement in the project's database."""
        return self._runs_statement_in(DATABASE)

    def ensure_database(self) -> None:
        """Make the project's database if it is not there. Raises ServerStartError."""
        query = "SELECT 1 FROM pg_database WHERE datname = %s"
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE))
        try:
            with self._connect("postgres", limit_seconds=_DATABASE_SECONDS) as connection:
                if connection.execute(query, [DATABASE]).fetchone() is None:
                    connection.execute(statement)
        except psycopg.Error as error:
            raise self._failure(self.name, f"cannot make database {DATABASE}: {error}") from error

    def main_process(self) -> psutil.Process | None:
        """Answer the living postmaster of this location, whatever the pid file says."""
        family = self._family()
        pids = {process.pid for process in family}
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.ppid() not in pids and self._is_postmaster(process):
                    return process
        return None

    def launch(self, *, durable: bool) -> psutil.Process:
        """Start a postmaster; the caller has seen that none is alive.

        Raises MajorVersionMismatchError, BinariesNotFoundError, ServerStartError (initdb failed).
        """
        program = binaries.postgres(self.location.account)
        if not (self.data_dir / "PG_VERSION").is_file():
            self._initialise(program, durable=durable)
        self._refuse_other_major(program)
        self._clear_leftovers()
        settings = [
            "listen_addresses=",
            "unix_socket_permissions=0700",
            f"cluster_name={self.location.token}",  # in the title of every process
            "timezone=UTC",
            "log_timezone=UTC",
            *(() if durable else _NOT_DURABLE),
        ]
        argv = [str(program.path), "-D", str(self.data_dir), "-p", str(PORT)]
        argv += ["-k", str(self.location.socket_dir)]
        argv += [part for setting in settings for part in ("-c", setting)]
        return processes.start(argv, account=self.location.account, log=self.log)

    def halt(self, process: psutil.Process) -> None:
        """Stop the postmaster: fast, then immediate (which the next start recovers from).

        Raises ServerStopError if it stays.
        """
        for order in (signal.SIGINT, signal.SIGQUIT):
            if processes.end([process], by=order, within_seconds=_STOP_SECONDS):
                return
        raise ServerStopError(
            f"Postgres (pid {process.pid}, {self.data_dir}) did not stop. See {self.log}."
        )

    def stop(self) -> bool:
        """Stop whatever runs here; True if something did. Raises ServerStopError."""
        process = self.main_process()
        if process is not None:
            self.halt(process)
        return self._end_orphans() or process is not None

    def _connect(
        self, database: str, *, limit_seconds: int = _REQUEST_SECONDS
    ) -> psycopg.Connection[tuple[object, ...]]:
        # Each parameter is given, so that PG* variables of the environment change nothing.
        return psycopg.connect(
            host=str(self.location.socket_dir),
            port=PORT,
            user=SUPERUSER,
            dbname=database,
            connect_timeout=limit_seconds,
            sslmode="disable",
            gssencmode="disable",
            target_session_attrs="any",
            options="",
            autocommit=True,
        )

    def _runs_statement_in(self, database: str) -> bool:
        if not self.socket.exists():
            return False
        try:
            with self._connect(database) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    def _family(self) -> list[psutil.Process]:
        """Answer the postmaster and backends of this location, orphans included."""
        found = processes.find(self.location.token, account=self.location.account)
        return [process for process in found if self._is_postgres(process)]

    def _is_postgres(self, process: psutil.Process) -> bool:
        title = processes.command_line(process)
        return title.startswith("postgres: ") or self._is_postmaster(process)

    def _is_postmaster(self, process: psutil.Process) -> bool:
        # Children rename themselves to "postgres: ..."; the postmaster keeps its arguments.
        title = processes.command_line(process)
        return "/postgres -D " in title and f"cluster_name={self.location.token}" in title

    def _initialise(self, program: binaries.Program, *, durable: bool) -> None:
        """Make the data directory under another name, and give it its own when it is complete."""
        for leftover in self.data_dir.parent.glob("postgres.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        draft = self.data_dir.with_name(f"postgres.new-{secrets.token_hex(4)}")
        make_private_dir(draft, self.location.account)
        argv = [str(program.directory / "initdb"), "-D", str(draft), "-U", SUPERUSER]
        argv += ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums"]
        if not durable:
            argv.append("--no-sync")
        with processes.open_log(self.log) as stream:
            made = subprocess.run(
                argv,
                cwd="/",
                env=processes.server_environment(),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=_INITDB_SECONDS,
                check=False,
                **processes.identity_of(self.location.account),
            )
        if made.returncode != 0:
            shutil.rmtree(draft, ignore_errors=True)
            cause = f"failed with exit code {made.returncode} for {self.data_dir}"
            raise self._failure("initdb", cause)
        draft.rename(self.data_dir)

    def _failure(self, part: str, cause: str) -> ServerStartError:
        tail = processes.log_tail(self.log)
        return ServerStartError(server=part, cause=cause, log=self.log, log_tail=tail)

    def _refuse_other_major(self, program: binaries.Program) -> None:
        data_major = (self.data_dir / "PG_VERSION").read_text(encoding="ascii").strip()
        if data_major != program.major:
            raise MajorVersionMismatchError(
                data_dir=self.data_dir,
                data_major=data_major,
                binaries=program.directory,
                major=program.version,
            )

    def _clear_leftovers(self) -> None:
        """Remove what a killed postmaster left; no postmaster of this location is alive.

        Orphaned backends go first: two generations must never share a data directory. What they
        had acknowledged is in the write-ahead log already.
        """
        self._end_orphans()
        socket_lock = self.socket.with_name(f"{self.socket.name}.lock")
        for leftover in (self.data_dir / "postmaster.pid", self.socket, socket_lock):
            leftover.unlink(missing_ok=True)

    def _end_orphans(self) -> bool:
        """End backends without a postmaster; True if there were any. Raises ServerStopError."""
        if not self._family():
            return False
        for order in (signal.SIGQUIT, signal.SIGKILL):
            if processes.end(self._family(), by=order, within_seconds=_ORPHAN_SECONDS):
                return True
        raise ServerStopError(f"Orphaned backends of {self.data_dir} do not end.")
