"""Ingest takes its locks in the order of dream passes and sweeps, so that none waits in a circle."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from contextgraph import run_rows
from contextgraph.ingest import LogFacts, ingest_records
from memory.models import Retrieval, Run, Tip
from tests.concurrency import Job
from tests.contextgraph.run_documents import attempt, retrieval, run, tip

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from contextgraph.envelope import Record

pytestmark = pytest.mark.django_db(transaction=True)


def store(records: list[Record]) -> None:
    ingest_records(lambda: iter(records), log=LogFacts(), revise=True)


def meet(records: list[Record], *, held: QuerySet[Run] | QuerySet[Tip], wanted: Tip | Run) -> None:
    """Hold *held* until ingest of *records* waits for it, then take *wanted* as well.

    Raises OperationalError when ingest has *wanted* by then: each would wait for the other.
    """
    with ExitStack() as jobs, transaction.atomic():
        assert list(held.select_for_update(no_key=True))
        ingest = jobs.enter_context(Job(lambda: store(records)))
        ingest.until_it_waits()
        rows = type(wanted)._base_manager.select_for_update(no_key=True, nowait=True)
        assert rows.get(pk=wanted.pk)
    assert ingest.error is None


def test_runs_that_are_replaced_are_locked_before_any_tip() -> None:
    """A dream pass holds its run while it retires tips; a run before it in the document fills one."""
    store(run(attempt(retrievals=(retrieval("t1"),)), external_id="old"))
    assert Tip.objects.get().text == ""
    document = [
        *run(tip("t1"), attempt(), external_id="new"),
        *run(attempt(retrievals=(retrieval("t1"),), passed=False), external_id="old"),
    ]
    meet(document, held=Run.objects.filter(external_id="old"), wanted=Tip.objects.get())
    assert sorted(Run.objects.values_list("external_id", "revision")) == [
        ("new", 1), ("old", 1), ("old", 2),
    ]  # fmt: skip
    assert Retrieval.objects.filter(superseded=True).count() == 1


def test_two_documents_that_replace_the_same_runs_the_other_way_round_lock_them_alike() -> None:
    """As the recount does, which locks runs in the order of their keys."""
    for name in ("first", "second"):
        store(run(attempt(retrievals=()), external_id=name))
    document = [
        *run(attempt(retrievals=(), passed=False), external_id="second"),
        *run(attempt(retrievals=(), passed=False), external_id="first"),
    ]
    meet(
        document,
        held=Run.objects.filter(external_id="first"),
        wanted=Run.objects.get(external_id="second"),
    )
    assert Run.objects.filter(revision=2).count() == 2


@pytest.mark.parametrize("at_once", [1_000, 1])
def test_tips_that_get_their_text_are_locked_in_the_order_of_their_keys(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep locks the tips that it retires so. Also when each is written by itself."""
    monkeypatch.setattr(run_rows, "BATCH_ROWS", at_once)
    store(run(attempt(retrievals=(retrieval("a"),)), external_id="one"))
    store(run(attempt(retrievals=(retrieval("b"),)), external_id="two"))
    low, high = Tip.objects.order_by("pk")
    document = run(tip(high.external_id), tip(low.external_id), external_id="three")
    meet(document, held=Tip.objects.filter(pk=low.pk), wanted=high)
    assert not Tip.objects.filter(text="").exists()


def test_runs_whose_rows_get_a_text_are_locked_before_any_tip() -> None:
    """Whoever holds a run writes its rows: a re-grading holds those, and then wants the tip."""
    store(run(attempt(retrievals=(retrieval("t1"),)), external_id="one"))
    document = run(tip("t1"), attempt(retrievals=()), external_id="two")
    meet(document, held=Run.objects.filter(external_id="one"), wanted=Tip.objects.get())
    assert Retrieval.objects.get().shown_text == Tip.objects.get().text
