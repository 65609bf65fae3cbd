"""Start, find and stop the Postgres and the Valkey of a checkout.

Guarantees: ``ensure_started`` may be called by any number of processes at any time and ends with
exactly one answering pair; the servers outlive the command that started them and are adopted by
the next one; data is kept until ``remove``. ``endpoints`` and ``status`` start nothing.

Does not watch the servers: one that dies later is started again by the next ``ensure_started``.

Shaped by servers that died with the terminal, and by two starters that raced for one directory.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from contextgraph.embedded import location as locations
from contextgraph.embedded.errors import StateUnusableError
from contextgraph.embedded.lock import exclusive
from contextgraph.embedded.postgres import DATABASE, PORT, SUPERUSER, Postgres
from contextgraph.embedded.startup import START_LIMIT_SECONDS, bring_up
from contextgraph.embedded.valkey import Valkey

if TYPE_CHECKING:
    from pathlib import Path

    from contextgraph.embedded.location import Location

# Another starter may need its limit for both servers, once more after a crash.
_LOCK_SECONDS = 4 * START_LIMIT_SECONDS


@dataclass(frozen=True)
class Endpoints:
    """Where clients find the servers of a checkout."""

    database_url: str
    broker_url: str
    result_backend: str


@dataclass(frozen=True)
class ServerStatus:
    """What is known about one server; pid and start are None when it does not run."""

    name: str
    answers: bool
    pid: int | None
    started_at: datetime | None
    data_dir: Path | None
    log: Path | None


@dataclass(frozen=True)
class PairStatus:
    """What is known about both servers of a checkout."""

    postgres: ServerStatus
    valkey: ServerStatus

    @property
    def up(self) -> bool:
        """True if both answered just now."""
        return self.postgres.answers and self.valkey.answers


def endpoints(root: Path) -> Endpoints:
    """Answer where the servers of a checkout listen, or will once they are started.

    Raises StateUnusableError if the state directory cannot be used.
    """
    return _endpoints(locations.resolve(root))


def ensure_started(root: Path, *, durable: bool = True) -> Endpoints:
    """Return when both servers of a checkout answer, starting what is down.

    ``durable=False`` switches off the waiting for the disk, for throw-away data only; it concerns
    the servers started by this call. Raises an EmbeddedError that says what to do.
    """
    location = locations.resolve(root)
    postgres, valkey = Postgres(location), Valkey(location)
    if not (postgres.has_database() and valkey.answers()):
        try:
            with exclusive(_lock_path(location), limit_seconds=_LOCK_SECONDS):
                locations.make_home(location)
                bring_up(postgres, durable=durable)
                postgres.ensure_database()
                bring_up(valkey, durable=durable)
        except OSError as error:
            raise StateUnusableError(
                f"Cannot start the servers of {location.state_dir}: {error}. If it belongs to "
                f"another user, run as that user or set {locations.STATE_DIR_ENV}."
            ) from error
    return _endpoints(location)


def stop(root: Path) -> tuple[str, ...]:
    """Stop the servers of a checkout and wait for their end; answer the names of those that ran.

    Raises ServerStopError, or StateUnusableError if a start or stop is under way for too long.
    """
    location = locations.find(root)
    if location is None:
        return ()
    with exclusive(_lock_path(location), limit_seconds=_LOCK_SECONDS):
        return tuple(
            server.name for server in (Postgres(location), Valkey(location)) if server.stop()
        )


def status(root: Path) -> PairStatus:
    """Answer what runs, without starting or writing anything."""
    location = locations.find(root)
    if location is None:
        return PairStatus(_absent(Postgres.name), _absent(Valkey.name))
    postgres, valkey = Postgres(location), Valkey(location)
    return PairStatus(
        _status(postgres, answers=location.reachable and postgres.has_database()),
        _status(valkey, answers=location.reachable and valkey.answers()),
    )


def remove(root: Path) -> None:
    """Stop the servers of a checkout and delete their data, wherever it lies. There is no way back.

    The logs stay. Raises ServerStopError; then nothing is deleted.
    """
    location = locations.find(root)
    if location is None:
        return
    stop(root)
    with exclusive(_lock_path(location), limit_seconds=_LOCK_SECONDS):
        locations.forget(location)
        if location.reachable and location.socket_dir.is_dir():
            shutil.rmtree(location.socket_dir)
        if location.home.is_dir():
            shutil.rmtree(location.home)


def _endpoints(location: Location) -> Endpoints:
    sockets = quote(str(location.socket_dir))
    valkey = f"redis+socket://{quote(str(Valkey(location).socket))}"
    return Endpoints(
        database_url=f"postgresql://{SUPERUSER}@/{DATABASE}?host={sockets}&port={PORT}",
        broker_url=f"{valkey}?virtual_host=0",
        result_backend=f"{valkey}?virtual_host=1",
    )


def _lock_path(location: Location) -> Path:
    return location.state_dir / "servers.lock"


def _status(server: Postgres | Valkey, *, answers: bool) -> ServerStatus:
    process = server.main_process()
    started = None if process is None else datetime.fromtimestamp(process.create_time(), tz=UTC)
    pid = None if process is None else process.pid
    return ServerStatus(server.name, answers, pid, started, server.data_dir, server.log)


def _absent(name: str) -> ServerStatus:
    return ServerStatus(name, answers=False, pid=None, started_at=None, data_dir=None, log=None)
