"""How a run's rows are cut: an attempt is never torn apart, and the last batches are the smallest.

Shaped by tips of one attempt that were asked about by two workers, in two calls.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from memory.models import Retrieval
from scoring import batches
from scoring.models import Signal
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from memory.models import Run

pytestmark = pytest.mark.django_db


def run_of(sizes: list[int], *, shuffled: bool = False) -> Run:
    """A run with as many retrievals per attempt; shuffled: their rows are interleaved."""
    run = make_run()
    tips = [make_tip() for _ in range(max(sizes))]
    pattern = make_retrieval(attempt=make_attempt(run=run), tip=tips[0])
    rows = []
    for size in sizes:
        attempt = make_attempt(run=run)
        for rank in range(size):
            row = Retrieval.objects.get(pk=pattern.pk)
            row.pk, row.attempt, row.tip, row.rank = None, attempt, tips[rank], rank + 1
            rows.append(row)
    if shuffled:
        random.Random(7).shuffle(rows)
    Retrieval.objects.bulk_create(rows)
    return run


@pytest.mark.parametrize("shuffled", [False, True])
def test_no_attempt_is_torn_apart_and_no_row_is_lost(shuffled: bool) -> None:
    run = run_of([5, 1, 12, 3, 5, 5, 2] * 8, shuffled=shuffled)
    planned = batches.plan(run, (Signal.JUDGE,))
    seen: dict[int, int] = {}
    count = 0
    for batch in planned:
        rows = Retrieval.objects.filter(pk__gte=batch.first_id, pk__lte=batch.last_id)
        for row in rows.filter(run=run):
            assert seen.setdefault(row.attempt_id, batch.number) == batch.number
            count += 1
    assert count == run.retrievals.count()
    assert shuffled or len(planned) > 40


def test_a_small_run_has_a_batch_per_attempt() -> None:
    planned = batches.plan(run_of([5] * 10), (Signal.JUDGE,))
    assert len(planned) == 11


def test_a_large_run_stays_within_the_limit_and_ends_with_small_batches() -> None:
    run = run_of([5] * 600)
    planned = batches.plan(run, (Signal.JUDGE,))
    sizes = [batch.last_id - batch.first_id + 1 for batch in planned]
    assert len(planned) <= batches.BATCHES_AT_MOST[Signal.JUDGE]
    assert sizes[0] > 3_000 / batches.BATCHES_AT_MOST[Signal.JUDGE]
    assert sizes[-1] <= 5
    assert sum(sizes) == 3_001


@pytest.mark.parametrize("rows_of_each", [1, 2, 3, 5])
def test_any_number_of_rows_can_be_cut(rows_of_each: int) -> None:
    """Rounds that ask again have few open rows of each attempt: a run once had too many to be cut."""
    for number in (*range(1, 40), *range(2_000, 30_000, 317)):
        rows = [(row, row // rows_of_each) for row in range(number)]
        cuts = list(batches._at_attempts(rows))
        assert len(cuts) <= batches.BATCHES_AT_MOST[Signal.JUDGE]
        firsts, lasts = zip(*cuts, strict=True)
        assert firsts == (0, *(last + 1 for last in lasts[:-1]))
        assert lasts[-1] == number - 1
