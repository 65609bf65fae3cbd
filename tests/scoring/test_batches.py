"""Leases: one holder at a time, a bounded number of tries, and an end in every case."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scoring import batches
from scoring.models import Signal
from tests.concurrency import Job
from tests.scoring.score_batches import batch_of, claimed, expire, long_ago

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def test_a_batch_has_one_holder_at_a_time() -> None:
    batch = batch_of()
    lease = claimed(batch)
    assert (lease.batch.state, lease.batch.tries) == ("leased", 1)
    assert batches.claim(batch.pk) is None


def test_a_lease_that_is_over_may_be_taken_and_the_first_holder_notices() -> None:
    batch = batch_of()
    first = claimed(batch)
    expire(batch)
    second = claimed(batch)
    assert (second.batch.tries, second.token) != (1, first.token)
    with pytest.raises(batches.LeaseLost):
        batches.renew(long_ago(first))
    assert not batches.close(first)
    assert not batches.give_back(first, reason="late")
    batch.refresh_from_db()
    assert (batch.state, batch.lease_token) == ("leased", second.token)
    assert batches.close(second)


def test_a_lease_that_is_over_and_that_nobody_took_is_renewed() -> None:
    batch = batch_of()
    lease = claimed(batch)
    expire(batch)
    batches.renew(long_ago(lease))
    assert batches.claim(batch.pk) is None


def test_a_lease_is_renewed_in_the_database_only_when_a_quarter_is_over(
    django_assert_num_queries: Any, settings: Any
) -> None:
    settings.SCORE_LEASE_S = 100.0
    lease = claimed(batch_of())
    lease.renewed_at = time.monotonic() - 20
    with django_assert_num_queries(0):
        batches.renew(lease)
    lease.renewed_at = time.monotonic() - 30
    with django_assert_num_queries(1):
        batches.renew(lease)
    with django_assert_num_queries(0):
        batches.renew(lease)


def test_a_batch_that_is_given_back_waits_and_keeps_its_tries_and_its_reason() -> None:
    batch = batch_of()
    assert batches.give_back(claimed(batch), reason="x" * 1000)
    batch.refresh_from_db()
    assert (batch.state, batch.tries, batch.leased_until) == ("new", 1, None)
    assert batch.reason == "x" * 200
    assert claimed(batch).batch.tries == 2


def test_a_closed_batch_is_not_claimed_again() -> None:
    batch = batch_of()
    batches.close(claimed(batch))
    assert batches.claim(batch.pk) is None


def test_a_batch_out_of_tries_is_not_claimed_and_fails_with_a_reason_on_its_open_rows(
    settings: Any,
) -> None:
    settings.SCORE_BATCH_MAX_TRIES = 2
    batch = batch_of(rows=2)
    done, open_row = batch.run.retrievals.order_by("pk")
    type(done).objects.filter(pk=done.pk).update(
        tip_followed_trace=1.0,
        tip_followed_trace_verdict="followed",
        tip_followed_trace_version="1",
    )
    for _ in range(2):
        batch.refresh_from_db()
        assert not batches.fail_exhausted(batch, judge_again_in_s=60)
        claimed(batch)
        expire(batch)
    assert batches.claim(batch.pk) is None
    batch.refresh_from_db()
    assert batches.fail_exhausted(batch, judge_again_in_s=60)
    assert not batches.fail_exhausted(batch, judge_again_in_s=60)
    batch.refresh_from_db()
    assert (batch.state, batch.reason) == ("failed", "its worker died every time")
    done.refresh_from_db()
    open_row.refresh_from_db()
    assert (done.trace_reason, open_row.trace_reason) == ("", "trace_error")


def test_a_batch_that_is_held_does_not_fail_however_often_it_was_tried(settings: Any) -> None:
    settings.SCORE_BATCH_MAX_TRIES = 1
    batch = batch_of()
    claimed(batch)
    batch.refresh_from_db()
    assert not batches.fail_exhausted(batch, judge_again_in_s=60)


def test_the_rows_of_a_failed_judge_batch_are_charged_a_try_and_come_back_while_they_have_one(
    settings: Any,
) -> None:
    settings.SCORE_BATCH_MAX_TRIES, settings.JUDGE_MAX_TRIES = 1, 3
    batch = batch_of(Signal.JUDGE, rows=3, tries=1)
    for tries, row in enumerate(batch.run.retrievals.order_by("pk")):
        type(row).objects.filter(pk=row.pk).update(llm_tries=tries)
    assert batches.fail_exhausted(batch, judge_again_in_s=3600)
    rows = list(batch.run.retrievals.order_by("pk"))
    assert {row.llm_reason for row in rows} == {"judge_error"}
    assert [row.llm_tries for row in rows] == [1, 2, 3]
    due = [row.llm_retry_at for row in rows]
    assert due[0] is not None
    assert due[0] > timezone.now() + 0.9 * HOUR
    assert due[1] == due[0]
    assert due[2] is None


def test_superseded_rows_are_pending_for_every_signal_but_the_judge() -> None:
    batch = batch_of()
    batch.run.retrievals.update(superseded=True)
    found = {signal: batches.pending(signal, batch.run_id).count() for signal in Signal}
    assert found == {Signal.JUDGE: 0, Signal.EMBED: 1, Signal.TRACE: 1}
    assert batches.skip_superseded(batch.run_id) == 1
    assert batch.run.retrievals.get().llm_reason == "skipped"


@pytest.mark.django_db(transaction=True)
def test_nobody_takes_a_batch_over_in_the_middle_of_a_write() -> None:
    batch = batch_of()
    first, rows = claimed(batch), list(batch.run.retrievals.all())
    expire(batch)
    taken: list[batches.Lease | None] = []
    with ExitStack() as jobs, batches.writing(first, rows):
        other = jobs.enter_context(Job(lambda: taken.append(batches.claim(batch.pk))))
        other.until_it_waits()
    assert other.error is None
    assert [lease and lease.batch.tries for lease in taken] == [2]
    with pytest.raises(batches.LeaseLost), batches.writing(first, rows):
        pytest.fail("it has no right to write")
