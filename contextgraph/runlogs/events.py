"""Reader of the upstream event log: JSON lines, one event each, one or more runs in a file.

Guarantees: two passes over the file, both line by line; records of a run come out while it is read; each
line that is no event is counted as a hazard of the run it stands in.

Does not guarantee: anything about a file that changes while it is read.

Shaped by: 30 MB logs of 19-hour runs, appended to by a process that may be killed at any byte.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO

from contextgraph.envelope import EnvelopeError
from contextgraph.runlogs.errors import RunLogError
from contextgraph.runlogs.hazards import Hazard, HazardTally
from contextgraph.runlogs.lines import UTF8_MARK, decode, raw_lines
from contextgraph.runlogs.run_reading import RunReading
from contextgraph.runlogs.survey import survey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contextgraph.envelope import Record
    from contextgraph.runlogs.side_file import SideFile
    from contextgraph.runlogs.survey import RunIdentity


class EventLogReader:
    """Yields the records of an event log; see :func:`contextgraph.runlogs.open_run_log`."""

    format = "events"

    def __init__(
        self,
        stream: BinaryIO,
        *,
        side_file: SideFile | None = None,
        skill: str | None = None,
        name: str | None = None,
    ) -> None:
        self.tally = HazardTally()
        self._stream = stream
        self._side_file = side_file
        self._skill = skill
        self._name = name

    def records(self) -> Iterator[Record]:
        """Yield RunHeader … RunFooter for each run, in file order.

        Raises:
            RunLogError: a run without id, skill or any timestamp (before the first record), an id
                that the wire schema refuses, or corrupt compressed data.
        """
        self._line = 1
        try:
            yield from self._records()
        except RunLogError:
            raise
        except EnvelopeError as error:
            raise RunLogError(str(error), place=f"line {self._line}") from None

    def _records(self) -> Iterator[Record]:
        first, *others = survey(self._stream, skill=self._skill, name=self._name)
        starts = {run.first_line: run for run in others}
        reading = self._begin(first)
        yield reading.header()
        for raw in raw_lines(self._stream):
            self._line = raw.number
            if (run := starts.get(raw.number)) is not None:
                yield from reading.finish()
                reading = self._begin(run)
                yield reading.header()
            event = decode(raw)
            if isinstance(event, Hazard):
                reading.problem(event, raw.number)
            else:
                yield from reading.feed(event)
        yield from reading.finish()

    def _begin(self, run: RunIdentity) -> RunReading:
        reading = RunReading(run, self._side_file)
        self.tally = reading.tally
        return reading


def recognises(head: bytes) -> bool:
    """True when one of the whole lines in *head* is an event, or its only line begins like one."""
    lines = head.removeprefix(UTF8_MARK).split(b"\n")
    if len(lines) == 1:
        return b'"event_type"' in lines[0]
    return any(_is_event(line) for line in lines if b'"event_type"' in line)


def _is_event(line: bytes) -> bool:
    try:
        document = json.loads(line.strip(b"\x00\r\n\t "))
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and isinstance(document.get("event_type"), str)
