"""Outcomes graded again from what is stored, by the skill file as it is now; and that taken back.

Guarantees: the grader gets what it got when the attempt was stored or last corrected; an unchanged
ladder changes nothing. A run is graded again in one transaction, with its evidence; a run that is not
final is left alone and named; whoever dies between two runs can begin again, and what is graded already
comes out unchanged. Dream passes follow when all runs are graded; they retire no tip, and the report
tells whom the skill's gate would catch. A dry run does everything but those passes, and rolls back.
:func:`undo` takes back one change as a whole where nothing came after it (``contextgraph.change_stack``),
and is itself a revision of each attempt that it reaches: nothing is deleted, and a change that came to
nothing is taken back like any other.

Does not read logs: raw evaluator output that was not stored cannot be graded again. Processes that run
keep the skill file that they have read: restart the workers first, or new runs get the old grades. Of
rows from before this module, an empty failure mode as sent is not told from the one that was proved.

Source: issue 4 item 6; the late correction of evaluator bugs (upstream 8.2a).
Shaped by: a ground truth with two substring bugs, found when fifteen runs had been credited by it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from contextgraph import outcome_changes
from contextgraph.change_stack import standing_changes
from contextgraph.outbox import Outbox
from contextgraph.outcome_changes import (
    EVALUATOR,
    GRADE,
    Change,
    Facts,
    Stamp,
    Written,
    evaluation_of,
)
from contextgraph.regrade_report import RegradeReport, State
from contextgraph.run_rows import graded_mode
from contextgraph.skills import load_skill
from contextgraph.tip_shifts import TipShifts, sums_of
from memory.gate_outlook import gate_outlook
from memory.locks import held
from memory.models import Attempt, OutcomeRevision, Run
from memory.retirement import checked_author
from memory.store_rows import SENT_MODE
from scoring.outcomes import Outcome, grade, grader_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from contextgraph.change_stack import Standing
    from contextgraph.regrade_report import RunResult
    from contextgraph.skills import Skill

    Progress = Callable[[int, int], None]
    Plan = Callable[[Run], Iterator[Change]]

Status = Run.Status
Cause = OutcomeRevision.Cause

ATTEMPTS_AT_ONCE: Final = 200
"""Held and written together; each brings its raw evaluator output."""

COLUMNS: Final = ("category", "extra", "sender_number", *GRADE, *EVALUATOR)


class RegradeRefused(ValueError):
    """What was asked makes no sense; says why. Nothing was written."""


class _LeftAlone(Exception):
    """This run is left as it is; says why. Raised before anything of it is written."""


def regrade(
    *,
    skill: str,
    by: str,
    run: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RegradeReport:
    """Grade every attempt of the skill's final runs again, or of one run.

    Args:
        by: who does it, 1 to 150 characters; stands in every revision.
        run: external id or primary key.
        dry_run: report, and change nothing.
        progress: called with the runs done so far and all there are.

    Raises:
        UnknownRun, RegradeRefused: there is no such run, or it was superseded.
        SkillError: the skill file makes no sense.
    """
    ladder = load_skill(settings.PROMPTS_DIR, skill)
    report = RegradeReport(
        skill=skill, cause=Cause.REGRADE, ladder=grader_name(ladder), dry_run=dry_run
    )
    work = _Work(report, by=by, progress=progress)
    work.do(_run_ids(skill, run), lambda one: _graded_again(one, ladder))
    return report


def undo(
    *,
    skill: str,
    by: str,
    run: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RegradeReport:
    """Take back the last change of outcomes: of *run*, or the skill's last one in all runs it touched.

    What it touched is told by its batch name: of each run, the last change of that name that stands.
    Where one name was given to changes of several days, those that are each their run's last go together.
    A change that was taken back does not stand any more, so that the next undo reaches the one before. A
    run in which something later stands is skipped and named. Arguments and errors as :func:`regrade`.

    Raises:
        RegradeRefused: also when nothing is left to be taken back.
    """
    stacks = standing_changes(skill)
    standing = {run_id: stacks[run_id] for run_id in _run_ids(skill, run) if stacks.get(run_id)}
    if not standing:
        msg = f"no outcome of {run or skill} was changed that could be taken back"
        raise RegradeRefused(msg)
    last = max((stack[-1] for stack in standing.values()), key=lambda change: change.last).batch
    touched = {
        run_id: [change for change in stack if change.batch == last][-1]
        for run_id, stack in standing.items()
        if any(change.batch == last for change in stack)
    }
    ladder = grader_name(load_skill(settings.PROMPTS_DIR, skill))
    report = RegradeReport(skill=skill, cause=Cause.UNDO, ladder=ladder, dry_run=dry_run)
    work = _Work(report, by=by, progress=progress, undone=last)
    work.do(list(touched), lambda one: _taken_back(one, touched[one.pk]))
    return report


def _run_ids(skill: str, key: str | None) -> list[int]:
    if key is None:
        runs = Run.objects.current().filter(skill=skill).order_by("started_at", "pk")
        return list(runs.values_list("pk", flat=True))
    run = Run.objects.named(key, skill=skill)
    if run.superseded_at is not None:
        msg = f"run {run} (primary key {run.pk}) was superseded: name it by its external id"
        raise RegradeRefused(msg)
    return [run.pk]


class _Work:
    """One call: its runs one after the other, then what follows from them."""

    def __init__(
        self,
        report: RegradeReport,
        *,
        by: str,
        progress: Progress | None,
        undone: str = "",
    ) -> None:
        self._report = report
        self._progress = progress
        self._shifts = TipShifts()
        self._by = checked_author(by)
        now = timezone.now().isoformat()
        report.batch = f"{report.cause} {now}" + (f" of: {undone}" if undone else "")

    def do(self, run_ids: list[int], plan: Plan) -> None:
        """Change outcomes as *plan* says, run by run; see the module for what a transaction is."""
        report, begun = self._report, []
        for done, run_id in enumerate(run_ids, start=1):
            if self._one(run_id, plan):
                begun.append(run_id)
            if self._progress is not None:
                self._progress(done, len(run_ids))
        report.tips_moved = self._shifts.moved
        report.flips = self._shifts.flips(report.skill, stored=not report.dry_run)
        if not report.dry_run:
            failed = outcome_changes.settle(begun, outbox=Outbox()).failed
            for result in report.runs:
                if result.id in failed:
                    result.state, result.why = State.FAILED, failed[result.id]
        if self._shifts.moved:
            shift = self._shifts.under if report.dry_run else None
            report.gate = gate_outlook(report.skill, shift=shift)

    def _one(self, run_id: int, plan: Plan) -> bool:
        """Whether a dream pass of the run is to be finished."""
        with transaction.atomic():
            run = held(Run.objects.filter(pk=run_id)).get()
            result = self._report.begin(run)
            try:
                written = self._write(run, plan, result)
            except _LeftAlone as left:
                result.state, result.why = State.SKIPPED, str(left)
                return False
            result.take(written)
            if written.credit_moved:
                before = sums_of(run_id)
                outcome_changes.begin_recount(run)
                self._shifts.note(before, sums_of(run_id))
            transaction.set_rollback(self._report.dry_run)
        # one that was left by somebody who died is finished, too
        return written.credit_moved or run.status == Status.FINALIZING

    def _write(self, run: Run, plan: Plan, result: RunResult) -> Written:
        _require_final(run)
        stamp = Stamp(
            cause=Cause(self._report.cause),
            by=self._by,
            batch=self._report.batch,
            at=timezone.now(),
        )
        total = Written()
        changes = plan(run)
        while batch := list(itertools.islice(changes, ATTEMPTS_AT_ONCE)):
            for change in batch:
                self._report.note(change)
            result.attempts += len(batch)
            total.add(outcome_changes.write(run, batch, stamp))
        return total


def _require_final(run: Run) -> None:
    if run.superseded_at is not None:
        raise _LeftAlone("superseded by a newer revision")
    if run.status not in (Status.DONE, Status.FINALIZING):
        mend = (
            "its agent is still at work on it"
            if run.status == Status.RECORDING
            else "`manage.py reap_runs --inline --until-done` finishes it"
        )
        msg = f"{run.status}, not final: {mend}"
        raise _LeftAlone(msg)


# --- Graded again ---------------------------------------------------------------------------------


def _graded_again(run: Run, ladder: Skill) -> Iterator[Change]:
    attempts = Attempt.objects.filter(run=run).order_by("pk").only(*COLUMNS)
    for attempt in attempts.iterator(chunk_size=ATTEMPTS_AT_ONCE):
        yield _changed(attempt, grade(evaluation_of(attempt), ladder))


def _changed(attempt: Attempt, outcome: Outcome) -> Change:
    before, sent = Facts.of(attempt), outcome_changes.sent_mode(attempt)
    attempt.failure_mode = graded_mode(sent, outcome, attempt.extra)
    attempt.outcome_value, attempt.outcome_confidence = outcome.value, outcome.confidence
    attempt.outcome_reason, attempt.outcome_grader = outcome.reason, outcome.grader
    return Change(
        attempt_id=attempt.pk,
        category=attempt.category,
        before=before,
        after=Facts.of(attempt),
    )


# --- Taken back -----------------------------------------------------------------------------------


def _taken_back(run: Run, change: Standing) -> Iterator[Change]:
    """Each attempt of the run's last change that stands, as it was before that; it must be *change*."""
    stack = standing_changes(run.skill, run.pk).get(run.pk, [])
    if all(one.first != change.first for one in stack):
        raise _LeftAlone("another process has taken it back")
    last = stack[-1]  # read under the lock: the batch may have gone on since
    if last.first != change.first:
        raise _LeftAlone("a later change stands on it: take that back first, with --run")
    revisions = OutcomeRevision.objects.filter(
        attempt__run=run, pk__gte=last.first, pk__lte=last.last
    )
    first: dict[int, OutcomeRevision] = {}
    for revision in revisions.order_by("pk"):
        one = first.setdefault(revision.attempt_id, revision)
        if one.old_evaluator is None:  # a later one of the change may be the first that replaced it
            one.old_evaluator = revision.old_evaluator
    attempts = Attempt.objects.filter(pk__in=first).order_by("pk").only(*COLUMNS)
    for attempt in attempts.iterator(chunk_size=ATTEMPTS_AT_ONCE):
        yield Change(
            attempt_id=attempt.pk,
            category=attempt.category,
            before=Facts.of(attempt),
            after=_as_before(attempt, first[attempt.pk]),
            marks=True,
        )


def _as_before(attempt: Attempt, revision: OutcomeRevision) -> Facts:
    replaced: dict[str, Any] = dict(revision.old_evaluator or {})
    sent = replaced.pop(SENT_MODE, outcome_changes.sent_mode(attempt))
    return Facts(
        outcome_value=revision.old_value,
        outcome_confidence=revision.old_confidence,
        outcome_reason=revision.old_reason,
        outcome_grader=revision.old_grader,
        failure_mode=revision.old_failure_mode,
        sent_mode=sent,
        evaluator={name: getattr(attempt, name) for name in EVALUATOR} | replaced,
    )
