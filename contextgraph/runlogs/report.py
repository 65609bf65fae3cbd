"""What a run log holds, counted: the answer to "can this log be attributed?" before it is posted.

Guarantees: reads through the same readers as intake, so what is counted here is what will be stored;
constant memory; every hazard with its count, first line, meaning and consequence.

Does not guarantee: that intake accepts the run; its id may be taken by another.

Shaped by: a smoke script that counted event types and was content, while no script in the log was whole.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from contextgraph.envelope import (
    AttemptEntry,
    OutcomeCorrection,
    RunFooter,
    RunHeader,
    TipEntry,
)
from contextgraph.runlogs.hazards import HAZARDS, HazardTally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from contextgraph.envelope import Record
    from contextgraph.runlogs import RunLogReader


@dataclass(frozen=True, slots=True)
class HazardLine:
    """One row of the hazard table. ``first_line`` is 0 when the format has no lines."""

    code: str
    count: int
    first_line: int
    meaning: str
    action: str


@dataclass(slots=True)
class RunReport:
    """Counts of one run. ``passed`` includes verdicts that came late; ``unknown`` has no outcome."""

    skill: str
    external_id: str
    started_at: str
    ended_at: str | None = None
    model: str = ""
    environment_tag: str = ""
    tips: int = 0
    attempts: int = 0
    with_script: int = 0
    script_truncated: int = 0
    passed: int = 0
    failed: int = 0
    unknown: int = 0
    retrievals: int = 0
    shown: int = 0
    hazards: list[HazardLine] = field(default_factory=list)

    @classmethod
    def of(cls, header: RunHeader) -> RunReport:
        """An empty report for the run that begins here."""
        return cls(
            skill=header.skill,
            external_id=header.external_id,
            started_at=header.started_at.isoformat(),
            ended_at=header.ended_at.isoformat() if header.ended_at else None,
            model=header.model,
            environment_tag=header.environment_tag,
        )

    def add(self, record: Record, tally: HazardTally) -> bool:
        """Count one record; True when it was the run's last."""
        match record:
            case TipEntry():
                self.tips += 1
            case AttemptEntry():
                self._add_attempt(record)
            case OutcomeCorrection():
                self.unknown -= 1
                self._add_outcome(record.passed)
            case RunFooter():
                self._close(record, tally)
                return True
        return False

    def _add_attempt(self, attempt: AttemptEntry) -> None:
        self.attempts += 1
        self.with_script += attempt.script is not None
        self.script_truncated += attempt.script_truncated
        self.retrievals += len(attempt.retrievals)
        self.shown += sum(entry.shown for entry in attempt.retrievals)
        self._add_outcome(attempt.passed)

    def _add_outcome(self, passed: bool | None) -> None:  # noqa: FBT001 - the value itself
        self.passed += passed is True
        self.failed += passed is False
        self.unknown += passed is None

    def _close(self, footer: RunFooter, tally: HazardTally) -> None:
        if footer.ended_at is not None:
            self.ended_at = footer.ended_at.isoformat()
        self.model = footer.model or self.model
        self.environment_tag = footer.environment_tag or self.environment_tag
        for code, count in sorted(footer.hazards.items()):
            known = HAZARDS.get(code)
            self.hazards.append(
                HazardLine(
                    code=code,
                    count=count,
                    first_line=tally.first_line(known) if known else 0,
                    meaning=known.meaning if known else "a code of the sender's own",
                    action=known.action if known else "stored with the run",
                )
            )

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return asdict(self)


def reports(
    reader: RunLogReader, *, on_record: Callable[[], None] = lambda: None
) -> Iterator[RunReport]:
    """Read a log to its end; yield one report per run. *on_record* is called after each record.

    Raises:
        RunLogError: as the reader does.
    """
    report: RunReport | None = None
    for record in reader.records():
        if isinstance(record, RunHeader):
            report = RunReport.of(record)
        elif report is not None and report.add(record, reader.tally):
            yield report
        on_record()
