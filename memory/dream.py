"""The dream pass of a run: score, then credit, then evict, then report; each stage once, in its turn.

Guarantees: a pass has one row per stage (DreamStage); a stage is DONE in the very transaction that did
its work, under a lock on the run's row. So a stage that is killed leaves nothing behind and is done
again, one that is done is not; two who run the same pass at once do its work once; and whoever comes
back to an older pass, after a new one was begun, does nothing.

What a stage that raises means depends on the stage. SCORE and CREDIT: the pass stops, the error is kept
on the stage's row and raised, the run stays FINALIZING and the next caller (the reaper) tries again: a
run without its credit is not final. EVICT and REPORT: the error is kept on the row and logged, and the
pass goes on: a gate or a report that cannot be made must not hold back what is known about the tips.
The next pass, also a forced one, makes the report; the tips that a missed sweep would have caught are
left to the next run's, for a run that was final retires nobody any more (``memory.eviction``). A
database that is away is no failure of a stage: nothing is kept, it is raised.

Does not know what the stages do (``memory.dream_stages``, and what ``contextgraph.pipeline`` adds), and
does not move the run's status: the pipeline does, when :func:`run_pass` says that the pass
is over.

Shaped by: a guard column that was written last, so that two passes at once both added their credit, and
a failed step that was swallowed and never made good.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Now

from memory.locks import held
from memory.models import DreamStage, Run
from memory.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Body = Callable[[Run], dict[str, Any]]
    """Does a stage's work inside its transaction; returns what to keep as the row's ``detail``."""

logger = logging.getLogger(__name__)

Stage = DreamStage.Stage
State = DreamStage.State

HOLDING: Final = (Stage.SCORE, Stage.CREDIT)
"""Stages without which a run does not become final."""

ERROR_LENGTH: Final = 2_000
"""Characters of an error that are kept."""


class StageFailed(RuntimeError):
    """A stage raised without which the run is not final. The stage's row holds the same words."""

    def __init__(self, run: int, number: int, stage: Stage, error: Exception) -> None:
        self.stage = stage
        super().__init__(
            f"stage {stage} of dream pass {number} of run {run} failed: {words_of(error)} "
            "(the run stays finalizing; reap_runs tries again)"
        )


def words_of(error: Exception) -> str:
    """What is kept of *error*: one line of visible characters."""
    return visible(f"{type(error).__name__}: {error}", limit=ERROR_LENGTH)


_LOST_DATABASE: Final = (OperationalError, InterfaceError)


def open_pass(run_id: int) -> int:
    """Begin the run's next pass: its stages are all to be done. Returns the pass's number, from 1.

    Call it in the transaction that makes the run FINALIZING. A pass that was under way is over with it:
    who works on it still finds so at the next stage, having waited for the run's row.
    """
    with transaction.atomic():
        Run.objects.filter(pk=run_id).update(dream_number=F("dream_number") + 1)
        number = Run.objects.values_list("dream_number", flat=True).get(pk=run_id)
        DreamStage.objects.bulk_create(
            [DreamStage(run_id=run_id, stage=stage, number=number) for stage in Stage],
            update_conflicts=True,
            unique_fields=["run", "stage"],
            update_fields=["number", "state", "finished_at", "seconds", "detail", "error"],
        )
    return number


def run_pass(run_id: int, *, stages: Mapping[Stage, Body]) -> int | None:
    """Do what is left of the pass of a FINALIZING run. Opens one if none was (an older version's run).

    Args:
        stages: what to do, for each stage.

    Returns the pass's number when it is over: all that the run needs to become DONE is done. None: the
    run is not FINALIZING, or a newer pass was begun meanwhile.

    Raises:
        StageFailed: SCORE or CREDIT raised; the cause is what they raised.
        OperationalError, InterfaceError: the database is away, or had to choose a victim.
        Run.DoesNotExist: there is no such run.
    """
    number = _number(run_id)
    if number is None:
        return None
    over = all(_do(run_id, number, stage, stages[stage]) for stage in Stage)
    return number if over else None


def is_begun(run: Run) -> bool:
    """Whether the run's latest pass has done any stage: rows changed since may have been missed."""
    rows = DreamStage.objects.filter(run=run, number=run.dream_number)
    return rows.exclude(state=State.NEW).exists()


def stages_of(run: Run) -> list[DreamStage]:
    """The stages of the run's latest pass, in their order; empty when it never had one."""
    found = {row.stage: row for row in DreamStage.objects.filter(run=run)}
    return [found[stage] for stage in Stage if stage in found]


def _number(run_id: int) -> int | None:
    """Of the pass to be done; None: there is none."""
    with transaction.atomic():
        run = held(Run.objects.filter(pk=run_id)).get()
        if run.status != Run.Status.FINALIZING:
            return None
        if DreamStage.objects.filter(run=run, number=run.dream_number).exists():
            return run.dream_number
        return open_pass(run_id)


def _do(run_id: int, number: int, stage: Stage, body: Body) -> bool:
    """One stage, unless it is done. False: this pass is not the run's any more."""
    try:
        with transaction.atomic():
            run = held(Run.objects.filter(pk=run_id)).get()
            if (run.status, run.dream_number) != (Run.Status.FINALIZING, number):
                return False
            row = DreamStage.objects.get(run=run, stage=stage)
            if row.state != State.DONE:
                began = time.monotonic()
                detail = body(run)
                close_stage(row, detail, seconds=time.monotonic() - began)
    except _LOST_DATABASE:
        raise
    except Exception as error:
        _keep_failure(run_id, number, stage, error)
        if stage in HOLDING:
            raise StageFailed(run_id, number, stage, error) from error
        about = {"run_id": run_id, "stage": str(stage), "dream_pass": number}
        logger.exception("dream.stage_failed", extra=about)
    return True


def close_stage(row: DreamStage, detail: dict[str, Any], *, seconds: float) -> None:
    """DONE, with what the stage has to say; the last statement of its transaction."""
    DreamStage.objects.filter(pk=row.pk).update(
        state=State.DONE,
        finished_at=Now(),
        seconds=round(seconds, 6),
        detail=detail,
        error="",
    )


def _keep_failure(run_id: int, number: int, stage: Stage, error: Exception) -> None:
    """After the rollback. One who did the stage meanwhile is not contradicted."""
    rows = DreamStage.objects.filter(run_id=run_id, stage=stage, number=number)
    rows.exclude(state=State.DONE).update(
        state=State.FAILED,
        finished_at=Now(),
        error=words_of(error),
    )
