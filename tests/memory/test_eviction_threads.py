"""Sweeps at the same time, and readers meanwhile, on a real database with real commits."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError, connection, transaction

from memory.eviction import SweepStateError, apply, preview, undo
from memory.models import EvictionSweep, Tip, TipChange, TipEvidence
from memory.retrieval import RankRequest, rank
from tests.memory.sweep_histories import EARNED, GATE, bad_tip, columns, give_past, old_tip

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True)

ALL = GATE.model_copy(update={"cap_share": 1.0})
WAIT_S = 30


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Start all calls together; returns what each gave or raised."""
    start = threading.Barrier(len(calls))
    results: list[object] = [None] * len(calls)

    def run(place: int, call: Callable[[], object]) -> None:
        try:
            start.wait(WAIT_S)
            results[place] = call()
        except SweepStateError as error:
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


def test_two_who_apply_one_sweep_do_it_once() -> None:
    tips = [bad_tip().pk for _ in range(5)]
    sweep = preview("stig", gate=ALL, by="ann")
    results = at_once(lambda: apply(sweep.pk, by="ann"), lambda: apply(sweep.pk, by="bob"))
    refused = [one for one in results if isinstance(one, SweepStateError)]
    assert len(refused) == 1
    assert Counter(TipChange.objects.values_list("tip_id", flat=True)) == Counter(tips)
    sweep.refresh_from_db()
    authors = set(TipChange.objects.values_list("by", flat=True))
    assert authors == {sweep.applied_by}


def waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_locks WHERE NOT granted "
            "AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        )
        return cursor.fetchone() is not None


@pytest.mark.parametrize("step", [apply, undo])
def test_tips_are_locked_in_the_order_of_their_keys(step: Callable[..., object]) -> None:
    """So that no two sweeps, and no ingest, wait for each other."""
    low, high = sorted(bad_tip().pk for _ in range(2))
    sweep = preview("stig", gate=ALL, by="ann")
    if step is undo:
        apply(sweep.pk, by="ann")
    sweeping = threading.Thread(target=lambda: at_once(lambda: step(sweep.pk, by="ann")))
    with transaction.atomic():
        Tip.objects.select_for_update(no_key=True).get(pk=high)
        sweeping.start()
        deadline = time.monotonic() + WAIT_S
        while not waits_for_a_lock() and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(OperationalError, match="could not obtain lock"), transaction.atomic():
            Tip.objects.select_for_update(nowait=True).get(pk=low)
    sweeping.join(WAIT_S)
    assert Tip.objects.active().count() == (2 if step is undo else 0)


@pytest.mark.parametrize("undone_first", [0, 1])
def test_two_sweeps_at_once_retire_each_tip_once_and_either_can_be_undone(
    undone_first: int,
) -> None:
    tips = {bad_tip().pk for _ in range(6)}
    before = columns()
    # the second one knows of fewer tips, so that both have some of their own to fight over
    sweeps = [
        preview("stig", gate=ALL, by="ann"),
        preview("stig", gate=ALL.model_copy(update={"cap": 4}), by="bob"),
    ]
    at_once(*[lambda pk=sweep.pk, by=sweep.created_by: apply(pk, by=by) for sweep in sweeps])
    owners = dict(Tip.objects.values_list("pk", "retired_sweep_id"))
    assert owners.keys() == tips
    assert set(owners.values()) <= {sweep.pk for sweep in sweeps}
    assert Counter(TipChange.objects.values_list("tip_id", flat=True)) == Counter(tips)

    first, second = sweeps[undone_first], sweeps[1 - undone_first]
    undo(first.pk, by="ann")
    assert {tip.pk for tip in Tip.objects.active()} == {
        tip for tip, owner in owners.items() if owner == first.pk
    }
    undo(second.pk, by="ann")
    assert columns() == before


def test_two_who_undo_one_sweep_do_it_once() -> None:
    for _ in range(3):
        bad_tip()
    before = columns()
    sweep = preview("stig", gate=ALL, by="ann")
    apply(sweep.pk, by="ann")
    results = at_once(lambda: undo(sweep.pk, by="ann"), lambda: undo(sweep.pk, by="bob"))
    assert sum(isinstance(one, SweepStateError) for one in results) == 1
    assert columns() == before
    assert TipChange.objects.filter(action="reactivate").count() == 3


def ranked() -> list[tuple[int, float]]:
    """What a retrieval would show: tips with their scores, in order."""
    request = RankRequest(skill="stig", rule_id="rule_x_of_y", category="ssh", k=10)
    return [(tip.tip_id, tip.score) for tip in rank(request).tips]


def test_a_retrieval_during_a_sweep_meets_the_whole_pool_and_after_it_none() -> None:
    for _ in range(5):
        bad_tip(source_rule_id="rule_x_of_z")
    sweep = preview("stig", gate=ALL, by="ann")
    before = ranked()
    assert len(before) == 5
    retired, seen = threading.Event(), threading.Event()

    def slowly() -> None:
        with transaction.atomic():
            apply(sweep.pk, by="ann")
            retired.set()
            assert seen.wait(WAIT_S)

    def meanwhile() -> list[tuple[int, float]]:
        assert retired.wait(WAIT_S)
        try:
            return ranked()
        finally:
            seen.set()

    _, found = at_once(slowly, meanwhile)
    assert found == before
    assert ranked() == []


def test_retrievals_that_go_on_while_sweeps_come_and_go() -> None:
    for _ in range(8):
        bad_tip(source_rule_id="rule_x_of_z")
    sweeps = [preview("stig", gate=ALL, by="ann").pk for _ in range(4)]
    over = threading.Event()

    def read() -> set[tuple[int, int]]:
        seen = set()
        while not seen or not over.is_set():
            pool = len(Tip.objects.active().filter(skill="stig").values_list("pk"))
            seen.add((pool, len(ranked())))
        return seen

    def sweep() -> None:
        try:
            for pk in sweeps:
                apply(pk, by="ann")
                undo(pk, by="ann")
        finally:
            over.set()

    seen, done = at_once(read, sweep)
    assert done is None
    assert isinstance(seen, set)
    assert {pool for pool, _ in seen} | {shown for _, shown in seen} <= {0, 8}


def test_undo_restores_the_ranking_exactly() -> None:
    """And all that it is made of: the tips' columns, and their sums."""
    for visits in (3, 4, 5):
        bad_tip(visits=visits, source_rule_id="rule_x_of_z")
    good = old_tip(source_rule_id="rule_x_of_z")
    give_past(good, *[EARNED] * 3)
    tips = list(Tip.objects.order_by("pk").values())
    sums = list(TipEvidence.objects.order_by("pk").values())
    before = ranked()
    sweep = preview("stig", gate=ALL, by="ann")
    apply(sweep.pk, by="ann")
    assert [tip for tip, _ in ranked()] == [good.pk]
    undo(sweep.pk, by="ann")
    assert ranked() == before
    assert len(before) == 4
    assert list(Tip.objects.order_by("pk").values()) == tips
    assert list(TipEvidence.objects.order_by("pk").values()) == sums
    assert EvictionSweep.objects.get().state == "undone"
