"""What the reaper looks for: batches that nobody holds, recordings that fell silent.

Guarantees: reads rows and claims by UPDATE; a batch is sent again ever more rarely, so that a worker who
was away for a day does not find a message from every sweep of that day. A recording is closed only when
neither its run, nor an attempt, nor a retrieval of it has moved for RECORDING_TIMEOUT_H hours; it has no
end then, because nobody knows it.

Does not decide what becomes of a run: ``contextgraph.pipeline`` does.

Shaped by: chords that lost their body or some of their headers, and agents that were killed at work.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import DurationField, Exists, ExpressionWrapper, F, Max, OuterRef, Q
from django.db.models.functions import Now

from memory.models import Attempt, Retrieval, Run
from memory.store_runs import seal
from scoring.models import ScoreBatch
from scoring.tasks import TASK_OF

if TYPE_CHECKING:
    from contextgraph.outbox import Outbox
    from memory.querysets import RunQuerySet

RESEND_PATIENCE: Final = 15
"""Times REDISPATCH_AFTER_S: the longest pause between two messages for a batch nobody works on."""


@dataclass(slots=True)
class Reaped:
    """What one sweep did, by kind: ids of runs, and of batches (resent, failed); what it could not."""

    closed: list[int] = field(default_factory=list)
    """Recordings of agents that are gone."""
    dispatched: list[int] = field(default_factory=list)
    reopened: list[int] = field(default_factory=list)
    resent: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    finalized: list[int] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    """Runs that met an error of ours; the log says which."""
    failed_looks: list[str] = field(default_factory=list)
    """Runs that could not even be looked for, by what they wait for; nobody knows how many there are."""

    def as_dict(self) -> dict[str, list[Any]]:
        """For JSON."""
        return asdict(self)


# --- Recordings -----------------------------------------------------------------------------------


def silent_recordings() -> RunQuerySet:
    """RECORDING runs whose agent has not been heard of for RECORDING_TIMEOUT_H hours."""
    since = Now() - timedelta(hours=settings.RECORDING_TIMEOUT_H)
    lively = Q(started_at__gt=since) | Q(ended_at__gt=since)
    attempts = Attempt.objects.filter(lively, run_id=OuterRef("pk"))
    retrievals = Retrieval.objects.filter(run_id=OuterRef("pk"), retrieved_at__gt=since)
    silent = Run.objects.filter(status=Run.Status.RECORDING, state_changed_at__lte=since)
    return silent.filter(~Exists(attempts), ~Exists(retrievals))


def close_recording(run_id: int) -> bool:
    """RECORDING -> INGESTED without an end, if the run is still silent. False: it is not."""
    claimed = silent_recordings().filter(pk=run_id)
    with transaction.atomic():
        moved = claimed.update(
            status=Run.Status.INGESTED, ended_at=None, ingested_at=Now(), state_changed_at=Now()
        )
        if moved:
            run = Run.objects.get(pk=run_id)
            seal(run)
            run.save(update_fields=["digest", "hazards"])
    return moved == 1


# --- Batches --------------------------------------------------------------------------------------


def unheld(run_id: int, *, silent: float, inline: bool) -> list[ScoreBatch]:
    """Open batches with nobody working on them: the lease is over, or the run stands still."""
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
    return [*expired, *(waiting if stands_still or inline else ())]


def is_due(batch: Any, silent: float) -> bool:
    """Whether a batch of :func:`unheld` may be sent again: after twice as long each time."""
    patience: float = min(max(silent, batch.sent_after.total_seconds()), RESEND_PATIENCE * silent)
    return bool(batch.unsent_for.total_seconds() >= patience)


def send_again(batch: ScoreBatch, outbox: Outbox) -> bool:
    """Publish one header by itself; its run is finalized by a later sweep."""
    if outbox.away:
        return False
    # claimed first, so that of two sweeps one sends; not sent after all, it is due as before
    mine = ScoreBatch.objects.filter(pk=batch.pk, sent_at=batch.sent_at).update(sent_at=Now())
    if not mine:
        return False
    task = TASK_OF[batch.signal]
    # nobody counts this result: without it, the message needs no result backend
    send = partial(task.apply_async, (batch.pk,), ignore_result=True)
    if outbox.publish(send, batch_id=batch.pk):
        return True
    ScoreBatch.objects.filter(pk=batch.pk).update(sent_at=batch.sent_at)
    return False
