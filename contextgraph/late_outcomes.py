"""Verdicts that arrive when their run is long stored: checked line by line, entered, credited anew.

Guarantees: a line names its attempt by skill, run, rule and number, and is entered or refused as a
whole, with the cause and the mend; a refused line stops no other, and comes back byte for byte so that
it can be tried again. What the verdict replaces stays in an OutcomeRevision; the same verdict again
changes nothing. Final runs are credited anew, each once, and no tip is retired by that: the report tells
whom the gates would catch (a dry run adds up what each group of lines would move). A run that is still
recorded or scored takes the verdict, and its pass to come reads it. Lines are read one at a time, and
entered by some hundreds that name one run in a row.

Does not enter a verdict for an attempt that its agent has not saved, nor for an older revision of a run.

Source: issue 4 item 6. Shaped by: outcomes that needed a reboot, stored as 0.5 and never looked at again.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from contextgraph import outcome_changes
from contextgraph.envelope import EnvelopeError, Key, OutcomeCorrection, validate
from contextgraph.outbox import Outbox
from contextgraph.outcome_changes import Change, Facts, Stamp
from contextgraph.run_rows import apply_correction
from contextgraph.runlogs.lines import MAX_LINE
from contextgraph.skills import load_skill
from contextgraph.tip_shifts import TipShifts, sums_of
from memory.gate_outlook import gate_outlook
from memory.locks import held
from memory.models import Attempt, OutcomeRevision, Run
from memory.retirement import checked_author
from memory.store_input import plain_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from contextgraph.runlogs.lines import RawLine

LINES_AT_ONCE: Final = 500
NUMBERS_NAMED: Final = 10


class LateOutcomeRefused(ValueError):
    """A verdict that cannot be entered. ``cause`` names the row, ``mend`` says what to do."""

    def __init__(self, cause: str, *, mend: str) -> None:
        self.cause, self.mend = cause, mend
        super().__init__(f"{cause} ({mend})")


class LateOutcome(OutcomeCorrection):
    """A correction with the run that it belongs to."""

    skill: Key
    run: Key


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A line that was not entered; numbered from 1."""

    line: int
    cause: str
    mend: str


@dataclass(slots=True)
class LateReport:
    """What became of the lines. ``entered``: changed something; ``runs``: external ids, by key;
    ``gate``: per skill with runs credited anew, whom its gate would catch (``memory.gate_outlook``)."""

    dry_run: bool
    batch: str
    lines: int = 0
    entered: int = 0
    unchanged: int = 0
    to_judge: int = 0
    refused: list[Refused] = field(default_factory=list)
    runs: dict[int, str] = field(default_factory=dict)
    recounted: list[int] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    gate: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        return asdict(self)


# --- One attempt ----------------------------------------------------------------------------------


def record_late_outcome(
    attempt_id: int, correction: OutcomeCorrection, *, by: str, batch: str = ""
) -> bool:
    """Enter a verdict for one attempt, and have everything derived from it follow.

    Args:
        attempt_id: primary key.
        correction: its rule and number must be the attempt's.
        by: who does it, 1 to 150 characters.
        batch: written into the revision; changes with the same one are taken back together, of each run
            those that nothing else parts (``contextgraph.regrading.undo``).

    Returns whether anything changed.

    Raises:
        LateOutcomeRefused: there is no such attempt, or it cannot take a verdict.
        StageFailed: the verdict is entered; the run's dream pass failed and is tried again.
    """
    found = Attempt.objects.filter(pk=attempt_id).values_list("run", "rule_id", "number").first()
    if found is None:
        msg = f"there is no attempt with primary key {attempt_id}"
        raise LateOutcomeRefused(msg, mend="show_run lists those of a run")
    run_id, rule_id, number = found
    if (correction.rule_id, correction.number) != (rule_id, number):
        meant = f"{correction.rule_id} #{correction.number}"
        msg = f"attempt {attempt_id} is {rule_id} #{number}, not {meant}"
        raise LateOutcomeRefused(msg, mend="address it by its own rule and number")
    stamp = _stamp(by, batch)
    with transaction.atomic():
        run = held(Run.objects.filter(pk=run_id)).get()
        if run.superseded_at is not None:
            msg = f"run {run} (primary key {run.pk}) was superseded by another revision"
            raise LateOutcomeRefused(msg, mend="enter it for the attempt of the newer one")
        change = _changed(run, _attempt_of(run, correction), correction)
        written = outcome_changes.write(run, [change], stamp)
        begun = written.credit_moved and outcome_changes.begin_recount(run)
    if begun:
        outcome_changes.settle([run_id], outbox=Outbox(), raises=True)
    return bool(written.revised)


def _attempt_of(run: Run, correction: OutcomeCorrection) -> Attempt:
    place = {"rule_id": correction.rule_id, "number": correction.number}
    attempt = Attempt.objects.filter(run=run, **place).first()
    if attempt is None:
        numbers = Attempt.objects.filter(run=run, rule_id=correction.rule_id).order_by("number")
        known = list(numbers.values_list("number", flat=True)[:NUMBERS_NAMED])
        there = (
            f"it has {', '.join(f'#{n}' for n in known)}" if known else "it has none of that rule"
        )
        msg = f"run {run} has no attempt {correction.rule_id} #{correction.number}: {there}"
        raise LateOutcomeRefused(msg, mend="correct rule_id or number")
    if run.status == Run.Status.RECORDING and attempt.ended_at is None:
        msg = f"attempt {attempt} of run {run} is open: its agent has not saved it"
        raise LateOutcomeRefused(msg, mend="try again when it has, or when the run is over")
    return attempt


def _changed(run: Run, attempt: Attempt, correction: OutcomeCorrection) -> Change:
    before = Facts.of(attempt)
    apply_correction(attempt, correction, load_skill(settings.PROMPTS_DIR, run.skill))
    return Change(
        attempt_id=attempt.pk,
        category=attempt.category,
        before=before,
        after=Facts.of(attempt),
    )


def _stamp(by: str, batch: str) -> Stamp:
    now = timezone.now()
    cause = OutcomeRevision.Cause.LATE_OUTCOME
    return Stamp(
        cause=cause, by=checked_author(by), batch=batch or f"{cause} {now.isoformat()}", at=now
    )


# --- Many lines -----------------------------------------------------------------------------------


def enter_late_outcomes(
    lines: Iterable[RawLine],
    *,
    by: str,
    dry_run: bool = False,
    rejected: Callable[[bytes], None] | None = None,
) -> LateReport:
    """Enter the verdict on each line; blank lines are none.

    Args:
        by: who does it, 1 to 150 characters.
        dry_run: report, and change nothing.
        rejected: gets the bytes of each refused line, without a line end.

    Raises:
        SkillError: the file of a skill makes no sense; lines before it are entered.
    """
    stamp = _stamp(by, "")
    work = _Entry(LateReport(dry_run=dry_run, batch=stamp.batch), stamp, rejected)
    for group in work.groups(lines):
        work.enter(group)
    report = work.report
    if not dry_run:
        report.failed = outcome_changes.settle(report.recounted, outbox=Outbox()).failed
    report.gate = work.outlooks()
    return report


@dataclass(frozen=True, slots=True)
class _Line:
    raw: RawLine
    verdict: LateOutcome

    @property
    def run(self) -> tuple[str, str]:
        return self.verdict.skill, self.verdict.run

    @property
    def attempt(self) -> tuple[str, int]:
        return self.verdict.rule_id, self.verdict.number


class _Entry:
    """One call: groups of lines of one run, each in a transaction of its own."""

    def __init__(
        self, report: LateReport, stamp: Stamp, rejected: Callable[[bytes], None] | None
    ) -> None:
        self.report = report
        self._stamp = stamp
        self._rejected = rejected
        self._shifts: dict[str, TipShifts] = {}

    def outlooks(self) -> list[dict[str, Any]]:
        """Whom the gates of the skills would catch, by name; of a dry run, if it were none."""
        return [
            gate_outlook(skill, shift=shifts.under if self.report.dry_run else None)
            for skill, shifts in sorted(self._shifts.items())
        ]

    def groups(self, lines: Iterable[RawLine]) -> Iterator[list[_Line]]:
        """Readable lines in a row for one run, no attempt twice; the others are refused."""
        group: dict[tuple[str, int], _Line] = {}
        for raw in lines:
            self.report.lines += 1
            try:
                line = _Line(raw, verdict_on(raw))
            except LateOutcomeRefused as refusal:
                self._refuse(raw, refusal)
                continue
            other_run = any(first.run != line.run for first in itertools.islice(group.values(), 1))
            if other_run or line.attempt in group or len(group) == LINES_AT_ONCE:
                yield list(group.values())
                group = {}
            group[line.attempt] = line
        if group:
            yield list(group.values())

    def enter(self, group: list[_Line]) -> None:
        """Enter what can be; all of them belong to one run."""
        with transaction.atomic():
            run = self._run(group)
            if run is None:
                return
            changes = [change for line in group if (change := self._change(run, line)) is not None]
            written = outcome_changes.write(run, changes, self._stamp)
            begun = written.credit_moved and self._begin_recount(run)
            transaction.set_rollback(self.report.dry_run)
        report = self.report
        report.entered += written.revised
        report.unchanged += len(changes) - written.revised
        report.to_judge += written.to_judge
        if written.revised:
            report.runs[run.pk] = run.external_id
        if begun and run.pk not in report.recounted:
            report.recounted.append(run.pk)

    def _begin_recount(self, run: Run) -> bool:
        before = sums_of(run.pk)
        if not outcome_changes.begin_recount(run):
            return False
        self._shifts.setdefault(run.skill, TipShifts()).note(before, sums_of(run.pk))
        return True

    def _run(self, group: list[_Line]) -> Run | None:
        skill, external_id = group[0].run
        current = Run.objects.current().filter(skill=skill, external_id=external_id)
        run = held(current).first()
        if run is None:
            cause = f"there is no run {external_id!r} of skill {skill!r}"
            for line in group:
                self._refuse(line.raw, LateOutcomeRefused(cause, mend="post the run first"))
        return run

    def _change(self, run: Run, line: _Line) -> Change | None:
        try:
            return _changed(run, _attempt_of(run, line.verdict), line.verdict)
        except LateOutcomeRefused as refusal:
            self._refuse(line.raw, refusal)
            return None

    def _refuse(self, raw: RawLine, refusal: LateOutcomeRefused) -> None:
        self.report.refused.append(Refused(line=raw.number, cause=refusal.cause, mend=refusal.mend))
        if self._rejected is not None and raw.content:
            self._rejected(raw.content)


def verdict_on(raw: RawLine) -> LateOutcome:
    """The verdict on a line of JSON. Raises LateOutcomeRefused."""
    if raw.problem is not None:
        cause = f"the line cannot be read: {raw.problem} ({MAX_LINE} bytes are read at most)"
        raise LateOutcomeRefused(cause, mend="write it again")
    try:
        document = json.loads(raw.content, parse_constant=str)
    except (ValueError, RecursionError) as error:
        cause = f"the line is no JSON in UTF-8: {error}"
        raise LateOutcomeRefused(cause, mend="correct it") from error
    try:
        plain = plain_object(document, "line")
        if plain is None:
            raise EnvelopeError("a mapping is needed here, this is null", place="line")
        if unknown := plain.keys() - LateOutcome.model_fields.keys():
            named = ", ".join(map(repr, sorted(unknown)))
            known = ", ".join(name for name in LateOutcome.model_fields if name != "text_repaired")
            raise LateOutcomeRefused(f"unknown fields: {named}", mend=f"there are {known}")
        return validate(LateOutcome, plain)
    except EnvelopeError as error:
        raise LateOutcomeRefused(str(error), mend="correct that field") from error
