"""Under whose name the servers run, and who may look at what they keep.

Guarantees: Postgres and Valkey never run as root; a plain user runs them as itself; root runs them
as the owner of the state directory, or as ``nobody`` when that owner is root. No account is
created and no mode of a parent directory is changed, because a database start must not loosen
the machine it runs on. Files made here are 0600, directories 0700 (or 0710 for the group of the
servers, where they have to pass through).

Does not guarantee that an account may pass: mode bits are read here, access control lists are not.

Shaped by wrappers that run ``useradd`` and ``chmod o+rx`` on every directory up to ``/``.
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from contextgraph.embedded.errors import StateUnusableError

if TYPE_CHECKING:
    from pathlib import Path

UNPRIVILEGED_ACCOUNT = "nobody"


@dataclass(frozen=True)
class ServerAccount:
    """The user and group ids that the servers run under."""

    uid: int
    gid: int

    @property
    def is_self(self) -> bool:
        """True if no change of user is needed to act as this account."""
        return self.uid == os.geteuid()


def account_for(state_dir: Path) -> ServerAccount:
    """Answer the account for the servers of an existing state directory.

    Raises StateUnusableError if root finds no unprivileged account to use.
    """
    if os.geteuid() != 0:
        return ServerAccount(os.geteuid(), os.getegid())
    owner = state_dir.stat()
    if owner.st_uid != 0:
        return ServerAccount(owner.st_uid, owner.st_gid)
    try:
        entry = pwd.getpwnam(UNPRIVILEGED_ACCOUNT)
    except KeyError:
        raise StateUnusableError(
            f"Postgres refuses to run as root and this machine has no account "
            f"'{UNPRIVILEGED_ACCOUNT}'. Run as a plain user, or set DATABASE_URL."
        ) from None
    return ServerAccount(entry.pw_uid, entry.pw_gid)


def can_traverse(directory: Path, account: ServerAccount) -> bool:
    """True if the mode bits let the account pass from ``/`` into the directory."""
    if account.uid == 0:
        return True
    return all(_may_enter(place.stat(), account) for place in (directory, *directory.parents))


def _may_enter(status: os.stat_result, account: ServerAccount) -> bool:
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def admit(directory: Path, account: ServerAccount) -> None:
    """Let the account pass through a directory that root owns, and nobody else.

    The directory itself only, never a parent.
    """
    status = directory.stat()
    if os.geteuid() != 0 or status.st_uid != 0 or _may_enter(status, account):
        return
    os.chown(directory, 0, account.gid)
    directory.chmod(stat.S_IMODE(status.st_mode) | stat.S_IXGRP)


def make_private_dir(directory: Path, account: ServerAccount) -> None:
    """Make a 0700 directory that belongs to the account; an existing one is left as it is."""
    if directory.is_dir():
        return
    directory.mkdir(mode=0o700)
    if not account.is_self:
        os.chown(directory, account.uid, account.gid, follow_symlinks=False)


def open_private(path: Path, flags: int) -> IO[bytes]:
    """Open a 0600 file that the owner of its directory can open again.

    Root may work in the state directory of a plain user; a file left there as root's would lock
    that user out of the own checkout. Symbolic links are refused for the same reason reversed.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    owner = path.parent.stat()
    if os.geteuid() == 0 and os.fstat(descriptor).st_uid != owner.st_uid:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return os.fdopen(descriptor, "ab" if flags & os.O_APPEND else "wb")
