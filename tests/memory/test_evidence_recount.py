"""Recount, check, and writers at the same time: what drifted is named and mended, open runs are left."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from memory import evidence, locks
from memory.credit import POLICIES, Policy
from memory.models import Retrieval, Run, RunEvidence, Tip, TipEvidence
from tests.concurrency import Job
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True)

PER_RUN = 2 * len(POLICIES)
"""RunEvidence rows of a run made by :func:`finished`."""


def finished(*tips: Tip, skill: str = "stig") -> Run:
    """A final run of one rule into which these tips (or two new ones) went, in evidence."""
    run = make_run(skill=skill, status="done")
    attempt = make_attempt(run=run, rule_id="rule_a", outcome=0.7)
    for tip in tips or (make_tip(skill=skill), make_tip(skill=skill)):
        make_retrieval(attempt=attempt, tip=tip, llm=True)
    refresh(run)
    return run


def refresh(*runs: Run) -> int:
    with transaction.atomic():
        return evidence.refresh([run.pk for run in runs])


def test_a_refresh_outside_a_transaction_is_refused() -> None:
    run = make_run()
    with pytest.raises(transaction.TransactionManagementError, match="inside the transaction"):
        evidence.refresh([run.pk])


def test_a_memory_without_fault_checks_clean_and_recounts_to_itself() -> None:
    finished()
    finished(skill="cve")
    before = list(TipEvidence.objects.order_by("pk").values())
    assert evidence.check() == []
    assert evidence.recount() == evidence.Recounted(runs=2, run_rows=0, tip_rows=0)
    assert list(TipEvidence.objects.order_by("pk").values()) == before


def test_a_drifted_sum_is_named_and_mended() -> None:
    run = finished()
    row = TipEvidence.objects.filter(level="tip", policy="adr0019").first()
    assert row is not None
    TipEvidence.objects.filter(pk=row.pk).update(credit_total=5, visits=0)
    (found,) = evidence.check()
    assert found.as_dict() == {
        "table": "tip_evidence",
        "key": {
            "skill": "stig", "policy": "adr0019", "level": "tip", "key": "", "tip_id": row.tip_id,
        },
        "wanted": {"credit_total": "0.700000000000", "visits": "1"},
        "stored": {"credit_total": "5.000000000000", "visits": "0"},
    }  # fmt: skip
    assert "stored credit_total=5.000000000000 visits=0, counted" in str(found)
    assert evidence.recount(skill=run.skill).tip_rows == 1
    assert evidence.check() == []


def test_rows_changed_behind_its_back_are_named_and_mended() -> None:
    run = finished()
    Retrieval.objects.filter(run=run).update(outcome_value=-1.0)
    found = evidence.check()
    assert {difference.table for difference in found} == {"run_evidence"}
    assert {difference.key["run_id"] for difference in found} == {run.pk}
    assert evidence.recount().run_rows == PER_RUN
    assert evidence.check() == []


def test_rows_that_are_missing_or_too_many_are_named_and_mended() -> None:
    first, second = finished(), finished()
    RunEvidence.objects.filter(run=first).delete()
    Run.objects.filter(pk=second.pk).update(superseded_at=timezone.now())
    Retrieval.objects.filter(run=second).update(superseded=True)
    found = [difference for difference in evidence.check() if difference.table == "run_evidence"]
    by_run = {difference.key["run_id"]: difference for difference in found}
    assert by_run[first.pk].stored is None
    assert by_run[second.pk].wanted is None
    assert "no row" in str(by_run[first.pk])
    evidence.recount()
    assert set(RunEvidence.objects.values_list("run", flat=True)) == {first.pk}
    assert evidence.check() == []


def test_a_row_of_nothing_is_one_too_many() -> None:
    finished()
    nothing = dict.fromkeys(evidence.SUMS, 0)
    TipEvidence.objects.create(skill="stig", policy="adr0019", level="skill", key="x", **nothing)
    (found,) = evidence.check()
    assert (found.wanted, found.stored, found.key["key"]) == (None, {}, "x")
    assert "stored a row, counted no row" in str(found)
    evidence.recount()
    assert evidence.check() == []


def test_a_check_names_only_so_many() -> None:
    tips = [make_tip() for _ in range(evidence.SHOWN_AT_MOST)]
    finished(*tips)
    RunEvidence.objects.all().delete()
    found = [difference.table for difference in evidence.check()]
    assert found.count("run_evidence") == found.count("tip_evidence") == evidence.SHOWN_AT_MOST


def test_an_open_run_keeps_what_it_had() -> None:
    run = finished()
    Run.objects.filter(pk=run.pk).update(status="scoring")
    Retrieval.objects.filter(run=run).update(tip_followed_llm=None, llm_source="")
    before = list(RunEvidence.objects.order_by("pk").values())
    assert evidence.check() == []
    assert evidence.recount() == evidence.Recounted(runs=0, run_rows=0, tip_rows=0)
    assert list(RunEvidence.objects.order_by("pk").values()) == before


def test_a_run_that_is_opened_while_a_recount_is_under_way_is_left_alone() -> None:
    run = finished()
    (ids,) = evidence._batches("stig")
    Run.objects.filter(pk=run.pk).update(status="scoring")
    Retrieval.objects.filter(run=run).update(outcome_value=-1.0)
    assert evidence._recount_runs(ids) == 0


def test_a_policy_that_is_added_enters_and_one_that_is_removed_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finished()
    generous = Policy(name="generous", chain=(), followed=0.1, ignored=0.1, unknown=0.1)
    with monkeypatch.context() as patch:
        patch.setitem(POLICIES, "generous", generous)
        assert {difference.key["policy"] for difference in evidence.check()} == {"generous"}
        assert evidence.recount().run_rows == 2
        assert evidence.skill_sums("stig", "generous").n == 2
    assert {difference.key["policy"] for difference in evidence.check()} == {"generous"}
    evidence.recount()
    assert evidence.skill_sums("stig", "generous") == evidence.NOTHING
    assert evidence.check() == []


def test_only_the_skill_asked_for_is_looked_at() -> None:
    finished()
    finished(skill="cve")
    TipEvidence.objects.update(credit_total=9)
    assert {difference.key["skill"] for difference in evidence.check(skill="cve")} == {"cve"}
    evidence.recount(skill="cve")
    assert {difference.key["skill"] for difference in evidence.check()} == {"stig"}


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "RUNS_AT_ONCE", 2)
    for _ in range(3):
        finished()
    for walk in (evidence.recount, evidence.check):
        told: list[tuple[int, int]] = []
        walk(progress=lambda *seen: told.append(seen))  # noqa: B023 - called at once
        assert told == [(2, 3), (3, 3)]


# --- At the same time -----------------------------------------------------------------------------


def at_once(*jobs: Callable[[], Any]) -> None:
    """Run each in a thread with a connection of its own; an error in any of them is raised here."""
    errors: list[BaseException] = []

    def guarded(job: Callable[[], Any]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - raised in the test's own thread
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not [thread for thread in threads if thread.is_alive()]
    if errors:
        raise errors[0]


def test_writers_that_share_tips_lose_nothing_and_do_not_block_each_other_for_ever() -> None:
    tips = [make_tip() for _ in range(8)]
    runs = [finished(*tips) for _ in range(4)]

    def works_on(mine: list[Run], values: list[float]) -> Callable[[], None]:
        def job() -> None:
            for turn in range(12):
                with transaction.atomic():
                    for run in mine:
                        rows = Retrieval.objects.filter(run=run)
                        rows.update(outcome_value=values[turn % len(values)])
                    evidence.refresh([run.pk for run in mine])

        return job

    at_once(
        works_on(runs[:2], [0.1, 1.0, -0.2]),
        works_on(runs[2:], [0.3, 0.0]),
        evidence.recount,
        evidence.recount,
    )
    assert evidence.check() == []
    assert evidence.recount() == evidence.Recounted(runs=4, run_rows=0, tip_rows=0)


def test_writers_of_several_skills_take_their_locks_in_one_order() -> None:
    runs = [finished(skill=skill) for skill in ("stig", "cve", "detection")]
    pks = [run.pk for run in runs]

    def job(order: list[int]) -> Callable[[], None]:
        def many() -> None:
            for _ in range(10):
                with transaction.atomic():
                    evidence.refresh(order)

        return many

    at_once(job(pks), job(pks[::-1]))
    assert evidence.check() == []


def waits_for_the_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND NOT granted",
            [locks.EVIDENCE],
        )
        return cursor.fetchone() is not None


def test_who_asks_during_a_credit_waits_for_its_answer() -> None:
    run = make_run()
    make_retrieval(attempt=make_attempt(run=run))
    answers: list[bool] = []

    def ask() -> None:
        with transaction.atomic():
            answers.append(evidence.is_in_evidence(run.pk))

    def credit() -> None:
        with transaction.atomic():
            evidence.refresh([run.pk])
            asking = threading.Thread(target=lambda: at_once(ask))
            asking.start()
            deadline = time.monotonic() + 60
            while not waits_for_the_lock() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert waits_for_the_lock()
            assert answers == []
        asking.join(60)

    credit()
    assert answers == [True]


def test_a_recount_keeps_final_runs_from_being_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """An open run keeps what it had: half of its rows may have been cleared."""
    monkeypatch.setattr(evidence, "RUNS_AT_ONCE", 1)
    finished()
    run = finished()
    kept = list(RunEvidence.objects.filter(run=run).order_by("pk").values())
    assert kept
    begun, held = threading.Event(), threading.Event()

    def after_the_first(done: int, _total: int) -> None:
        if done == 1:
            begun.set()
            assert held.wait(60)

    def opened() -> None:
        with transaction.atomic():
            assert Run.objects.filter(pk=run.pk, status="done").update(status="scoring") == 1
            rows = Retrieval.objects.filter(run=run)
            rows.update(tip_followed_llm=None, llm_source="", tip_followed_computed_at=None)

    with ExitStack() as jobs:
        recount = jobs.enter_context(Job(lambda: evidence.recount(progress=after_the_first)))
        assert begun.wait(60)
        with transaction.atomic():
            locks.hold_evidence([run.pk])
            held.set()
            recount.until_it_waits()  # it has seen that the run is final, and will count its rows
            opening = jobs.enter_context(Job(opened))
            opening.until_it_waits_or_ends()
    assert (recount.error, opening.error) == (None, None)
    assert Run.objects.get(pk=run.pk).status == "scoring"
    assert list(RunEvidence.objects.filter(run=run).order_by("pk").values()) == kept


def test_a_recount_in_a_transaction_of_the_caller_is_refused() -> None:
    """It would hold the evidence lock when it wants runs."""
    finished()
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        evidence.recount()
