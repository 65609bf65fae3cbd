"""The stages of a dream pass: each once, in its turn, whatever is killed, raised or run at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError, connection, transaction

from contextgraph import pipeline
from contextgraph.dream_bodies import STAGES
from memory import dream, evidence
from memory.dream import Stage, StageFailed, State, open_pass, run_pass, stages_of
from memory.models import DreamPass, DreamStage, Retrieval, Run, RunEvidence
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory.dream import Body

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _without_a_model(settings: Any) -> None:
    settings.SIGNALS = ["trace"]


def scored_run(**fields: Any) -> Run:
    """FINALIZING, with two rules and two tips."""
    run = make_run(status="finalizing", **fields)
    good, bad = make_tip(skill=run.skill), make_tip(skill=run.skill)
    for number in range(2):
        attempt = make_attempt(run=run, rule_id=f"rule-{number}", outcome=float(number))
        make_retrieval(attempt=attempt, tip=good, rank=1, llm=bool(number))
        make_retrieval(attempt=attempt, tip=bad, rank=2, llm=not number)
    return run


def recorded(calls: list[str], **special: Callable[[Run], dict[str, Any]]) -> dict[Stage, Body]:
    """Bodies that note their names, or the special ones given."""

    def body(stage: Stage) -> Body:
        def work(run: Run) -> dict[str, Any]:
            calls.append(str(stage))
            return special[stage](run) if stage in special else {"run": run.pk}

        return work

    return {stage: body(stage) for stage in Stage}


def boom(_run: Run) -> dict[str, Any]:
    raise ValueError("a bad row\x1b[2J")


def states(run: Run) -> list[tuple[str, str, int]]:
    return [(row.stage, row.state, row.number) for row in stages_of(run)]


def all_done(number: int) -> list[tuple[str, str, int]]:
    return [(str(stage), "done", number) for stage in Stage]


def test_the_stages_run_once_each_and_in_their_order() -> None:
    run, calls = scored_run(), []
    open_pass(run.pk)
    assert run_pass(run.pk, stages=recorded(calls)) == 1
    assert calls == ["score", "credit", "evict", "report"]
    assert states(run) == all_done(1)
    assert all(row.finished_at and row.seconds is not None for row in stages_of(run))
    assert run_pass(run.pk, stages=recorded(calls)) == 1, "it is over, and nothing is done again"
    assert len(calls) == 4


def test_a_run_that_no_pass_was_begun_for_gets_one() -> None:
    run, calls = scored_run(dream_number=3), []
    assert run_pass(run.pk, stages=recorded(calls)) == 4
    assert states(run) == all_done(4)


@pytest.mark.parametrize("status", ["recording", "ingested", "scoring", "done"])
def test_a_run_in_another_state_is_left_alone(status: str) -> None:
    run, calls = make_run(status=status), []
    assert run_pass(run.pk, stages=recorded(calls)) is None
    assert (calls, states(run)) == ([], [])


def test_an_unknown_run_is_an_error() -> None:
    with pytest.raises(Run.DoesNotExist):
        run_pass(12345, stages=recorded([]))
    with pytest.raises(Run.DoesNotExist):
        pipeline.recount(12345)


@pytest.mark.parametrize("stage", ["score", "credit"])
def test_a_stage_that_a_final_run_needs_stops_the_pass_and_is_tried_again(stage: str) -> None:
    run, calls = scored_run(), []
    number = open_pass(run.pk)
    with pytest.raises(StageFailed, match=f"stage {stage} of dream pass {number}"):
        run_pass(run.pk, stages=recorded(calls, **{stage: boom}))
    assert calls[-1] == stage
    row = DreamStage.objects.get(run=run, stage=stage)
    assert (row.state, row.error) == (State.FAILED, r"ValueError: a bad row\x1b[2J")
    done_before = calls[:-1]
    calls.clear()
    assert run_pass(run.pk, stages=recorded(calls)) == number
    assert [*done_before, *calls] == ["score", "credit", "evict", "report"]
    assert states(run) == all_done(number)
    assert set(DreamStage.objects.values_list("error", flat=True)) == {""}


@pytest.mark.parametrize("stage", ["evict", "report"])
def test_a_stage_that_a_final_run_can_do_without_is_noted_and_made_by_the_next_pass(
    stage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = scored_run()
    with monkeypatch.context() as patch:
        patch.setitem(STAGES, Stage(stage), boom)
        assert pipeline.finish(run.pk)
    run.refresh_from_db()
    assert run.status == "done"
    found = {row.stage: row.state for row in stages_of(run)}
    assert found == {name: "failed" if name == stage else "done" for name in found}
    assert "a bad row" in caplog.text
    assert pipeline.recount(run.pk)
    assert states(run) == all_done(2)
    kept = DreamPass.objects.get(run=run)
    assert kept.report["version"] == 1, "the report is made by whichever pass can"


def test_what_a_failed_stage_wrote_is_taken_back() -> None:
    run = scored_run()

    def half(run: Run) -> dict[str, Any]:
        Retrieval.objects.filter(run=run).update(category="half done")
        return boom(run)

    with pytest.raises(StageFailed):
        run_pass(run.pk, stages=recorded([], credit=half))
    assert not Retrieval.objects.filter(category="half done").exists()


def test_a_lost_database_is_no_failure_of_the_stage() -> None:
    run = scored_run()

    def lose(_run: Run) -> dict[str, Any]:
        raise OperationalError("deadlock detected")

    with pytest.raises(OperationalError):
        run_pass(run.pk, stages=recorded([], evict=lose))
    assert [state for _, state, _ in states(run)] == ["done", "done", "new", "new"]


def test_a_failure_does_not_contradict_one_who_did_the_stage_meanwhile() -> None:
    run = scored_run()
    open_pass(run.pk)
    row = DreamStage.objects.get(run=run, stage="evict")
    dream.close_stage(row, {}, seconds=0.1)
    dream._keep_failure(run.pk, 1, Stage.EVICT, ValueError("too late"))
    row.refresh_from_db()
    assert (row.state, row.error) == (State.DONE, "")


def test_who_works_on_an_older_pass_finds_a_newer_one_and_stops() -> None:
    run, calls = scored_run(), []
    open_pass(run.pk)

    def overtaken(run: Run) -> dict[str, Any]:
        open_pass(run.pk)
        return {}

    assert run_pass(run.pk, stages=recorded(calls, score=overtaken)) is None
    assert calls == ["score"]
    calls.clear()
    assert run_pass(run.pk, stages=recorded(calls)) == 2
    assert calls[-3:] == ["credit", "evict", "report"]


def in_threads(work: Callable[[], Any], n: int) -> list[Any]:
    """What *work* returned in each of *n* threads that start together."""
    found, gate = [], threading.Barrier(n)

    def run() -> None:
        try:
            gate.wait()
            found.append(work())
        except Exception as error:  # noqa: BLE001 - a thread's error must reach the test
            found.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_who_finished_a_pass_leaves_one_that_was_begun_since_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = scored_run()

    def overtaken(run_id: int, **options: Any) -> int | None:
        number = run_pass(run_id, **options)
        assert pipeline.begin_recount(run_id)  # somebody changed a row
        return number

    with monkeypatch.context() as patch:
        patch.setattr(dream, "run_pass", overtaken)
        with transaction.atomic():
            assert not pipeline.finish(run.pk)
    run.refresh_from_db()
    assert (run.status, run.dream_number) == ("finalizing", 2)
    assert pipeline.finish(run.pk)
    assert states(run) == all_done(2)


def test_two_started_together_do_the_work_once() -> None:
    run, calls = scored_run(), []
    assert in_threads(lambda: run_pass(run.pk, stages=recorded(calls)), 3) == [1, 1, 1]
    assert calls == ["score", "credit", "evict", "report"]
    assert in_threads(lambda: pipeline.finish(run.pk), 3).count(True) == 1
    run.refresh_from_db()
    assert (run.status, run.dream_number) == ("done", 1)


def test_recounts_started_together_end_in_one_whole_pass() -> None:
    run = scored_run()
    assert pipeline.finish(run.pk)
    found = in_threads(lambda: pipeline.recount(run.pk, force=True), 3)
    assert any(found), "one of them at least did it"
    run.refresh_from_db()
    assert run.status == "done"
    assert states(run) == all_done(run.dream_number)
    assert DreamPass.objects.filter(run=run).count() == 1
    assert evidence.check() == []


# --- Recounts of the real stages ------------------------------------------------------------------


def test_a_forced_pass_that_finds_nothing_new_changes_nothing() -> None:
    run = scored_run()
    assert pipeline.finish(run.pk)
    kept = DreamPass.objects.filter(run=run).values().get()
    sums = list(RunEvidence.objects.order_by("pk").values())
    assert sums
    assert pipeline.recount(run.pk, force=True)
    assert DreamPass.objects.filter(run=run).values().get() == kept
    assert list(RunEvidence.objects.order_by("pk").values()) == sums
    credit = DreamStage.objects.get(run=run, stage="credit").detail
    assert (credit["identical"], credit["kept_as_pass"]) == (True, 1)
    assert credit["evidence_rows_changed"] == 0


def test_rows_that_changed_make_a_new_pass_and_move_the_evidence() -> None:
    run = scored_run()
    pipeline.finish(run.pk)
    Retrieval.objects.filter(run=run).update(
        tip_followed_review=True, tip_followed_review_by="reviewer"
    )
    assert pipeline.recount(run.pk)
    first, second = DreamPass.objects.filter(run=run).order_by("number")
    assert (first.number, second.number) == (1, 2)
    assert second.summary["totals"]["followed"] == 4
    assert second.report["since_last_pass"]["totals"]["followed"] == {"before": 2, "after": 4}
    assert evidence.check() == []


def test_a_recount_of_a_run_that_is_still_scored_is_left_to_its_own_pass() -> None:
    run = scored_run()
    Run.objects.filter(pk=run.pk).update(status="scoring")
    assert not pipeline.recount(run.pk)
    assert not DreamStage.objects.exists()


def test_rows_that_change_amid_a_pass_are_counted_by_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = scored_run()
    with monkeypatch.context() as patch, pytest.raises(OperationalError):

        def stop(_run: Run) -> dict[str, Any]:
            raise OperationalError("the worker is gone")

        patch.setitem(STAGES, Stage.EVICT, stop)
        pipeline.finish(run.pk)
    Retrieval.objects.filter(run=run).update(
        tip_followed_review=True, tip_followed_review_by="reviewer"
    )
    assert pipeline.recount(run.pk)
    assert states(run) == all_done(2)
    last = DreamPass.objects.filter(run=run).order_by("-number").first()
    assert last is not None
    assert last.summary["totals"]["followed"] == 4


def test_a_superseded_revision_is_dreamed_of_without_evidence_or_sweep() -> None:
    run = scored_run()
    pipeline.finish(run.pk)
    Run.objects.filter(pk=run.pk).update(superseded_at=run.started_at)
    Retrieval.objects.filter(run=run).update(superseded=True)
    assert pipeline.recount(run.pk)
    assert not RunEvidence.objects.filter(run=run).exists()
    assert DreamStage.objects.get(run=run, stage="evict").detail["sweep"] is None


def test_vectors_that_cannot_be_made_fail_no_pass(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SIGNALS = ["trace", "embed"]

    def broken(_run_id: int) -> None:
        connection.cursor().execute("SELECT 1 / 0")

    monkeypatch.setattr("scoring.tip_vectors.fill_for_run", broken)
    run = scored_run()
    assert pipeline.finish(run.pk)
    row = DreamStage.objects.get(run=run, stage="report")
    assert row.state == State.DONE
    assert "division by zero" in row.detail["tip_vectors_error"]
    assert DreamPass.objects.get(run=run).report["version"] == 1
