"""Several agents at one store, on a real database with real commits."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from contextgraph.agent import memory_store
from memory.models import Attempt, Retrieval, Run, Tip
from memory.store import RunClosed, RunExists, StoreRefused
from memory.store_records import digest
from tests.memory.ranking_rows import RULE, rule_tip

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_S = 60


@pytest.fixture(autouse=True)
def _broker(broker: str) -> None:
    """The end of a run is announced to it."""


def at_once(*calls: Callable[[], object]) -> list[Any]:
    """Start all calls together; what each gave, or how it was refused."""
    start = threading.Barrier(len(calls))
    results: list[object] = [None] * len(calls)

    def run(place: int, call: Callable[[], object]) -> None:
        try:
            start.wait(WAIT_S)
            results[place] = call()
        except StoreRefused as error:
            results[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(place, call)) for place, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    return results


def test_attempts_at_one_rule_at_once_get_numbers_of_their_own() -> None:
    tips = [rule_tip(text=f"Option {number} on") for number in range(3)]
    store = memory_store("stig")
    run = store.start_run("n1")
    results = at_once(*[lambda: store.retrieve(run, RULE)] * 4, *[lambda: store.save_attempt(
        run, RULE, number=9, script="x", passed=True)] * 2)  # fmt: skip
    got, saved = results[:4], results[4:]
    assert saved[0] == saved[1]
    numbers = sorted(one.attempt_number for one in got)
    assert len(set(numbers)) == 4
    assert 9 not in numbers
    assert Attempt.objects.count() == 5
    assert Retrieval.objects.count() == 4 * len(tips)


def test_one_open_attempt_that_two_retrieve_for_is_logged_once() -> None:
    rule_tip()
    store = memory_store("stig")
    run = store.start_run("n1")
    one, two = at_once(*[lambda: store.retrieve(run, RULE, attempt=1)] * 2)
    assert one == two
    assert Retrieval.objects.count() == 1


def test_of_two_who_begin_or_end_one_run_one_does() -> None:
    store = memory_store("stig")
    begun = at_once(*[lambda: store.start_run("n1")] * 2)
    assert sorted(type(one).__name__ for one in begun) == ["RunExists", "RunHandle"]
    run = next(one for one in begun if not isinstance(one, RunExists))
    assert sorted(at_once(*[lambda: store.end_run(run)] * 3)) == [False, False, True]


def test_a_tip_and_a_ban_saved_by_all_at_once_are_one() -> None:
    store = memory_store("stig")
    run = store.start_run("n1")
    tips = at_once(*[lambda: store.save_tip("Set it first", run=run)] * 4)
    other = memory_store("stig").start_run("n2")
    tips += at_once(
        lambda: store.save_tip("Then restart", run=run),
        lambda: store.save_tip("then RESTART.", run=other),
    )
    assert sum(saved.created for saved in tips) == 2
    assert Tip.objects.count() == 2
    assert len(set(at_once(*[lambda: store.add_ban(run, "rm -rf")] * 4))) == 1


def test_of_two_runs_that_learn_one_lesson_at_once_one_is_told_that_it_is_new() -> None:
    store = memory_store("stig")
    one, two = store.start_run("n1"), store.start_run("n2")
    for number in range(8):
        saved = at_once(
            lambda number=number: store.save_tip(f"Option {number} first", run=one),
            lambda number=number: store.save_tip(f"option {number} FIRST.", run=two),
        )
        assert sorted(each.created for each in saved) == [False, True]
        assert len({each.tip_id for each in saved}) == 1


def test_what_comes_while_a_run_ends_is_in_its_digest_or_refused() -> None:
    rule_tip()
    store = memory_store("stig")
    for number in range(5):
        run = store.start_run(f"n{number}")
        verbs = [lambda run=run: store.retrieve(run, RULE)] * 3
        results = at_once(*verbs, lambda run=run: store.end_run(run))
        row = Run.objects.get(pk=run.id)
        refused = sum(isinstance(one, RunClosed) for one in results)
        assert row.attempts.count() + refused == 3
        assert digest(row) == row.digest
