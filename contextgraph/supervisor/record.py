"""What a supervisor wrote down about itself, and what another terminal may do with it.

Guarantees: ``.contextgraph/supervisor.json`` names processes by pid and start mark (boot and clock
tick), and nothing is signalled or reported as running unless both still match; a record left by
``kill -9`` is therefore harmless. It is replaced whole, never half written.

Does not find processes that no record names.

Shaped by pid files whose number had been given to somebody else.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from contextgraph.embedded.account import open_private
from contextgraph.embedded.location import state_dir_of
from contextgraph.embedded.processes import start_mark

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_POLL_SECONDS = 0.05
_MARGIN_SECONDS = 10.0


class UnstoppableError(RuntimeError):
    """Processes of this checkout are still there after SIGKILL (in the kernel, or not ours)."""


@dataclass(frozen=True)
class ChildStatus:
    """A supervised process as it was last written down; ``pid`` is None between two starts."""

    name: str
    pid: int | None
    mark: str | None
    starts: int

    @property
    def alive(self) -> bool:
        """True if the very process that was written down runs now."""
        return self.pid is not None and self.mark is not None and start_mark(self.pid) == self.mark


@dataclass(frozen=True)
class SupervisorStatus:
    """A supervisor as it was last written down; ``started_at`` in seconds since the epoch."""

    pid: int
    mark: str
    started_at: float
    grace_seconds: float
    children: tuple[ChildStatus, ...]

    @property
    def alive(self) -> bool:
        """True if the very supervisor that was written down runs now."""
        return start_mark(self.pid) == self.mark

    @property
    def living_children(self) -> tuple[ChildStatus, ...]:
        return tuple(child for child in self.children if child.alive)


def record_path(state_dir: Path) -> Path:
    """Answer where the record of a state directory lies."""
    return state_dir / "supervisor.json"


def write(state_dir: Path, status: SupervisorStatus) -> None:
    """Replace the record."""
    path = record_path(state_dir)
    draft = path.with_suffix(f".{secrets.token_hex(4)}")
    with open_private(draft, os.O_WRONLY | os.O_EXCL) as stream:
        stream.write(json.dumps(asdict(status), indent=2).encode())
    draft.replace(path)


def running(root: Path) -> SupervisorStatus | None:
    """Answer the supervisor of a checkout, or None if neither it nor a child of it runs.

    A status whose ``alive`` is False means children that outlived a killed supervisor.
    """
    status = _read(state_dir_of(root))
    if status is None or not (status.alive or status.living_children):
        return None
    return status


def stop(root: Path) -> bool:
    """Stop the supervisor of a checkout and its children; False if there was nothing to stop.

    Gives them their period of grace, then kills. Raises UnstoppableError if that does not help.
    """
    status = running(root)
    if status is None:
        return False
    # A supervisor that is asked to stop ends its own children, in its own time.
    _end([status], status.grace_seconds + _MARGIN_SECONDS)
    last_words = _read(state_dir_of(root))
    if last_words is not None and last_words.mark == status.mark:
        status = last_words  # it did not get to remove its record, so it left its children
    _end(status.living_children, status.grace_seconds)
    if status.alive or status.living_children:
        pids = [status.pid, *(child.pid for child in status.living_children)]
        raise UnstoppableError(f"Still running after SIGKILL: pids {pids}. Are they yours?")
    if last_words is not None and last_words.mark == status.mark:
        record_path(state_dir_of(root)).unlink(missing_ok=True)
    return True


def _end(targets: Sequence[ChildStatus | SupervisorStatus], grace_seconds: float) -> None:
    """End processes with SIGTERM, and after the period of grace with SIGKILL."""
    for order, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, _MARGIN_SECONDS)):
        for target in targets:
            if target.alive and target.pid is not None and target.mark is not None:
                _signal(target.pid, target.mark, order)
        deadline = time.monotonic() + seconds
        while any(target.alive for target in targets) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


def _signal(pid: int, mark: str, order: signal.Signals) -> None:
    """Signal a process by a handle that is checked after it was taken: no other can be hit."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(pid)
        try:
            if start_mark(pid) == mark:
                if order is signal.SIGKILL and os.getpgid(pid) == pid:
                    os.killpg(pid, order)
                else:
                    signal.pidfd_send_signal(handle, order)
        finally:
            os.close(handle)


def _read(state_dir: Path) -> SupervisorStatus | None:
    try:
        content = json.loads(record_path(state_dir).read_text(encoding="utf-8"))
        children = tuple(ChildStatus(**child) for child in content.pop("children"))
        return SupervisorStatus(**content, children=children)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # not a record of ours: it names nobody that could be stopped
