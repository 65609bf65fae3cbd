"""A first, cheap pass over an event log: where runs begin, and who they are.

Guarantees: one :class:`RunIdentity` per run, in file order, before anything is emitted: a log without an
identity is refused while nothing has been stored. Only lines that can matter are decoded.

Does not guarantee: that the rest of the log can be read.

Shaped by: logs that name their skill after their id, name the database's run id only at the end, and may
hold two runs because they are opened in append mode. Guessing a run by its file's time picked the
wrong run upstream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from contextgraph.runlogs.errors import RunLogError
from contextgraph.runlogs.fields import Fields
from contextgraph.runlogs.hazards import Hazard
from contextgraph.runlogs.lines import Event, decode, raw_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

MAX_RUNS = 10_000
"""Runs in one file beyond which the file is refused; a real file holds one, by accident two."""

_MARKERS = (b"run_start", b"skill_manifest", b"consolidation_complete", b"run_complete")
_ATTEMPT = b'"attempt_start"'


@dataclass(slots=True)
class RunIdentity:
    """What is known about a run before it is read. ``first_line`` is where it begins."""

    first_line: int
    external_id: str = ""
    skill: str = ""
    sender_run_id: str = ""
    started_at: datetime | None = None
    start_data: dict[str, Any] = field(default_factory=dict)
    has_start: bool = False
    closed: bool = False
    attempted: bool = False
    hazards: list[Hazard] = field(default_factory=list)

    def repeats(self, external_id: str) -> bool:
        """True when a start event with this id only repeats the one that opened the run."""
        untouched = not self.closed and not self.attempted
        return untouched and bool(external_id) and external_id == self.external_id


def survey(stream: BinaryIO, *, skill: str | None, name: str | None) -> list[RunIdentity]:
    """Return the runs of an event log, each with an external id, a skill and a start time.

    Args:
        skill: used for runs whose log names none.
        name: used as external id for runs whose log has none.

    Raises:
        RunLogError: no event at all, or a run without id, skill or any timestamp.
    """
    runs = _segments(stream)
    if not runs:
        raise RunLogError("no line of the file is an event", mend="is this a run log?")
    seen: set[tuple[str, str]] = set()
    for position, run in enumerate(runs):
        _complete(run, position, skill=skill, name=name)
        if (run.skill, run.external_id) in seen:
            run.hazards.append(Hazard.RUN_ID_REPEATED)
        seen.add((run.skill, run.external_id))
    return runs


def _segments(stream: BinaryIO) -> list[RunIdentity]:
    runs: list[RunIdentity] = []
    for event in _candidates(stream, runs):
        if event.kind == "run_start":
            run_id = Fields(event.data, _ignore).key("run_id")
            if not runs or _begins(runs[-1], run_id, first=len(runs) == 1):
                runs.append(RunIdentity(first_line=event.line))
                if len(runs) > MAX_RUNS:
                    raise RunLogError(
                        f"more than {MAX_RUNS} runs in one file",
                        place=f"line {event.line}",
                        mend="split the file at its run_start events",
                    )
            _open(runs[-1], event, run_id)
        elif not runs:
            runs.append(RunIdentity(first_line=event.line))
        _learn(runs[-1], event)
    return runs


def _candidates(stream: BinaryIO, runs: list[RunIdentity]) -> Iterator[Event]:
    """Events that can change what is known: markers, and those before the first timestamp."""
    for raw in raw_lines(stream):
        run = runs[-1] if runs else None
        wanted = run is None or run.started_at is None or any(m in raw.content for m in _MARKERS)
        if run is not None:
            run.attempted = run.attempted or _ATTEMPT in raw.content
        if wanted and isinstance(event := decode(raw), Event):
            yield event


def _begins(run: RunIdentity, run_id: str, *, first: bool) -> bool:
    """Does a start event begin a new run, or does it belong to the one being read?

    Events before the first start event belong to it, unless they already came to an end: then they
    are the tail of a run whose head is lost.
    """
    if first and not run.has_start:
        return run.closed
    return not run.repeats(run_id)


def _open(run: RunIdentity, event: Event, run_id: str) -> None:
    if run.has_start:
        return
    run.has_start = True
    run.external_id = run_id
    run.start_data = event.data
    run.started_at = event.at or run.started_at
    if run.first_line != event.line:
        run.hazards.append(Hazard.RUN_START_LATE)


def _learn(run: RunIdentity, event: Event) -> None:
    fields = Fields(event.data, _ignore)
    run.started_at = run.started_at or event.at
    match event.kind:
        case "skill_manifest":
            run.skill = run.skill or fields.key("skill_name")
        case "consolidation_complete":
            run.sender_run_id = fields.key("run_id") or run.sender_run_id
            run.closed = True
        case "run_complete":
            run.closed = True


def _complete(run: RunIdentity, position: int, *, skill: str | None, name: str | None) -> None:
    place = f"line {run.first_line}"
    if not run.external_id:
        run.hazards.append(Hazard.RUN_ID_MISSING)
        fallback = f"{name}#{position + 1}" if name and position else name
        run.external_id = run.sender_run_id or fallback or ""
    if not run.external_id:
        raise RunLogError(
            "the run has no id: no run_start names one", place=place, mend="give the log a name"
        )
    if not run.skill:
        if not skill:
            raise RunLogError(
                "the run has no skill: no skill_manifest names one",
                place=place,
                mend="pass --skill",
            )
        run.skill = skill
        run.hazards.append(Hazard.SKILL_NOT_LOGGED)
    elif skill and skill != run.skill:
        run.hazards.append(Hazard.SKILL_DISAGREES)
    if run.started_at is None:
        raise RunLogError(
            "no event of the run has a timestamp", place=place, mend="log ISO-8601 timestamps"
        )


def _ignore(hazard: Hazard) -> None:
    """Hazards are counted by the second pass, once."""
