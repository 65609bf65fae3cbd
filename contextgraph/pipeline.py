"""How a run becomes final: ingest -> score -> dream. The only file that builds chords.

Guarantees: every state is a row and every step a claim by UPDATE, so each step may be called twice,
early, late or by hand. Broker and result backend carry hints: after both are wiped, :func:`reap`
alone finishes every run. A round's dream pass is counted once. A run that an agent still records is
left alone, until it has been silent for RECORDING_TIMEOUT_H hours.

Does not guarantee an order between runs, nor that a header task runs only once.

    (RECORDING ->) INGESTED --dispatch--> SCORING --finalize--> FINALIZING --finish--> DONE
                                             ^                      ^----- recount ------|
                                             +---- reopen (retries due), rescore --------+

Shaped by: chords that lose their body (a flushed broker, an expired key, a lost worker), measured
with real kills; the body here is a recount of rows that a reaper may call as well.
"""

from __future__ import annotations

import contextlib
import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from celery import chord, current_app, group
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef
from django.db.models.functions import Coalesce, Now

from contextgraph.dream_bodies import STAGES
from contextgraph.outbox import Outbox
from contextgraph.reaping import (
    Reaped,
    close_recording,
    is_due,
    send_again,
    silent_recordings,
    unheld,
)
from memory import dream
from memory.locks import held
from memory.models import Retrieval, Run
from memory.reasons import Reason
from scoring import batches, rescoring
from scoring.judge import service as judge
from scoring.memos.service import run_memo
from scoring.models import ScoreBatch, Signal
from scoring.tasks import TASK_OF
from scoring.work import LOST_DATABASE, score_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memory.querysets import RunQuerySet
    from scoring.rescoring import Chosen

logger = logging.getLogger(__name__)

MACHINE_SIGNALS = (Signal.TRACE, Signal.EMBED, Signal.JUDGE)


# --- Into SCORING ---------------------------------------------------------------------------------


class RescoreRefused(RuntimeError):
    """This run cannot be scored again as asked; says why."""


def dispatch(run_id: int, *, outbox: Outbox | None = None) -> bool:
    """Cut the run into batches and send its chord. False: it was not waiting to be dispatched."""
    with transaction.atomic():
        if not _move(run_id, Run.Status.INGESTED, Run.Status.SCORING):
            return False
        _open_round(run_id, MACHINE_SIGNALS, outbox or Outbox())
    return True


def reopen(run_id: int, *, outbox: Outbox | None = None) -> bool:
    """DONE -> SCORING for the failed judge calls whose retry is due. False: nothing to do."""
    with transaction.atomic():
        due = Retrieval.objects.counted().filter(run_id=run_id, llm_retry_at__lte=Now())
        if not due.exists() or not _move(run_id, Run.Status.DONE, Run.Status.SCORING):
            return False
        due.update(llm_reason="", llm_retry_at=None)
        anew = batches.asked_anew(run_id)
        _open_round(run_id, (Signal.JUDGE,), outbox or Outbox(), without_cache=anew)
    return True


def rescore(
    run_id: int,
    signals: tuple[Signal, ...],
    *,
    chosen: Chosen = rescoring.EVERY_ROW,
    without_cache: bool = False,
    dry_run: bool = False,
    outbox: Outbox | None = None,
) -> int:
    """DONE -> SCORING: compute *signals* again, for every chosen row that can have them.

    Clears what they said, reasons and tries; judgements stay. Returns the answers that will be computed,
    one per row and signal; 0: the run stays as it was.

    Args:
        chosen: which rows; the others are left as they are.
        without_cache: the judge is asked anew, whatever verdicts are cached; retries too.
        dry_run: do it, count, and roll back.
        outbox: of the caller, when it scores many runs again.

    Raises:
        RescoreRefused: a signal is not enabled here, or the run is not DONE.
        PromptError, ValueError: for stale judgements, the skill's prompt or the judge's settings.
    """
    off = ", ".join(signal for signal in signals if not enabled(signal))
    if off:
        msg = f"not computed here: {off} (see CONTEXTGRAPH_SIGNALS, JUDGE_BASE_URL and JUDGE_MODEL)"
        raise RescoreRefused(msg)
    with transaction.atomic():
        if not _move(run_id, Run.Status.DONE, Run.Status.SCORING):
            msg = f"run {run_id} is not final: wait until it is (reap_runs finishes what is lost)"
            raise RescoreRefused(msg)
        run = Run.objects.get(pk=run_id)
        cleared = sum(rescoring.clear(run, signal, chosen) for signal in signals)
        if dry_run or not cleared:
            transaction.set_rollback(True)
        else:
            _open_round(run_id, signals, outbox or Outbox(), without_cache=without_cache)
    return cleared


def enabled(signal: Signal) -> bool:
    """Whether a signal is computed here; a judge must be configured too."""
    if signal not in settings.SIGNALS:
        return False
    return signal is not Signal.JUDGE or judge.configured()


def _move(run_id: int, old: Run.Status, new: Run.Status) -> bool:
    moved = Run.objects.filter(pk=run_id, status=old).update(status=new, state_changed_at=Now())
    return moved == 1


def _open_round(
    run_id: int, signals: tuple[Signal, ...], outbox: Outbox, *, without_cache: bool = False
) -> None:
    """Create the batches of the next scoring round; the chord goes out after the commit."""
    batches.skip_superseded(run_id)
    Run.objects.filter(pk=run_id).update(scoring_round=F("scoring_round") + 1)
    run = Run.objects.get(pk=run_id)
    for signal in signals:
        if not enabled(signal):
            skipped = batches.pending(signal, run_id).update(
                **{batches.REASON_COLUMN[signal]: Reason.SKIPPED}
            )
            logger.info("run.signal_skipped", extra={"run_id": run_id, "rows": skipped})
    signals = tuple(signal for signal in signals if enabled(signal))
    planned = batches.plan(run, signals, without_cache=without_cache)
    ScoreBatch.objects.bulk_create(planned, ignore_conflicts=True)

    def send() -> None:
        _send_chord(run_id, run.scoring_round, outbox)

    transaction.on_commit(send, robust=True)
    logger.info("run.scoring", extra={"run_id": run_id, "batches": len(planned)})


# --- Messages -------------------------------------------------------------------------------------


def _send_chord(run_id: int, scoring_round: int, outbox: Outbox) -> None:
    """Publish the round's chord. A broker that is away is no error: the reaper sends it again."""
    rows = ScoreBatch.objects.filter(run_id=run_id, round=scoring_round, state="new")
    header = [_header(signal, pk) for pk, signal in rows.values_list("pk", "signal")]
    body, errback = _finalize_signature(run_id), _finalize_signature(run_id)
    # an empty header would run the body in this process
    message = chord(group(header), body.on_error(errback)) if header else body
    outbox.publish(message.apply_async, run_id=run_id)


def _header(signal: str, batch_id: int) -> Any:
    return TASK_OF[signal].si(batch_id)


def _finalize_signature(run_id: int) -> Any:
    """The task by its name: contextgraph.tasks sits above this room."""
    return current_app.signature("contextgraph.finalize_run", args=(run_id,), immutable=True)


# --- SCORING -> FINALIZING -> DONE ----------------------------------------------------------------


def finalize(run_id: int) -> bool:
    """Close the round when no batch is open any more. False: batches are open, or it is closed."""
    open_batches = ScoreBatch.objects.filter(run_id=OuterRef("pk"), state__in=ScoreBatch.OPEN)
    with transaction.atomic():
        claimed = (
            Run.objects.filter(pk=run_id, status=Run.Status.SCORING)
            .filter(~Exists(open_batches))
            .update(status=Run.Status.FINALIZING, state_changed_at=Now())
        )
        if claimed:
            dream.open_pass(run_id)
    return claimed == 1 and finish(run_id)


def finish(run_id: int) -> bool:
    """Do what is left of the dream pass of a FINALIZING run, make it DONE, and write its memo.

    False: it is not FINALIZING, or another finished it meanwhile.

    Raises:
        StageFailed: a stage failed without which no run is final; see ``memory.dream``.
    """
    number = dream.run_pass(run_id, stages=STAGES)
    finished = number is not None and (
        # a pass begun meanwhile is for another to finish
        Run.objects.filter(pk=run_id, status=Run.Status.FINALIZING, dream_number=number).update(
            status=Run.Status.DONE,
            state_changed_at=Now(),
            done_at=Coalesce(F("done_at"), Now()),
        )
    )
    if finished:
        logger.info("run.done", extra={"run_id": run_id, "dream_pass": number})
        # after the run is DONE for good, and never in the way of that
        transaction.on_commit(partial(run_memo, run_id), robust=True)
    return bool(finished)


def recount(run_id: int, *, force: bool = False) -> bool:
    """Dream of a final run anew, here and now: after a re-grading, a review, or by hand.

    A run that is FINALIZING is finished. If its pass has done a stage, a new one is begun first: the
    rows may have changed behind its back.

    Args:
        force: begin a new pass in any case.

    Returns False when there is nothing to do: the run is still on its way, and its pass to come reads
    the rows as they will be then; or another process finished it.

    Raises:
        StageFailed: as :func:`finish`.
        Run.DoesNotExist: there is no such run.
    """
    with transaction.atomic():
        begun = begin_recount(run_id, force=force)
    return begun and finish(run_id)


def begin_recount(run_id: int, *, force: bool = True) -> bool:
    """The first half of :func:`recount`: the run is FINALIZING, with a pass to be done.

    In the transaction that changed the run's rows, so that whoever changes them and dies has left a run
    that the reaper finishes. *force* and False as there.
    """
    run = held(Run.objects.filter(pk=run_id)).get()
    if run.status == Run.Status.FINALIZING:
        if force or dream.is_begun(run):
            dream.open_pass(run_id)
        return True
    if not _move(run_id, Run.Status.DONE, Run.Status.FINALIZING):
        return False
    dream.open_pass(run_id)
    return True


# --- The reaper -----------------------------------------------------------------------------------


def reap(*, inline: bool = False, impatient: bool = False) -> Reaped:
    """Finish from rows alone what messages did not finish. A run that cannot be does not stop others.

    Args:
        inline: work on batches in this process and send nothing (no broker needed).
        impatient: do not wait for REDISPATCH_AFTER_S of silence first; for people, not for beat.

    Raises:
        OperationalError, InterfaceError: the database is away.
    """
    return _Sweep(inline=inline, impatient=impatient).run()


class _Sweep:
    """One pass over the runs that wait for something."""

    def __init__(self, *, inline: bool, impatient: bool) -> None:
        self.done = Reaped()
        self.inline = inline
        self.silent = 0.0 if impatient else settings.REDISPATCH_AFTER_S
        # rows of a round fail one after the other: retried together they are one round, not many
        self.gather = 0.0 if impatient else settings.JUDGE_RETRY_AFTER_S / 2
        # a chord needs the result backend too: without it, single messages still go out
        self.chords, self.messages = Outbox(muted=inline), Outbox(muted=inline)

    def run(self) -> Reaped:
        before = Now() - timedelta(seconds=self.silent)
        of = Run.objects.filter
        quiet = {"state_changed_at__lte": before}
        self._each("recording", lambda: _ids(silent_recordings()), self._close)
        self._each("ingested", lambda: _ids(of(status="ingested", **quiet)), self._dispatch)
        self._each("retry", self._due, self._reopen)
        self._each("scoring", lambda: _ids(of(status="scoring")), self._carry_on)
        self._each("finalizing", lambda: _ids(of(status="finalizing", **quiet)), self._finish)
        return self.done

    def _each(self, name: str, look: Callable[[], list[int]], step: Callable[[int], None]) -> None:
        """Do *step* for each run that *look* finds; *name* says what they wait for."""
        found: list[int] = []
        with self._guard(look=name):
            found = look()
        for run_id in found:
            with self._guard(run_id):
                step(run_id)

    @contextlib.contextmanager
    def _guard(self, *run_ids: int, look: str = "") -> Iterator[None]:
        """An error in here concerns these runs, or this look, alone; all of a sweep runs inside one."""
        try:
            yield
        except Exception as error:
            if isinstance(error, LOST_DATABASE) and not connection.is_usable():
                raise
            about = {"run_ids": list(run_ids), "look": look}
            logger.exception("run.sweep_failed", extra=about)
            self.done.errors += run_ids
            self.done.failed_looks += [look] if look else []

    def _close(self, run_id: int) -> None:
        if close_recording(run_id):
            self.done.closed.append(run_id)

    def _dispatch(self, run_id: int) -> None:
        # a run that stays INGESTED gets its whole chord from a later sweep
        if not self.chords.away and dispatch(run_id, outbox=self.chords):
            self.done.dispatched.append(run_id)

    def _due(self) -> list[int]:
        """Runs with judge calls to be asked again, if somebody is there to be asked."""
        ripe = Now() - timedelta(seconds=self.gather)
        rows = Retrieval.objects.counted().filter(llm_retry_at__lte=ripe, run__status="done")
        due = list(rows.order_by("run_id").values_list("run_id", flat=True).distinct())
        if not due or not enabled(Signal.JUDGE):
            return []
        with self._guard(*due):
            if not judge.is_away():
                return due
            logger.info("judge.away", extra={"runs": len(due)})
        return []

    def _reopen(self, run_id: int) -> None:
        if not self.chords.away and reopen(run_id, outbox=self.chords):
            self.done.reopened.append(run_id)

    def _carry_on(self, run_id: int) -> None:
        just_sent = run_id in self.done.dispatched or run_id in self.done.reopened
        if self.inline or not just_sent:
            self._help_batches(run_id)
        if finalize(run_id):
            self.done.finalized.append(run_id)

    def _finish(self, run_id: int) -> None:
        if finish(run_id):
            self.done.finalized.append(run_id)

    def _help_batches(self, run_id: int) -> None:
        """Send again what nobody holds; fail what has been tried too often."""
        for batch in unheld(run_id, silent=self.silent, inline=self.inline):
            again = judge.retry_delay(batch.round, of=batch)
            if batches.fail_exhausted(batch, judge_again_in_s=again):
                self.done.failed.append(batch.pk)
            elif self.inline:
                score_batch(batch.pk)
                self.done.resent.append(batch.pk)
            elif is_due(batch, self.silent) and send_again(batch, self.messages):
                self.done.resent.append(batch.pk)


def _ids(runs: RunQuerySet) -> list[int]:
    return list(runs.order_by("state_changed_at").values_list("pk", flat=True))
