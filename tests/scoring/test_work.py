"""The door to a batch: what fails is stored, what is lost is raised, what is held is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError
from django.db.utils import DataError

from scoring import batches, work
from scoring.models import ScoreBatch, Signal
from tests.scoring.score_batches import batch_of, expire, long_ago

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db


def step(monkeypatch: pytest.MonkeyPatch, does: Callable[[batches.Lease], int]) -> ScoreBatch:
    """A batch whose step is *does*."""
    monkeypatch.setitem(work.STEPS, Signal.TRACE, does)
    return batch_of()


def raising(error: Exception) -> Callable[[batches.Lease], int]:
    def fail(_lease: batches.Lease) -> int:
        raise error

    return fail


def state_of(batch: ScoreBatch) -> tuple[str, str]:
    batch.refresh_from_db()
    return batch.state, batch.reason


@pytest.mark.parametrize("error", [KeyError("tip"), DataError("value too long")])
def test_an_error_is_stored_and_not_raised(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = step(monkeypatch, raising(error))
    assert work.score_batch(batch.pk) == batch.pk
    assert state_of(batch) == ("new", f"{type(error).__name__}: {error}")


def test_a_lost_database_is_raised_and_the_lease_is_left_to_run_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = step(monkeypatch, raising(OperationalError("server closed the connection")))
    with pytest.raises(OperationalError):
        work.score_batch(batch.pk)
    assert state_of(batch) == ("leased", "")


def test_a_worker_whose_lease_was_taken_leaves_the_batch_to_its_new_holder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[batches.Lease | None] = []

    def freeze(lease: batches.Lease) -> int:
        expire(lease.batch)
        taken.append(batches.claim(lease.batch.pk))
        batches.renew(long_ago(lease))
        raise AssertionError("worked on without a lease")

    batch = step(monkeypatch, freeze)
    work.score_batch(batch.pk)
    assert taken[0] is not None
    batch.refresh_from_db()
    assert (batch.state, batch.lease_token) == ("leased", taken[0].token)


def test_a_batch_that_somebody_holds_is_not_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = step(monkeypatch, raising(AssertionError("worked on")))
    batches.claim(batch.pk)
    assert work.score_batch(batch.pk) == batch.pk
    assert state_of(batch) == ("leased", "")


def test_a_batch_is_closed_after_its_work_and_a_second_delivery_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Any] = []
    batch = step(monkeypatch, lambda lease: calls.append(lease) or 1)
    for _ in range(2):
        work.score_batch(batch.pk)
    assert state_of(batch) == ("done", "")
    assert len(calls) == 1
