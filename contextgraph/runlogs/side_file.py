"""The optional side file of a run log: full tip texts and uncut scripts that the log does not hold.

Format: JSON lines, each either ``{"tip": id, "text": "..."}`` (other tip fields allowed) or
``{"rule_id": "...", "attempt": n, "script": "..."}``; gzip allowed.

Guarantees: texts stay on disk; memory holds one file offset per line. A script is only handed out when it
continues what the log holds, so a side file of another run cannot replace anything.

Does not guarantee: that a text without a counterpart in the log is the true one; its sender says so.

Shaped by: a log format that cuts scripts at 200 characters and names retrieved tips by number only.
"""

from __future__ import annotations

import json
import tempfile
import weakref
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from contextgraph.envelope import storable
from contextgraph.runlogs.errors import RunLogError
from contextgraph.runlogs.lines import MAX_LINE, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contextgraph.runlogs.scripts import LoggedScript

_LINE_FORMATS = '{"tip": ..., "text": ...} or {"rule_id": ..., "attempt": ..., "script": ...}'


class SideFile:
    """Random access to the texts of a side file.

    Raises:
        RunLogError: a line is not one of the two forms. A side file is written on purpose, by hand or by
            a script, so a bad line is a mistake to mend and not a hazard of the run.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = _seekable(stream)
        if self._stream is not stream:
            weakref.finalize(self, self._stream.close)
        self._tips: dict[str, int] = {}
        self._scripts: dict[tuple[str, int], list[int]] = {}
        for number, offset, line in self._lines():
            self._index(number, offset, line)

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        self._stream.seek(0)
        number, offset = 0, 0
        while line := self._stream.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise _refusal(number, f"longer than {MAX_LINE} bytes")
            if line.strip(b"\xef\xbb\xbf \t\r\n"):
                yield number, offset, line
            offset += len(line)

    def _index(self, number: int, offset: int, line: bytes) -> None:
        try:
            entry = _decoded(line)
        except (ValueError, RecursionError) as error:
            raise _refusal(number, f"not JSON: {error}") from None
        match entry:
            case {"tip": str() | int() as tip, "text": str()} if not isinstance(tip, bool):
                self._tips.setdefault(storable(str(tip)), offset)
            case {"rule_id": str() as rule, "attempt": int() as attempt, "script": str()}:
                self._scripts.setdefault((storable(rule), attempt), []).append(offset)
            case _:
                raise _refusal(number, f"neither {_LINE_FORMATS}")

    def _entry(self, offset: int) -> dict[str, Any]:
        self._stream.seek(offset)
        return cast("dict[str, Any]", _decoded(self._stream.readline(MAX_LINE + 1)))

    def tip(self, tip: str) -> dict[str, Any] | None:
        """The side file's entry for a tip id (first one wins), or None."""
        offset = self._tips.get(tip)
        return None if offset is None else self._entry(offset)

    def has_script(self, rule_id: str, attempt: int) -> bool:
        """True when the side file names this attempt (the log's own number)."""
        return (rule_id, attempt) in self._scripts

    def script(self, rule_id: str, attempt: int, logged: LoggedScript | None) -> str | None:
        """The full script of an attempt, or None when no line of the side file fits the log.

        Several lines for one number (a rule that was taken up again) are told apart by how they begin;
        with no script in the log they cannot be, and none is given.
        """
        offsets = self._scripts.get((rule_id, attempt), [])
        if logged is None:
            return str(self._entry(offsets[0])["script"]) if len(offsets) == 1 else None
        texts = (str(self._entry(offset)["script"]) for offset in offsets)
        fits = str.startswith if logged.truncated else str.__eq__
        return next((text for text in texts if fits(text, logged.text)), None)


def _decoded(line: bytes) -> Any:
    return json.loads(line.removeprefix(b"\xef\xbb\xbf"), parse_constant=str)


def _refusal(number: int, cause: str) -> RunLogError:
    return RunLogError(
        cause, place=f"side file, line {number}", mend=f"write each line as {_LINE_FORMATS}"
    )


def _seekable(stream: BinaryIO) -> BinaryIO:
    """Seeking back in gzip means decompressing from the start, so unpack once, to disk."""
    plain = unpacked(stream, name="side file")
    if plain is stream:
        return stream
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the SideFile is collected
    try:
        while chunk := plain.read(1 << 20):
            spool.write(chunk)
    except (EOFError, OSError, zlib.error) as error:
        spool.close()
        raise RunLogError(
            f"the compressed data is incomplete: {error}", place="side file", mend="copy it again"
        ) from None
    return cast("BinaryIO", spool)
