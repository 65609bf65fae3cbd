"""Builders of score batches and leases, for the tests of what works on them. No assertions but one."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Max
from django.utils import timezone

from scoring import batches
from scoring.models import ScoreBatch, Signal
from tests.factories import make_attempt, make_retrieval, make_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.models import Retrieval


def batch_over(rows: Sequence[Retrieval], signal: Signal, **fields: Any) -> ScoreBatch:
    """The next batch of the first round of a run, over these rows of it."""
    run = rows[0].run
    last = run.score_batches.filter(signal=signal).aggregate(last=Max("number"))["last"] or 0
    values: dict[str, Any] = {"round": 1, "number": last + 1, "changed_at": timezone.now()}
    return ScoreBatch.objects.create(
        run=run, signal=signal, first_id=rows[0].pk, last_id=rows[-1].pk, **(values | fields)
    )


def batch_of(signal: Signal = Signal.TRACE, *, rows: int = 1, **fields: Any) -> ScoreBatch:
    """A batch over new rows of a new run."""
    run = make_run(status="scoring", scoring_round=1)
    made = [make_retrieval(attempt=make_attempt(run=run)) for _ in range(rows)]
    return batch_over(made, signal, **fields)


def claimed(batch: ScoreBatch) -> batches.Lease:
    lease = batches.claim(batch.pk)
    assert lease is not None
    return lease


def expire(batch: ScoreBatch) -> None:
    """As after a process that held the batch has died."""
    past = timezone.now() - timedelta(hours=1)
    ScoreBatch.objects.filter(pk=batch.pk).update(leased_until=past)


def long_ago(lease: batches.Lease) -> batches.Lease:
    """As after an hour of work on one row."""
    lease.renewed_at = time.monotonic() - 3600
    return lease
