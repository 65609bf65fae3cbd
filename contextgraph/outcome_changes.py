"""An attempt's outcome is replaced: its revision, its own row, its retrievals, the tips learned from it.

Guarantees: one way in for every cause (a re-grading, a late verdict, an undo), in bulk; what was
replaced stays in an OutcomeRevision with its cause and author. A grade that comes out the same under
another version of the ladder is no revision: only the grader's name moves. Rows that gain an outcome
become judgeable; rows that lose it keep what the signals said of them, and credit leaves them out. A
retrieval never disagrees with its attempt once the transaction is over, nor the evidence with its rows.

Call :func:`write` with the run locked, then :func:`begin_recount`, in one transaction; when that is
committed, :func:`settle`. Who dies in between leaves a run that the reaper finishes.

Shaped by: an evaluator that found "HEALTHY" in "UNHEALTHY" for fifteen runs, and verdicts after a reboot
that were never entered.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.db import connection
from django.db.models import Max

from contextgraph import pipeline
from memory import evidence
from memory.dream import StageFailed
from memory.locks import held, hold_evidence
from memory.models import OutcomeRevision, Run, RunEvidence, Tip
from memory.reasons import UNANSWERED, Reason
from memory.store_rows import SENT_MODE
from scoring.models import Signal
from scoring.outcomes import Evaluation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from contextgraph.outbox import Outbox
    from memory.models import Attempt

Status = Run.Status

GRADE: Final = (
    "outcome_value", "outcome_confidence", "outcome_reason", "outcome_grader", "failure_mode",
)  # fmt: skip
EVALUATOR: Final = (
    "passed", "evaluator_raw", "evaluator_error", "sender_grade_value", "sender_grade_confidence",
)  # fmt: skip
"""Columns that a late verdict replaces; the failure mode as sent goes with them."""

NOT_ASKED: Final = ["", *map(str, UNANSWERED), str(Reason.TOO_LONG)]
"""Why a row may lack the judge's answer, where the lack of an outcome would have come first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What an attempt's row says of its outcome. ``sent_mode``: the failure mode as it was sent."""

    outcome_value: float | None
    outcome_confidence: float | None
    outcome_reason: str
    outcome_grader: str
    failure_mode: str
    sent_mode: str
    evaluator: dict[str, Any]

    @classmethod
    def of(cls, attempt: Attempt) -> Facts:
        """As they stand now; later changes of *attempt* do not reach them."""
        return cls(
            **{name: getattr(attempt, name) for name in GRADE},
            sent_mode=sent_mode(attempt),
            evaluator={name: getattr(attempt, name) for name in EVALUATOR},
        )

    def replaced_evaluator(self) -> dict[str, Any]:
        """For ``OutcomeRevision.old_evaluator``."""
        return self.evaluator | {SENT_MODE: self.sent_mode}


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """An attempt before and after; the two may be equal. ``marks``: a revision even then, of an undo."""

    attempt_id: int
    category: str
    before: Facts
    after: Facts
    marks: bool = False

    @property
    def credit_moved(self) -> bool:
        """Whether any number that credit is made of is another one."""
        old, new = self.before, self.after
        return (old.outcome_value, old.outcome_confidence) != (
            new.outcome_value,
            new.outcome_confidence,
        )

    @property
    def evaluator_moved(self) -> bool:
        """Whether what the evaluator said is something else."""
        return self.before.replaced_evaluator() != self.after.replaced_evaluator()

    @property
    def differs(self) -> bool:
        """Whether anything but the grader's name is different."""
        old, new = self.before, self.after
        return self.credit_moved or self.evaluator_moved or old.failure_mode != new.failure_mode

    @property
    def confirms(self) -> bool:
        """Whether the grader's name alone is different."""
        return not self.differs and self.before.outcome_grader != self.after.outcome_grader

    @property
    def is_any(self) -> bool:
        """Whether there is anything to write."""
        return self.differs or self.confirms or self.marks


@dataclass(frozen=True, kw_only=True, slots=True)
class Stamp:
    """Who changes outcomes, why and when. ``batch``: the same for all that one call changes."""

    cause: OutcomeRevision.Cause
    by: str
    batch: str
    at: datetime


@dataclass(slots=True)
class Written:
    """Attempts that differ now, or in the grader's name alone; retrievals that gained or lost."""

    revised: int = 0
    confirmed: int = 0
    to_judge: int = 0
    without_outcome: int = 0
    credit_moved: bool = False

    def add(self, other: Written) -> None:
        """Count *other* in."""
        self.revised += other.revised
        self.confirmed += other.confirmed
        self.to_judge += other.to_judge
        self.without_outcome += other.without_outcome
        self.credit_moved |= other.credit_moved


def sent_mode(attempt: Attempt) -> str:
    """The failure mode as the sender gave it; the column holds the graded one."""
    kept = attempt.extra.get(SENT_MODE)
    return kept if isinstance(kept, str) else attempt.failure_mode


def evaluation_of(attempt: Attempt) -> Evaluation:
    """What ingest gave to the grader for this attempt, or what the last correction gave."""
    return Evaluation(
        number=attempt.sender_number,
        passed=attempt.passed,
        failure_mode=sent_mode(attempt),
        raw=attempt.evaluator_raw,
        error=attempt.evaluator_error,
        sender_value=attempt.sender_grade_value,
        sender_confidence=attempt.sender_grade_confidence,
    )


# --- Writing --------------------------------------------------------------------------------------


def write(run: Run, changes: Sequence[Change], stamp: Stamp) -> Written:
    """Write *changes* to attempts of *run*, each attempt at most once; no derived number follows yet.

    The caller holds the run (``memory.locks``). Some statements for all changes together.
    """
    changes = [change for change in changes if change.is_any]
    if not changes:
        return Written()
    _append_revisions([change for change in changes if change.differs or change.marks], stamp)
    _write_attempts(changes)
    _write_evaluators([change for change in changes if change.evaluator_moved])
    moved = [change for change in changes if change.credit_moved]
    gained, lost = _write_retrievals(run, moved)
    _write_tips(run, moved)
    return Written(
        revised=sum(change.differs for change in changes),
        confirmed=sum(change.confirms for change in changes),
        to_judge=gained,
        without_outcome=lost,
        credit_moved=bool(moved),
    )


def _append_revisions(changes: list[Change], stamp: Stamp) -> None:
    ids = [change.attempt_id for change in changes]
    earlier = OutcomeRevision.objects.filter(attempt__in=ids).order_by().values("attempt")
    last = dict(earlier.annotate(last=Max("number")).values_list("attempt", "last"))
    OutcomeRevision.objects.bulk_create(
        OutcomeRevision(
            attempt_id=change.attempt_id,
            number=last.get(change.attempt_id, 0) + 1,
            cause=stamp.cause,
            **_named("old", change.before),
            **_named("new", change.after),
            old_evaluator=change.before.replaced_evaluator() if change.evaluator_moved else None,
            by=stamp.by,
            note=stamp.batch,
            at=stamp.at,
        )
        for change in changes
    )


def _named(prefix: str, facts: Facts) -> dict[str, Any]:
    columns = {name: getattr(facts, name) for name in GRADE}
    return {f"{prefix}_{name.removeprefix('outcome_')}": of for name, of in columns.items()}


def _write_attempts(changes: list[Change]) -> None:
    rows = [
        (
            change.attempt_id,
            *(getattr(change.after, name) for name in GRADE),
            None if after.sent_mode == after.failure_mode else after.sent_mode,
        )
        for change in changes
        for after in (change.after,)
    ]
    _execute(
        f"""UPDATE attempts AS a SET outcome_value = new.value, outcome_confidence = new.confidence,
            outcome_reason = new.reason, outcome_grader = new.grader, failure_mode = new.mode,
            extra = CASE WHEN new.sent IS NULL THEN a.extra - '{SENT_MODE}'
                    ELSE a.extra || jsonb_build_object('{SENT_MODE}', new.sent) END
        FROM unnest(%s::bigint[], %s::float8[], %s::float8[], %s::text[], %s::text[], %s::text[],
                    %s::text[]) AS new(id, value, confidence, reason, grader, mode, sent)
        WHERE a.id = new.id""",  # noqa: S608 - a constant
        rows,
    )


def _write_evaluators(changes: list[Change]) -> None:
    rows = [
        (
            change.attempt_id,
            *(
                json.dumps(value) if name == "evaluator_raw" and value is not None else value
                for name, value in change.after.evaluator.items()
            ),
        )
        for change in changes
    ]
    _execute(
        """UPDATE attempts AS a SET passed = new.passed, evaluator_raw = new.raw::jsonb,
            evaluator_error = new.error, sender_grade_value = new.value,
            sender_grade_confidence = new.confidence
        FROM unnest(%s::bigint[], %s::bool[], %s::text[], %s::text[], %s::float8[], %s::float8[])
            AS new(id, passed, raw, error, value, confidence)
        WHERE a.id = new.id""",
        rows,
    )


def _write_retrievals(run: Run, changes: list[Change]) -> tuple[int, int]:
    """Retrievals follow their attempts; how many became judgeable, and how many ceased to be."""
    reason, asked_again = _when_judgeable(run)
    with connection.cursor() as cursor:
        # locked first: a worker may be writing what the judge said about some of them
        cursor.execute(
            """WITH found AS (
                SELECT r.id, a.outcome_value, a.outcome_confidence,
                    a.outcome_value IS NOT NULL AND r.llm_reason = %s AS gains,
                    a.outcome_value IS NULL AND r.tip_followed_llm IS NULL AND r.llm_label = ''
                        AND r.llm_reason = ANY(%s) AS loses
                FROM tip_retrievals AS r JOIN attempts AS a ON a.id = r.attempt_id
                WHERE a.id = ANY(%s) ORDER BY r.id FOR NO KEY UPDATE OF r
            ), written AS (
                UPDATE tip_retrievals AS r SET outcome_value = found.outcome_value,
                    outcome_confidence = found.outcome_confidence,
                    llm_reason = CASE WHEN gains THEN %s WHEN loses THEN %s ELSE r.llm_reason END,
                    llm_retry_at = CASE WHEN gains AND %s THEN now() WHEN gains OR loses THEN NULL
                        ELSE r.llm_retry_at END,
                    llm_tries = CASE WHEN gains OR loses THEN 0 ELSE r.llm_tries END
                FROM found WHERE r.id = found.id
            )
            SELECT count(*) FILTER (WHERE gains), count(*) FILTER (WHERE loses) FROM found""",
            [
                Reason.NO_OUTCOME,
                NOT_ASKED,
                [change.attempt_id for change in changes],
                reason,
                Reason.NO_OUTCOME,
                asked_again,
            ],
        )
        gained, lost = cursor.fetchone()
    return gained, lost


def _when_judgeable(run: Run) -> tuple[str, bool]:
    """The judge's reason of a row that gained an outcome, and whether it is due to be asked about.

    Before its first round a run's rows merely wait. Later they are what a retry is: the reaper opens a
    round for them when the run is final, so that an open round is not disturbed.
    """
    if run.status in (Status.RECORDING, Status.INGESTED):
        return "", False
    return Reason.SKIPPED, pipeline.enabled(Signal.JUDGE)


def _write_tips(run: Run, changes: list[Change]) -> None:
    """The grade at its source of a tip that was saved from such an attempt (``memory.store_tips``).

    Only where it is ours, that is, the attempt's former grade; a sender's own stays as it was sent.
    """
    if not changes:
        return
    hold_evidence([run.pk])  # begin_recount wants it, and it comes before tips
    born = Tip.objects.filter(
        skill=run.skill,
        source_run_id=run.external_id,
        source_rule_id__in=run.attempts.values("rule_id"),
    )
    list(held(born.only("pk")))  # all of the run's at once: this may be one call of several
    rows = [
        (change.attempt_id, change.before.outcome_value, change.before.outcome_confidence)
        for change in changes
    ]
    _execute(
        """UPDATE tips AS t SET outcome_at_source_value = a.outcome_value,
            outcome_at_source_confidence = a.outcome_confidence
        FROM unnest(%s::bigint[], %s::float8[], %s::float8[]) AS old(id, value, confidence)
            JOIN attempts AS a ON a.id = old.id
        WHERE t.skill = %s AND t.source_run_id = %s AND t.source_rule_id = a.rule_id
            AND t.extra -> 'source_attempt' = to_jsonb(a.number)
            AND t.outcome_at_source_value IS NOT DISTINCT FROM old.value
            AND t.outcome_at_source_confidence IS NOT DISTINCT FROM old.confidence""",
        rows,
        run.skill,
        run.external_id,
    )


def _execute(sql: str, rows: list[tuple[Any, ...]], *more: Any) -> None:
    """Run *sql*, which unnests the columns of *rows*."""
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        with connection.cursor() as cursor:
            cursor.execute(sql, [*columns, *more])


# --- What is derived ------------------------------------------------------------------------------


def begin_recount(run: Run) -> bool:
    """Have the derived numbers of *run* follow; last in the transaction that changed its rows.

    The evidence is right at the commit; the dream pass is left to :func:`settle`. False: the run is
    still on its way, and its pass to come reads the rows as they are.
    """
    if not pipeline.begin_recount(run.pk):
        return False
    if run.status == Status.DONE or RunEvidence.objects.filter(run=run).exists():
        evidence.refresh([run.pk])
    return True


@dataclass(slots=True)
class Settled:
    """Runs whose dream pass failed, with the reason; runs that wait for the judge again."""

    failed: dict[int, str] = field(default_factory=dict)
    reopened: list[int] = field(default_factory=list)


def settle(run_ids: Iterable[int], *, outbox: Outbox, raises: bool = False) -> Settled:
    """Finish the dream passes that were begun, and have new rows judged; a failure stops no other run.

    Raises:
        StageFailed: *raises*, and a pass failed; it is tried again by the reaper.
    """
    settled = Settled()
    for run_id in run_ids:
        try:
            pipeline.finish(run_id)
        except StageFailed as error:
            if raises:
                raise
            settled.failed[run_id] = str(error)
            continue
        if pipeline.enabled(Signal.JUDGE) and pipeline.reopen(run_id, outbox=outbox):
            settled.reopened.append(run_id)
    return settled
