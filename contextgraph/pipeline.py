"""How a run becomes final: ingest -> score -> dream. The only file that builds chords.

Guarantees: every state is a row and every step a claim by UPDATE, so each step may be called twice,
early, late or by hand. Broker and result backend carry hints: after both are wiped, :func:`reap`
alone finishes every run. A round's dream pass is counted once.

Does not guarantee an order between runs, nor that a header task runs only once.

    INGESTED --dispatch--> SCORING --finalize--> FINALIZING --finish--> DONE
                              ^                                          |
                              +------------- reopen (retries due) -------+

Shaped by: chords that lose their body (a flushed broker, an expired key, a lost worker), measured
with real kills; the body here is a recount of rows that a reaper may call as well.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from celery import chord, current_app, group
from django.conf import settings
from django.db import transaction
from django.db.models import DurationField, Exists, ExpressionWrapper, F, Max, OuterRef
from django.db.models.functions import Now

from memory.credit import policy_named
from memory.dream import dream
from memory.models import DreamPass, Retrieval, Run
from memory.reasons import Reason
from scoring import batches
from scoring.judge import service as judge
from scoring.models import ScoreBatch, Signal
from scoring.tasks import TASK_OF
from scoring.work import score_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.querysets import RunQuerySet

logger = logging.getLogger(__name__)

RESEND_PATIENCE: Final = 15
"""Times REDISPATCH_AFTER_S: the longest pause between two messages for a batch nobody works on."""

MACHINE_SIGNALS = (Signal.TRACE, Signal.EMBED, Signal.JUDGE)


# --- INGESTED -> SCORING --------------------------------------------------------------------------


def dispatch(run_id: int) -> bool:
    """Cut the run into batches and send its chord. False: it was not waiting to be dispatched."""
    with transaction.atomic():
        if not _move(run_id, Run.Status.INGESTED, Run.Status.SCORING):
            return False
        _open_round(run_id, MACHINE_SIGNALS)
    return True


def reopen(run_id: int, *, now_due: bool = True) -> bool:
    """DONE -> SCORING for the failed judge calls whose retry is due. False: nothing to do."""
    with transaction.atomic():
        due = Retrieval.objects.filter(run_id=run_id, llm_retry_at__isnull=False)
        if now_due:
            due = due.filter(llm_retry_at__lte=Now())
        if not due.exists() or not _move(run_id, Run.Status.DONE, Run.Status.SCORING):
            return False
        due.update(llm_reason="", llm_retry_at=None)
        _open_round(run_id, (Signal.JUDGE,))
    return True


def enabled(signal: Signal) -> bool:
    """Whether a signal is computed here; a judge must be configured too."""
    if signal not in settings.SIGNALS:
        return False
    return signal is not Signal.JUDGE or judge.configured()


def _move(run_id: int, old: Run.Status, new: Run.Status) -> bool:
    moved = Run.objects.filter(pk=run_id, status=old).update(status=new, state_changed_at=Now())
    return moved == 1


def _open_round(run_id: int, signals: tuple[Signal, ...]) -> None:
    """Create the batches of the next scoring round; the chord goes out after the commit."""
    Run.objects.filter(pk=run_id).update(scoring_round=F("scoring_round") + 1)
    run = Run.objects.get(pk=run_id)
    for signal in signals:
        if not enabled(signal):
            skipped = batches.pending(signal, run_id).update(
                **{batches.REASON_COLUMN[signal]: Reason.SKIPPED}
            )
            logger.info("run.signal_skipped", extra={"run_id": run_id, "rows": skipped})
    signals = tuple(signal for signal in signals if enabled(signal))
    planned = batches.plan(run, signals)
    ScoreBatch.objects.bulk_create(planned, ignore_conflicts=True)

    def send() -> None:
        _send_chord(run_id, run.scoring_round)

    transaction.on_commit(send, robust=True)
    logger.info("run.scoring", extra={"run_id": run_id, "batches": len(planned)})


def _send_chord(run_id: int, scoring_round: int) -> None:
    """Publish the round's chord. A broker that is away is no error: the reaper sends it again."""
    rows = ScoreBatch.objects.filter(run_id=run_id, round=scoring_round, state="new")
    header = [_header(signal, pk) for pk, signal in rows.values_list("pk", "signal")]
    body, errback = _finalize_signature(run_id), _finalize_signature(run_id)
    try:
        if not header:  # an empty header would run the body in this process
            body.apply_async()
            return
        chord(group(header), body.on_error(errback)).apply_async()
    except Exception:  # every broker has errors of its own; rows decide, so none of them matters
        logger.warning("run.publish_failed", extra={"run_id": run_id}, exc_info=True)


def _header(signal: str, batch_id: int) -> Any:
    return TASK_OF[signal].si(batch_id)


def _finalize_signature(run_id: int) -> Any:
    """The task by its name: contextgraph.tasks sits above this room."""
    return current_app.signature("contextgraph.finalize_run", args=(run_id,), immutable=True)


# --- SCORING -> FINALIZING -> DONE ----------------------------------------------------------------


def finalize(run_id: int) -> bool:
    """Close the round when no batch is open any more. False: batches are open, or it is closed."""
    open_batches = ScoreBatch.objects.filter(run_id=OuterRef("pk"), state__in=ScoreBatch.OPEN)
    claimed = (
        Run.objects.filter(pk=run_id, status=Run.Status.SCORING)
        .filter(~Exists(open_batches))
        .update(status=Run.Status.FINALIZING, state_changed_at=Now())
    )
    return claimed == 1 and finish(run_id)


def finish(run_id: int) -> bool:
    """Recount the rows of a FINALIZING run and make it DONE, in one transaction."""
    policy = policy_named(settings.CREDIT_POLICY)
    with transaction.atomic():
        run = Run.objects.select_for_update().get(pk=run_id)
        if run.status != Run.Status.FINALIZING:
            return False
        DreamPass.objects.get_or_create(
            run=run,
            number=run.scoring_round,
            defaults={
                "policy": policy.name,
                "retrievals": run.retrievals.count(),
                "summary": dream(run, policy=policy),
            },
        )
        Run.objects.filter(pk=run_id, done_at__isnull=True).update(done_at=Now())
        _move(run_id, Run.Status.FINALIZING, Run.Status.DONE)
    logger.info("run.done", extra={"run_id": run_id, "round": run.scoring_round})
    return True


# --- The reaper -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Reaped:
    """What one sweep did, by kind; ids of runs and batches."""

    dispatched: list[int] = field(default_factory=list)
    resent: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    finalized: list[int] = field(default_factory=list)
    reopened: list[int] = field(default_factory=list)

    def as_dict(self) -> dict[str, list[int]]:
        """For JSON."""
        return asdict(self)

    def __bool__(self) -> bool:
        return any(self.as_dict().values())


def reap(*, inline: bool = False, impatient: bool = False) -> Reaped:
    """Finish from rows alone what messages did not finish.

    Args:
        inline: work on batches in this process instead of sending them (no broker needed).
        impatient: do not wait for REDISPATCH_AFTER_S of silence first; for people, not for beat.
    """
    done = Reaped()
    silent = 0.0 if impatient else settings.REDISPATCH_AFTER_S
    before = Now() - timedelta(seconds=silent)
    for run_id in _ids(Run.objects.filter(status="ingested", state_changed_at__lte=before)):
        if dispatch(run_id):
            done.dispatched.append(run_id)
    for run_id in _ids(Run.objects.filter(status="scoring")):
        _reap_batches(run_id, done, inline=inline, silent=silent)
        if finalize(run_id):
            done.finalized.append(run_id)
    for run_id in _ids(Run.objects.filter(status="finalizing", state_changed_at__lte=before)):
        if finish(run_id):
            done.finalized.append(run_id)
    # the rows of a round fail one after the other: retried together they are one round, not many
    gather = 0.0 if impatient else settings.JUDGE_RETRY_AFTER_S / 2
    ripe = Retrieval.objects.filter(llm_retry_at__lte=Now() - timedelta(seconds=gather))
    due = ripe.order_by("run_id")
    for run_id in due.values_list("run_id", flat=True).distinct():
        if judge.configured() and reopen(run_id):
            done.reopened.append(run_id)
    return done


def _ids(runs: RunQuerySet) -> list[int]:
    return list(runs.order_by("state_changed_at").values_list("pk", flat=True))


def _reap_batches(run_id: int, done: Reaped, *, inline: bool, silent: float) -> None:
    """Send again what nobody holds; fail what has been tried too often."""
    rows = ScoreBatch.objects.filter(run_id=run_id, state__in=ScoreBatch.OPEN)
    quiet_since = Now() - timedelta(seconds=silent)
    last = ScoreBatch.objects.filter(run_id=run_id).aggregate(last=Max("changed_at"))["last"]
    rows = rows.annotate(
        unsent_for=ExpressionWrapper(Now() - F("sent_at"), DurationField()),
        sent_after=ExpressionWrapper(F("sent_at") - F("changed_at"), DurationField()),
    )
    expired = rows.filter(state="leased", leased_until__lt=Now())
    waiting = rows.filter(state="new", sent_at__lte=quiet_since)
    # a batch queued behind others is not lost: only a run that stands still is helped
    stands_still = (
        last is not None
        and ScoreBatch.objects.filter(
            run_id=run_id, changed_at=last, changed_at__lte=quiet_since
        ).exists()
    )
    candidates: Sequence[ScoreBatch] = [*expired, *(waiting if stands_still or inline else ())]
    for batch in candidates:
        if batches.fail_exhausted(batch):
            done.failed.append(batch.pk)
        elif (inline or _is_due(batch, silent)) and _send_again(batch, inline=inline):
            done.resent.append(batch.pk)


def _is_due(batch: Any, silent: float) -> bool:
    """Whether a batch may be sent again: after twice as long each time nothing comes of it.

    A worker that is away for a day must not find a message from every sweep of that day.
    """
    patience: float = min(max(silent, batch.sent_after.total_seconds()), RESEND_PATIENCE * silent)
    return bool(batch.unsent_for.total_seconds() >= patience)


def _send_again(batch: ScoreBatch, *, inline: bool) -> bool:
    """Publish one header by itself; its run is finalized by a later sweep."""
    ScoreBatch.objects.filter(pk=batch.pk).update(sent_at=Now())
    if inline:
        score_batch(batch.pk)
        return True
    try:
        TASK_OF[batch.signal].apply_async((batch.pk,))
    except Exception:  # see _send_chord
        logger.warning("batch.publish_failed", extra={"batch_id": batch.pk}, exc_info=True)
        return False
    return True
