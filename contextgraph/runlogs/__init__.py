"""Run-log readers: a file in one of several formats -> the record stream of ``contextgraph.envelope``.

Guarantees: each reader streams; what it doubts or leaves out is a counted hazard, what it cannot give a
meaning is a :class:`RunLogError` that names the line. No Django, no database.

Does not guarantee: that a run is new, or its tips known: intake decides that.

Shaped by: an upstream parser that knew one skill's argument name and called every other log empty. A
new format is one module and one entry in ``FORMATS``.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from contextgraph.runlogs import envelope_file, events
from contextgraph.runlogs.errors import RunLogError, UnknownRunLogVersion
from contextgraph.runlogs.hazards import Hazard, HazardTally
from contextgraph.runlogs.lines import unpacked
from contextgraph.runlogs.side_file import SideFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from contextgraph.envelope import Record

__all__ = [
    "FORMATS",
    "Hazard",
    "HazardTally",
    "RunLogError",
    "RunLogReader",
    "UnknownRunLogVersion",
    "open_run_log",
]

_HEAD = 64 * 1024


class RunLogReader(Protocol):
    """``tally`` belongs to the run being read: it is whole when that run's footer has come."""

    format: str
    tally: HazardTally

    def records(self) -> Iterator[Record]:
        """Yield one or more runs in sequence: RunHeader … RunFooter, RunHeader … RunFooter."""
        ...


class _ReaderClass(Protocol):
    def __call__(
        self, stream: BinaryIO, *, side_file: SideFile | None, skill: str | None, name: str | None
    ) -> RunLogReader: ...


class Format(NamedTuple):
    """How a format is told by the first bytes of a file, and who reads it."""

    recognises: Callable[[bytes], bool]
    reader: _ReaderClass


FORMATS: dict[str, Format] = {
    "envelope": Format(envelope_file.recognises, envelope_file.EnvelopeFileReader),
    "events": Format(events.recognises, events.EventLogReader),
}
"""Readers by name, in the order in which they are asked whether a file is theirs."""


def open_run_log(
    stream: BinaryIO,
    *,
    format: str = "auto",
    side_file: BinaryIO | None = None,
    skill: str | None = None,
    name: str | None = None,
) -> RunLogReader:
    """Return the reader for *stream*, which must be seekable; gzip is unpacked on the way.

    Args:
        format: a key of ``FORMATS``, or "auto" to decide by the first 64 KiB.
        side_file: full tip texts and uncut scripts, see :mod:`contextgraph.runlogs.side_file`.
        skill: for runs whose log names no skill; a log that names one keeps its own.
        name: external id for runs whose log names none; the file's name is a good one.

    Raises:
        RunLogError: unknown or unrecognised format, empty file, or a side file that is not one.
    """
    if format not in ("auto", *FORMATS):
        raise RunLogError(f"unknown format {format!r}", mend=f"one of: {', '.join(FORMATS)}")
    plain = unpacked(stream)
    chosen = _recognised(plain) if format == "auto" else format
    side = SideFile(side_file) if side_file is not None else None
    return FORMATS[chosen].reader(plain, side_file=side, skill=skill, name=name)


def _recognised(stream: BinaryIO) -> str:
    head = _head(stream)
    for name, candidate in FORMATS.items():
        if candidate.recognises(head):
            return name
    if not head.strip():
        raise RunLogError("the file is empty", mend="copy the log again")
    raise RunLogError(
        "neither an event log nor an envelope",
        place="line 1",
        mend="pass --format if it is one all the same",
    )


def _head(stream: BinaryIO) -> bytes:
    """The first bytes; of compressed data that ends too early, as much as there is."""
    head = b""
    try:
        while len(head) < _HEAD and (chunk := stream.read(1024)):
            head += chunk
    except (EOFError, OSError, zlib.error) as error:
        if not head:
            cause = f"the compressed data is unreadable: {error}"
            raise RunLogError(cause, mend="copy it again") from None
    stream.seek(0)
    return head
