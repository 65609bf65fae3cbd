"""What can go wrong with the embedded servers, one type per mend.

Every message names the file or directory, the cause and what to do about it, because these errors
meet people on their first minute with the project. None of them is raised for a server that is
merely down: starting it is the job of ``ensure_started``.

    EmbeddedError
    +-- BinariesNotFoundError      no usable Postgres or Valkey program on this machine
    +-- MajorVersionMismatchError  the data directory was made by another Postgres major version
    +-- StateUnusableError         the state directory cannot hold the servers (owner, mode, lock)
    +-- ServerStartError           a server did not answer in time; carries the tail of its log
    +-- ServerStopError            a server did not leave in time
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class EmbeddedError(RuntimeError):
    """Base of every error of the embedded servers."""


class BinariesNotFoundError(EmbeddedError):
    """No program for a server was found, or the one that was asked for by name is not there."""


class MajorVersionMismatchError(EmbeddedError):
    """Postgres opens only data directories of its own major version."""

    def __init__(self, *, data_dir: Path, data_major: str, binaries: Path, major: str) -> None:
        self.data_dir = data_dir
        self.data_major = data_major
        self.major = major
        super().__init__(
            f"The data directory {data_dir} was made by Postgres {data_major}, but {binaries} is "
            f"Postgres {major}. Either set EMBED_PG_BIN to the bin directory of a Postgres "
            f"{data_major}, or dump with {data_major} and restore into {major}, or remove the "
            f"directory to start with an empty database."
        )


class StateUnusableError(EmbeddedError):
    """The state directory cannot be read, locked or handed to the servers' account."""


class ServerStartError(EmbeddedError):
    """A server did not answer within the limit.

    ``log_tail`` is what the server wrote since the start, as text of unknown content.
    """

    def __init__(self, *, server: str, cause: str, log: Path, log_tail: str) -> None:
        self.server = server
        self.log = log
        self.log_tail = log_tail
        super().__init__(f"{server} {cause}. The end of {log}:\n{log_tail or '(empty)'}")


class ServerStopError(EmbeddedError):
    """A server is still alive after every signal that may be sent to it."""
