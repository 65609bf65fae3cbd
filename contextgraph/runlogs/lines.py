"""Bytes of an event log -> events, one line at a time, whatever the bytes are.

Guarantees: memory is bounded by ``MAX_LINE`` whatever the file holds; each non-blank line comes out as an
event or as a named problem with its number; strings that JSON allows and Postgres does not (NaN) become
text. A UTF-8 byte-order mark, CRLF and gzip are read as if they were not there.

Does not guarantee: that an event means anything; only its four outer fields have been looked at.

Shaped by: logs whose last line is cut by a kill, host crashes that leave runs of NUL bytes, and a
serializer bug that put whole object dumps into one line.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from contextgraph.runlogs.errors import RunLogError
from contextgraph.runlogs.hazards import Hazard

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINE = 8 * 1024 * 1024
"""Longest line read, in bytes. Upstream's largest events (graph states) are a few hundred kB."""

MAX_DEPTH = 64
"""Deepest nesting accepted, so that no later recursion over an event can overflow the stack."""

GZIP_MAGIC = b"\x1f\x8b"
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(slots=True)
class RawLine:
    """One line without its line end. ``problem`` is set when the bytes cannot be used as they are."""

    number: int
    content: bytes
    ended: bool = True
    problem: Hazard | None = None


@dataclass(slots=True)
class Event:
    """One event. ``at`` is None when the timestamp is unreadable; *notes* are hazards of the line."""

    line: int
    kind: str
    agent: str
    at: datetime | None
    data: dict[str, Any]
    notes: tuple[Hazard, ...] = ()

    @property
    def repaired(self) -> bool:
        """True when bytes of the line had to be replaced."""
        return Hazard.BAD_UTF8 in self.notes


def unpacked(stream: BinaryIO, *, name: str = "") -> BinaryIO:
    """Return *stream* at its start, decompressing when it begins with the gzip magic.

    *name* is the place that a refusal names, when the stream is not the log itself.

    Raises:
        RunLogError: the stream is empty or UTF-16.
    """
    stream.seek(0)
    magic = stream.read(2)
    stream.seek(0)
    if not magic:
        raise RunLogError("the file is empty", place=name, mend="copy the log again")
    if magic in UTF16_MARKS:
        raise RunLogError("the file is UTF-16", place=name, mend="convert it to UTF-8")
    if magic == GZIP_MAGIC:
        return cast("BinaryIO", gzip.GzipFile(fileobj=stream, mode="rb"))
    return stream


def raw_lines(stream: BinaryIO) -> Iterator[RawLine]:
    """Yield the non-blank lines of *stream* from its start, numbered from 1.

    Raises:
        RunLogError: the compressed data is corrupt in the middle.
    """
    number = 0
    try:
        stream.seek(0)
        while chunk := stream.readline(MAX_LINE + 1):
            number += 1
            ended = chunk.endswith(b"\n")
            if not ended and len(chunk) > MAX_LINE:
                del chunk  # the rest may be as long again
                _skip_line(stream)
                yield RawLine(number, b"", problem=Hazard.LINE_TOO_LONG)
                continue
            if number == 1:
                chunk = chunk.removeprefix(UTF8_MARK)
            if chunk := chunk.strip(b" \t\r\n"):
                yield RawLine(number, chunk, ended=ended)
    except EOFError:
        # The compressed stream has no end: whatever stood after this point is lost.
        yield RawLine(number + 1, b"", ended=False, problem=Hazard.LAST_LINE_CUT)
    except (zlib.error, gzip.BadGzipFile) as error:
        raise RunLogError(
            f"the compressed data is corrupt: {error}",
            place=f"line {number + 1}",
            mend="copy the file again",
        ) from None


def _skip_line(stream: BinaryIO) -> None:
    while chunk := stream.readline(64 * 1024):
        if chunk.endswith(b"\n"):
            return


def decode(raw: RawLine) -> Event | Hazard:
    """Return the event on a line, or the hazard that the line is."""
    if raw.problem is not None:
        return raw.problem
    notes: list[Hazard] = []
    content = raw.content.strip(b"\x00")
    if content != raw.content:
        notes.append(Hazard.NUL_BYTES)
        if not content:
            return Hazard.NUL_BYTES
    document = _loads(content, notes)
    if document is None:
        return Hazard.BAD_LINE if raw.ended else Hazard.LAST_LINE_CUT
    kind, data, agent = (document.get(name) for name in ("event_type", "data", "agent"))
    if not isinstance(kind, str) or not isinstance(data, dict | None):
        return Hazard.BAD_LINE
    at = moment(document.get("timestamp"), notes)
    return Event(
        line=raw.number,
        kind=kind,
        agent=agent if isinstance(agent, str) else "",
        at=at,
        data=data or {},
        notes=tuple(notes),
    )


def _loads(content: bytes, notes: list[Hazard]) -> dict[str, Any] | None:
    """Decode a JSON object; None when it is none. Bad UTF-8 is replaced and noted."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode(errors="replace")
        notes.append(Hazard.BAD_UTF8)
    try:
        # NaN and Infinity are Python's extension of JSON; jsonb has no such numbers.
        document = json.loads(text, parse_constant=str, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or _too_deep(document, content):
        return None
    return document


def _finite(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits


def _too_deep(document: dict[str, Any], content: bytes) -> bool:
    if content.count(b"{") + content.count(b"[") <= MAX_DEPTH:
        return False
    layer: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        layer = [
            child
            for node in layer
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not layer:
            return False
    return True


def moment(value: object, notes: list[Hazard] | None = None) -> datetime | None:
    """Parse an ISO-8601 timestamp; one without an offset is UTC by the log's contract, and noted."""
    notes = [] if notes is None else notes
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else None
        if parsed is not None and parsed.tzinfo is None:
            notes.append(Hazard.TIMESTAMP_WITHOUT_OFFSET)
            parsed = parsed.replace(tzinfo=UTC)
        # Offsets near year 1 or 9999 cannot be compared in UTC; such a time is no time.
        return parsed.astimezone(UTC) if parsed is not None else None
    except (ValueError, OverflowError):
        return None
