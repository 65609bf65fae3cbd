"""A question that the server refuses is refused for ever: not asked again, and no reason to go on.

Shaped by prompts too long for a model, asked for four times over hours, and by a server that did not
know a field and refused every row of a run, one by one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from scoring.judge import bench, pause
from scoring.judge.bench import REFUSALS_TO_PAUSE
from scoring.models import JudgeCall, Judgement, JudgePause
from tests.factories import make_run
from tests.scoring.judge.bench_rows import (
    FOLLOWED,
    IGNORED,
    SCRIPT,
    attempt_with,
    due,
    judged,
    use_judge,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory.models import Run
    from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db

REFUSALS = {"400": "JudgeRequestRefused", "400_context": "JudgeContextExceeded"}
POISON = "judge-fault=400 Mask the service"


@pytest.fixture(autouse=True)
def _a_bench_of_its_own() -> Iterator[None]:
    bench._bench.cache_clear()
    yield
    bench._bench.cache_clear()


def asked(judge: JudgeServer) -> int:
    return judge.counters()["questions"]


def run_of(scripts: int, *tips: str) -> Run:
    run = make_run()
    for number in range(scripts):
        attempt_with(*(tips or (FOLLOWED,)), run=run, script=f"{SCRIPT}# {number}\n")
    return run


@pytest.mark.parametrize("fault", REFUSALS)
def test_a_row_that_is_refused_alone_is_not_asked_about_again(
    judge: JudgeServer, settings: Any, fault: str
) -> None:
    use_judge(settings, judge)
    judge.control(fault=fault)
    run = run_of(1)
    (row,) = judged(run)
    assert (row.llm_reason, row.llm_retry_at, row.llm_tries) == ("judge_error", None, 1)
    assert Judgement.objects.get().error.startswith(REFUSALS[fault])
    judge.control(fault=None)
    due(run)
    assert judged(run)[0].llm_reason == "judge_error"
    assert asked(judge) == 1


def test_a_refused_tip_takes_no_other_along(judge: JudgeServer, settings: Any) -> None:
    use_judge(settings, judge)
    run = run_of(1, FOLLOWED, POISON, IGNORED)
    assert {row.llm_retry_at is None for row in judged(run)} == {False}
    due(run)
    rows = judged(run, round=2)
    assert [row.llm_label for row in rows] == ["followed", "", "not_followed"]
    assert (rows[1].llm_reason, rows[1].llm_retry_at) == ("judge_error", None)
    due(run)
    judged(run, round=3)
    assert asked(judge) == 1 + 3


def test_what_a_context_has_no_room_for_is_asked_tip_by_tip_and_then_never_again(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    judge.control(fault="400_context")
    rows = judged(run_of(1, FOLLOWED, IGNORED))
    assert [(row.llm_reason, row.llm_retry_at) for row in rows] == [("judge_error", None)] * 2
    assert asked(judge) == 1 + 2


def test_a_tip_that_was_not_reached_alone_is_asked_about_later(
    judge: JudgeServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two are refused in company, and then the server goes away."""
    use_judge(settings, judge)
    faults = iter(["400_context", "500"])
    monkeypatch.setattr(judge.state, "fault_for", lambda _: next(faults))
    rows = judged(run_of(1, FOLLOWED, IGNORED))
    assert sorted(row.llm_reason for row in rows) == ["judge_error", "judge_unavailable"]
    assert all(row.llm_retry_at is not None for row in rows)


@pytest.mark.parametrize("fault", REFUSALS)
def test_a_server_that_refuses_one_script_after_the_other_is_misconfigured(
    judge: JudgeServer, settings: Any, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    use_judge(settings, judge, JUDGE_PAUSE_S=600.0)
    judge.control(fault=fault)
    with caplog.at_level(logging.WARNING, "scoring"):
        rows = judged(run_of(REFUSALS_TO_PAUSE + 4))
    assert asked(judge) == REFUSALS_TO_PAUSE
    stopped = JudgePause.objects.get()
    assert (stopped.error_class, stopped.cleared_at) == ("JudgeMisconfigured", None)
    assert REFUSALS[fault] in stopped.cause
    assert (stopped.until - timezone.now()).total_seconds() > 500
    assert caplog.text.count("judge.paused") == 1
    assert [row.llm_retry_at is None for row in rows] == [True] * REFUSALS_TO_PAUSE + [False] * 4

    JudgePause.objects.update(until=timezone.now())  # over: one more is tried, and refused
    due(rows[0].run)
    judged(rows[0].run, round=2)
    assert asked(judge) == REFUSALS_TO_PAUSE + 1
    assert pause.until("default") is not None

    judge.control(fault=None)
    JudgePause.objects.update(until=timezone.now())
    due(rows[0].run)
    assert [row.llm_label for row in judged(rows[0].run, round=3)][-3:] == ["followed"] * 3
    assert pause.until("default") is None


@pytest.mark.parametrize("mode", ["per_tip", "per_attempt"])
def test_one_script_cannot_close_the_bench_however_many_tips_it_was_shown(
    judge: JudgeServer, settings: Any, mode: str
) -> None:
    use_judge(settings, judge, JUDGE_MODE=mode)
    judge.control(fault="400_context")
    judged(run_of(1, *(f"{FOLLOWED} {n}" for n in range(REFUSALS_TO_PAUSE + 3))))
    assert asked(judge) > REFUSALS_TO_PAUSE
    assert not JudgePause.objects.exists()


@pytest.mark.parametrize("between", [None, "garbage"])
def test_an_answer_between_refusals_says_that_it_is_the_questions(
    judge: JudgeServer, settings: Any, between: str | None
) -> None:
    """Also one that cannot be used: the request was taken."""
    use_judge(settings, judge)
    for _ in range(2):
        judge.control(fault="400")
        judged(run_of(REFUSALS_TO_PAUSE - 1))
        judge.control(fault=between)
        judged(run_of(1, IGNORED))
    assert not JudgePause.objects.exists()
    assert JudgeCall.objects.filter(error_class="JudgeRequestRefused").count() == 8
