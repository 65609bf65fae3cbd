"""A run sweeps before it is final, whatever comes between its first pass and its end; never after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import transaction

from contextgraph import pipeline
from contextgraph.dream_bodies import STAGES
from contextgraph.envelope import OutcomeCorrection
from contextgraph.late_outcomes import record_late_outcome
from contextgraph.skills import load_skill
from memory import dream, eviction
from memory.dream import StageFailed
from memory.models import DreamStage, EvictionSweep, Run
from tests.contextgraph.ladders import use_ladder
from tests.factories import make_run
from tests.memory.sweep_histories import EARNED, MISLEADING, bad_tip, give_past, old_tip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.django_db(transaction=True)

Stage = DreamStage.Stage

SKILL_FILE = """
[grading]
version = "2"
kind = "binary"
[eviction]
min_retrievals = 3
threshold = 0.3
interval_below = false
cap_share = 1.0
"""


@pytest.fixture(autouse=True)
def _gate(broker: str, settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.SIGNALS = ["trace"]
    use_ladder(settings, tmp_path, SKILL_FILE)
    load_skill.cache_clear()
    yield
    load_skill.cache_clear()


def finalizing(*visits: tuple[bool | None, float]) -> Run:
    """A run that is on its way to its first DONE, with its first pass open; one tip."""
    run = give_past(old_tip(), *visits, run=make_run(status="finalizing"))
    with transaction.atomic():
        dream.open_pass(run.pk)
    return run


def raised(error: BaseException) -> Any:
    def body(_run: Run) -> dict[str, Any]:
        raise error

    return body


def late_verdict(run: Run) -> None:
    first = run.attempts.order_by("pk")[0]
    verdict = OutcomeCorrection(rule_id=first.rule_id, number=first.number, passed=True)
    record_late_outcome(first.pk, verdict, by="ada")


def ended(run: Run) -> tuple[str, int, list[str]]:
    """Its status, the passes begun, and the states of the sweeps there are."""
    run.refresh_from_db()
    sweeps = EvictionSweep.objects.order_by("pk").values_list("state", flat=True)
    return run.status, run.dream_number, list(sweeps)


def test_a_verdict_that_comes_while_the_run_is_finalizing_costs_no_sweep() -> None:
    run = finalizing(*[MISLEADING] * 6)
    late_verdict(run)
    assert ended(run) == ("done", 2, ["applied"])


def test_a_pass_begun_by_hand_after_one_that_failed_sweeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finalizing(*[MISLEADING] * 3)
    with monkeypatch.context() as patch:
        patch.setitem(STAGES, Stage.CREDIT, raised(ValueError("bad row")))
        with pytest.raises(StageFailed):
            pipeline.finish(run.pk)
    call_command("dream", str(run.pk), "--force")
    assert ended(run) == ("done", 2, ["applied"])


def test_a_stage_that_failed_is_tried_again_by_the_reaper_of_a_run_that_was_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finalizing(*[MISLEADING] * 3)
    with monkeypatch.context() as patch:
        patch.setitem(STAGES, Stage.EVICT, raised(ValueError("bad gate")))
        patch.setitem(STAGES, Stage.REPORT, raised(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            pipeline.finish(run.pk)
    assert DreamStage.objects.get(run=run, stage=Stage.EVICT).state == "failed"
    assert pipeline.reap(inline=True, impatient=True).finalized == [run.pk]
    assert ended(run) == ("done", 1, ["applied"])


def test_a_stage_that_failed_is_not_made_good_once_the_run_was_final(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finalizing(*[MISLEADING] * 6)
    with monkeypatch.context() as patch:
        patch.setitem(STAGES, Stage.EVICT, raised(ValueError("bad gate")))
        assert pipeline.finish(run.pk)
    assert not pipeline.reap(inline=True, impatient=True).finalized
    late_verdict(run)
    assert ended(run) == ("done", 2, [])
    told = DreamStage.objects.get(run=run, stage=Stage.EVICT).detail
    assert told["note"] == eviction.FINAL_BEFORE


def test_a_run_that_has_swept_before_it_was_final_sweeps_no_second_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finalizing(*[MISLEADING] * 6)
    with monkeypatch.context() as patch:
        patch.setitem(STAGES, Stage.REPORT, raised(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            pipeline.finish(run.pk)
    other = bad_tip()
    late_verdict(run)
    assert ended(run) == ("done", 2, ["applied"])
    other.refresh_from_db()
    assert other.retired_at is None


def test_a_verdict_on_a_final_run_retires_nobody() -> None:
    run = finalizing(*[EARNED] * 3)
    assert pipeline.finish(run.pk)
    bad_tip()
    first = run.attempts.order_by("pk")[0]
    verdict = OutcomeCorrection(rule_id=first.rule_id, number=first.number, passed=False)
    assert record_late_outcome(first.pk, verdict, by="ada")
    assert ended(run) == ("done", 2, [])
