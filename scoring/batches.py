"""Score batches: how a run's retrievals are cut into header tasks, and who may work on one.

Guarantees: at most HEADER_LIMIT batches a round whatever the run's size; one holder of a batch at a
time, by lease; tries are counted before the work, so a batch that kills its process ends in FAILED.
That a round asks the judge anew stands in its batches, so that a worker on any host obeys it.
All times are the database's, so that hosts with other clocks agree.

Shaped by: a task that crashed its worker was redelivered for ever; the count was kept in the message.
"""

from __future__ import annotations

import logging
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now

from memory import locks
from memory.models import Retrieval
from memory.reasons import Reason
from scoring.models import ScoreBatch, Signal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from django.db.models import QuerySet

    from memory.models import Run
    from memory.querysets import RetrievalQuerySet

logger = logging.getLogger(__name__)

HEADER_LIMIT: Final = 200
"""Header tasks of one chord; every header message carries a copy of the body (celery#3324)."""

ROWS_PER_BATCH: Final = {Signal.JUDGE: 1, Signal.EMBED: 256, Signal.TRACE: 500}
"""Aimed at; more when the run is so large that BATCHES_AT_MOST would be exceeded. The judge's batches
end where an attempt ends."""

BATCHES_AT_MOST: Final = {Signal.JUDGE: 100, Signal.EMBED: 30, Signal.TRACE: 30}

TAPER: Final = 0.6
"""The judge's next batch holds 1 / (TAPER x batches left) of what remains; 1 would make them even."""
SPREAD: Final = 0.8
"""Its sizes vary by this share, from TAPER to TAPER + SPREAD of that: workers that begin together would
end together again and again, all of them at the books and none at the judge."""
GOLDEN: Final = 0.618033988749895
"""Steps of the golden ratio, modulo 1, lie evenly spread wherever one stops."""

FAILED_REASON: Final = {
    Signal.JUDGE: Reason.JUDGE_ERROR,
    Signal.EMBED: Reason.EMBEDDING_ERROR,
    Signal.TRACE: Reason.TRACE_ERROR,
}

REASON_COLUMN: Final = {
    Signal.JUDGE: "llm_reason",
    Signal.EMBED: "emb_reason",
    Signal.TRACE: "trace_reason",
}


class LeaseLost(RuntimeError):
    """Another worker holds the batch now; stop without writing."""


@dataclass(slots=True)
class Lease:
    """The right to work on *batch*, until it runs out or another worker has taken it over.

    ``renewed_at`` is this process's monotonic clock in seconds: it spares the database, and decides
    nothing (who holds the batch is decided by ``token`` and the database's clock).
    """

    batch: ScoreBatch
    token: str
    renewed_at: float


def pending(signal: Signal, run_id: int) -> RetrievalQuerySet:
    """The rows of a run that still lack *signal* and have no reason for it, in id order.

    Rows of a superseded revision are not judged: nothing that costs money reads them any more.
    """
    rows = Retrieval.objects.filter(run_id=run_id)
    narrowed = {
        Signal.JUDGE: rows.counted().llm_pending,
        Signal.EMBED: rows.emb_pending,
        Signal.TRACE: rows.trace_pending,
    }[signal]()
    return narrowed.order_by("id")


def skip_superseded(run_id: int) -> int:
    """Give the rows that :func:`pending` leaves out of judging their reason; returns their number."""
    rows = Retrieval.objects.filter(run_id=run_id, superseded=True)
    return rows.llm_pending().update(llm_reason=Reason.SKIPPED)


def plan(run: Run, signals: tuple[Signal, ...], *, without_cache: bool = False) -> list[ScoreBatch]:
    """Cut the pending rows of *run* into unsaved batches for its current scoring round.

    ``without_cache``: those of the judge take no verdict from the cache, and leave none there.
    """
    return [
        batch
        for signal in signals
        for batch in _slices(run, signal, without_cache=without_cache and signal is Signal.JUDGE)
    ]


def asked_anew(run_id: int) -> bool:
    """Whether the run's latest batches of the judge were without the cache: their retries are too."""
    latest = ScoreBatch.objects.filter(run_id=run_id, signal=Signal.JUDGE).order_by("-round")
    return bool(latest.values_list("without_cache", flat=True).first())


def _slices(run: Run, signal: Signal, *, without_cache: bool) -> Iterator[ScoreBatch]:
    rows = list(pending(signal, run.pk).values_list("pk", "attempt_id"))
    cut = _at_attempts(rows) if signal is Signal.JUDGE else _even(rows, signal)
    for number, (first_id, last_id) in enumerate(cut, start=1):
        yield ScoreBatch(
            run=run,
            round=run.scoring_round,
            signal=signal,
            number=number,
            first_id=first_id,
            last_id=last_id,
            without_cache=without_cache,
            sent_at=Now(),
            changed_at=Now(),
        )


def _even(rows: Sequence[tuple[int, int]], signal: Signal) -> Iterator[tuple[int, int]]:
    """Cut (row, attempt) into ranges of one size: first and last row of each."""
    size = max(ROWS_PER_BATCH[signal], ceil(len(rows) / BATCHES_AT_MOST[signal]))
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield part[0][0], part[-1][0]


def _at_attempts(rows: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Cut (row, attempt) where no attempt is torn apart, into ranges that grow smaller.

    The tips of an attempt are asked about together. Ingest writes an attempt's rows in one stretch;
    where two attempts are interleaved all the same, both stay in one range. The last ranges are the
    smallest, so that no worker has a long one left when the others have none.
    """
    last_of = {attempt: row for row, attempt in rows}
    left = BATCHES_AT_MOST[Signal.JUDGE]
    size = _tapered(len(rows), left)
    start = open_until = 0
    for at, (row, attempt) in enumerate(rows):
        open_until = max(open_until, last_of[attempt])
        if at + 1 - start >= size and open_until <= row:
            yield rows[start][0], row
            start, left = at + 1, left - 1
            size = _tapered(len(rows) - start, left)
    if start < len(rows):
        yield rows[start][0], rows[-1][0]


def _tapered(rows: int, left: int) -> int:
    """Rows of the next of *left* ranges: more than its share, so that less remains for the later ones."""
    left = max(1, left)  # all are given out: it is asked once more, for whatever remains
    part = (TAPER + SPREAD * (left * GOLDEN % 1.0)) / (left * TAPER)
    return max(ROWS_PER_BATCH[Signal.JUDGE], round(rows * min(1.0, part)))


def claim(batch_id: int) -> Lease | None:
    """Lease a batch. None: someone else holds it, it is closed, or its tries are used up."""
    token = str(uuid.uuid4())
    asked_at = time.monotonic()
    claimable = Q(state=ScoreBatch.State.NEW) | Q(
        state=ScoreBatch.State.LEASED, leased_until__lt=Now()
    )
    claimed = ScoreBatch.objects.filter(
        claimable, pk=batch_id, tries__lt=settings.SCORE_BATCH_MAX_TRIES
    ).update(
        state=ScoreBatch.State.LEASED,
        leased_until=Now() + timedelta(seconds=settings.SCORE_LEASE_S),
        lease_token=token,
        tries=F("tries") + 1,
        changed_at=Now(),
    )
    if claimed != 1:
        return None
    batch = ScoreBatch.objects.get(pk=batch_id)
    return Lease(batch=batch, token=token, renewed_at=asked_at)


def renew(lease: Lease) -> None:
    """Extend the lease between two steps of work, once a quarter of it is over. Raises LeaseLost."""
    asked_at = time.monotonic()
    if asked_at - lease.renewed_at < settings.SCORE_LEASE_S / 4:
        return
    kept = _held(lease).update(
        leased_until=Now() + timedelta(seconds=settings.SCORE_LEASE_S), changed_at=Now()
    )
    if kept != 1:
        raise LeaseLost(_taken_over(lease))
    lease.renewed_at = asked_at


@contextmanager
def writing(lease: Lease, rows: Iterable[Retrieval]) -> Iterator[None]:
    """A transaction with *rows* locked, in which nobody can take the batch over. Raises LeaseLost."""
    with transaction.atomic():
        if not locks.held(_held(lease).only("pk")):
            raise LeaseLost(_taken_over(lease))
        list(locks.held(Retrieval.objects.filter(pk__in=[row.pk for row in rows]).only("pk")))
        yield


def close(lease: Lease) -> bool:
    """LEASED -> DONE. False: the lease was lost meanwhile, and its new holder will close it."""
    return _leave(lease, state=ScoreBatch.State.DONE, reason="")


def give_back(lease: Lease, *, reason: str) -> bool:
    """LEASED -> NEW after an error; the reaper sends it again until its tries are used up."""
    return _leave(lease, state=ScoreBatch.State.NEW, reason=reason[:200])


def _taken_over(lease: Lease) -> str:
    return f"{lease.batch} is held by another worker, or closed"


def _held(lease: Lease) -> QuerySet[ScoreBatch]:
    return ScoreBatch.objects.filter(
        pk=lease.batch.pk, state=ScoreBatch.State.LEASED, lease_token=lease.token
    )


def _leave(lease: Lease, *, state: ScoreBatch.State, reason: str) -> bool:
    left = _held(lease).update(
        state=state, leased_until=None, lease_token="", reason=reason, changed_at=Now()
    )
    return left == 1


def fail_exhausted(batch: ScoreBatch, *, judge_again_in_s: float) -> bool:
    """NEW or expired -> FAILED when the tries are used up; its open rows get the reason code.

    A row of the judge is charged one try for it. One that has tries left is asked again after
    *judge_again_in_s* seconds: what killed the batch was perhaps one of its other rows.
    """
    if batch.tries < settings.SCORE_BATCH_MAX_TRIES:
        return False
    stuck = Q(state=ScoreBatch.State.NEW) | Q(state=ScoreBatch.State.LEASED, leased_until__lt=Now())
    reason = batch.reason or "its worker died every time"
    with transaction.atomic():
        failed = ScoreBatch.objects.filter(
            stuck, pk=batch.pk, tries__gte=settings.SCORE_BATCH_MAX_TRIES
        ).update(
            state=ScoreBatch.State.FAILED,
            leased_until=None,
            lease_token="",
            reason=reason,
            changed_at=Now(),
        )
        if failed != 1:
            return False
        rows = _fail_rows(batch, judge_again_in_s)
    logger.error("batch.failed", extra={"batch": str(batch), "rows": rows, "reason": reason})
    return True


def _fail_rows(batch: ScoreBatch, judge_again_in_s: float) -> int:
    signal = Signal(batch.signal)
    values: dict[str, Any] = {REASON_COLUMN[signal]: FAILED_REASON[signal]}
    if signal is Signal.JUDGE:
        soon = Now() + timedelta(seconds=judge_again_in_s)
        values["llm_tries"] = F("llm_tries") + 1
        values["llm_retry_at"] = Case(
            When(llm_tries__lt=settings.JUDGE_MAX_TRIES - 1, then=soon), default=Value(None)
        )
    return rows_of(batch).update(**values)


def rows_of(batch: ScoreBatch) -> RetrievalQuerySet:
    """The rows of a batch that still lack its signal."""
    return pending(Signal(batch.signal), batch.run_id).filter(
        pk__gte=batch.first_id, pk__lte=batch.last_id
    )
