"""Where the servers of one checkout keep their data and sockets.

Guarantees: every checkout has an identity of its own, made once and recorded in
``.contextgraph/location.json``; all paths of the servers contain it, so two checkouts, a copy of a
checkout, or a fresh clone at an old path never share a data directory or a socket. Socket paths
fit the 107 bytes of a Unix socket address and hold no character that a URL would quote.

Layout: ``<state>/<identity>/{postgres,valkey,run}``. Two things may lie elsewhere: the whole home
under ``/var/lib/contextgraph/<identity>`` if the servers' account cannot enter the checkout (root
with a 0700 directory above it), and the sockets in a short temporary directory.

Does not start anything and does not touch the data. Shaped by socket addresses cut at 107 bytes,
and by an old Postgres that unlinked the socket of its successor at the same path.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from contextgraph.embedded.account import (
    ServerAccount,
    account_for,
    admit,
    can_traverse,
    make_private_dir,
    open_private,
)
from contextgraph.embedded.errors import StateUnusableError
from contextgraph.embedded.lock import exclusive

STATE_DIR_ENV = "CONTEXTGRAPH_STATE_DIR"
RELOCATION_BASE = Path("/var/lib/contextgraph")
# sun_path holds 108 bytes with its NUL; the longest name put into a socket directory is
# ".s.PGSQL.5432" (its ".lock" is a file, not an address).
SOCKET_DIR_LIMIT_BYTES = 107 - len("/.s.PGSQL.5432")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/-]+")
_IDENTITY = re.compile(r"[0-9a-f]{10}")


@dataclass(frozen=True)
class Location:
    """The places of one checkout's servers, and the account they belong to."""

    state_dir: Path
    identity: str
    home: Path
    socket_dir: Path
    account: ServerAccount

    @property
    def token(self) -> str:
        """The word that every process of these servers carries in its command line."""
        return f"contextgraph-{self.identity}"

    @property
    def logs(self) -> Path:
        return self.state_dir / "logs"

    @property
    def reachable(self) -> bool:
        """True if the socket directory fits and, where it is a temporary one, is still ours."""
        return _sockets_usable(self.socket_dir, self.home, self.account)


@dataclass(frozen=True)
class _Record:
    """The content of location.json; places that follow from the rest are None."""

    identity: str
    relocated_to: str | None
    sockets: str | None
    state_dir: str
    inode: int


def state_dir_of(root: Path) -> Path:
    """Answer the state directory of a checkout, which need not exist."""
    return Path(os.environ.get(STATE_DIR_ENV) or root / ".contextgraph").absolute().resolve()


def find(root: Path) -> Location | None:
    """Answer the recorded location, or None if this checkout has none (yet, or any more).

    Its sockets may be unusable (see ``Location.reachable``). Writes nothing.
    Raises StateUnusableError if the record is there and cannot be read.
    """
    state_dir = state_dir_of(root)
    record = _read(state_dir)
    if record is None or _is_copy(record, state_dir):
        return None
    return _location(record, state_dir)


def resolve(root: Path) -> Location:
    """Answer the location, deciding and recording it on the first call.

    Raises StateUnusableError if the state directory cannot be made or entered.
    """
    found = find(root)
    if found is not None and found.reachable:
        return found
    state_dir = state_dir_of(root)
    try:
        make_state_dir(state_dir)
        with exclusive(state_dir / "location.lock", limit_seconds=10):
            found = find(root)
            return found if found is not None and found.reachable else _decide(state_dir)
    except OSError as error:
        raise StateUnusableError(
            f"Cannot keep the embedded servers' state in {state_dir}: {error}. "
            f"Run as its owner, or set {STATE_DIR_ENV} to a directory of your own."
        ) from error


def forget(location: Location) -> None:
    """Drop the record: the next ``resolve`` makes a new identity with empty data."""
    _record_path(location.state_dir).unlink(missing_ok=True)


def make_state_dir(state_dir: Path) -> None:
    """Make the state directory, and let the servers' account pass through it."""
    if not state_dir.is_dir():
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        own_like(state_dir, state_dir.parent)
    admit(state_dir, account_for(state_dir))


def own_like(path: Path, model: Path) -> None:
    """Give what root makes in another user's folder to that user, who could not use it otherwise."""
    if os.geteuid() == 0 and (owner := model.stat()).st_uid != 0:
        os.chown(path, owner.st_uid, owner.st_gid)


def make_logs_dir(state_dir: Path) -> Path:
    """Make the directory of the logs, which belongs to the owner of the state directory."""
    status = state_dir.stat()
    logs = state_dir / "logs"
    make_private_dir(logs, ServerAccount(status.st_uid, status.st_gid))
    return logs


def _decide(state_dir: Path) -> Location:
    """Make, or mend, the record. Runs under the lock."""
    account = account_for(state_dir)
    record = _read(state_dir)
    if record is None:
        record = _fresh_record(state_dir, account)
    elif _is_copy(record, state_dir):
        record = _record_of_copy(record, state_dir, account)
    home = _home(record, state_dir)
    if not can_traverse(home.parent, account):
        raise StateUnusableError(
            f"The servers run as user id {account.uid}, which may not enter {home.parent}. "
            f"Let it pass (chmod o+x) or set {STATE_DIR_ENV} to a directory that it may enter."
        )
    if not _sockets_usable(_sockets(record, home), home, account):
        record = replace(record, sockets=None)
        if not _fits(home / "run"):
            record = replace(record, sockets=str(_short_socket_dir(account)))
    record = replace(record, state_dir=str(state_dir), inode=state_dir.stat().st_ino)
    _write(record, state_dir)
    return _location(record, state_dir)


def _fresh_record(state_dir: Path, account: ServerAccount) -> _Record:
    identity = secrets.token_hex(5)
    relocated_to = None
    if not can_traverse(state_dir, account):
        relocated_to = str(make_relocation_base() / identity)
    return _Record(identity, relocated_to, None, str(state_dir), 0)


def make_relocation_base() -> Path:
    """Make the directory of root that every account may enter; only root calls this."""
    RELOCATION_BASE.mkdir(mode=0o755, exist_ok=True)
    if RELOCATION_BASE.lstat().st_uid != 0 or RELOCATION_BASE.is_symlink():
        raise StateUnusableError(f"{RELOCATION_BASE} does not belong to root: not used.")
    RELOCATION_BASE.chmod(0o755)
    return RELOCATION_BASE


def _record_of_copy(record: _Record, state_dir: Path, account: ServerAccount) -> _Record:
    """Give a copied checkout an identity of its own.

    Data inside the checkout was copied along and is kept. Data outside stays with the original,
    unless there is none any more (a checkout moved to another file system, a restored backup).
    """
    fresh = _fresh_record(state_dir, account)
    if record.relocated_to is None:
        copied_home = state_dir / record.identity
        if copied_home.is_dir():
            copied_home.rename(state_dir / fresh.identity)
        return replace(fresh, relocated_to=None)
    original = Path(record.state_dir)
    if original.is_dir() and original.stat().st_ino == record.inode:
        return fresh
    return record


def _is_copy(record: _Record, state_dir: Path) -> bool:
    # A renamed checkout keeps its inode, a restored one its path: only a copy changes both.
    return record.state_dir != str(state_dir) and record.inode != state_dir.stat().st_ino


def _location(record: _Record, state_dir: Path) -> Location:
    home = _home(record, state_dir)
    account = account_for(state_dir)
    return Location(state_dir, record.identity, home, _sockets(record, home), account)


def _home(record: _Record, state_dir: Path) -> Path:
    if record.relocated_to is None:
        return state_dir / record.identity
    return RELOCATION_BASE / record.identity


def _sockets(record: _Record, home: Path) -> Path:
    return home / "run" if record.sockets is None else Path(record.sockets)


def _sockets_usable(directory: Path, home: Path, account: ServerAccount) -> bool:
    if not _fits(directory):
        return False
    if directory.parent == home:
        return True  # inside the home, made when the servers start
    try:
        status = directory.lstat()
    except FileNotFoundError:
        return False  # temporary directories do not survive a reboot
    # Anybody may make a directory under /tmp: only a private one of the account is trusted.
    return (
        stat.S_ISDIR(status.st_mode) and status.st_uid == account.uid and not status.st_mode & 0o077
    )


def _fits(directory: Path) -> bool:
    text = str(directory)
    return len(os.fsencode(text)) <= SOCKET_DIR_LIMIT_BYTES and bool(_PLAIN_PATH.fullmatch(text))


def _short_socket_dir(account: ServerAccount) -> Path:
    for base in (Path(tempfile.gettempdir()).resolve(), Path("/tmp"), Path("/var/tmp")):  # noqa: S108 - mkdtemp makes a private, unguessable directory inside
        if base.is_dir() and can_traverse(base, account) and _fits(base / ("x" * 12)):
            directory = Path(tempfile.mkdtemp(prefix="cg-", dir=base))
            os.chown(directory, account.uid, account.gid)
            return directory
    raise StateUnusableError("No temporary directory is short enough for a Unix socket.")


def make_home(location: Location) -> None:
    """Make the directories of the servers that are not there yet."""
    status = location.state_dir.stat()
    owner = ServerAccount(status.st_uid, status.st_gid)
    make_private_dir(location.home, owner)
    admit(location.home, location.account)
    make_private_dir(location.socket_dir, location.account)
    make_logs_dir(location.state_dir)


def _record_path(state_dir: Path) -> Path:
    return state_dir / "location.json"


def _read(state_dir: Path) -> _Record | None:
    path = _record_path(state_dir)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        record = _Record(**content)
        if not _IDENTITY.fullmatch(record.identity):
            raise ValueError(f"identity {record.identity!r}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise StateUnusableError(
            f"{path} cannot be read ({error}). Run as the owner of {state_dir}; if the file is "
            f"damaged, restore its 'identity' from the name of the data directory."
        ) from error
    return record


def _write(record: _Record, state_dir: Path) -> None:
    path = _record_path(state_dir)
    draft = path.with_suffix(f".{secrets.token_hex(4)}")
    with open_private(draft, os.O_WRONLY | os.O_EXCL) as stream:
        stream.write(json.dumps(vars(record), indent=2).encode())
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(path)
