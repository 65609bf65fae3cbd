"""A question that the server refuses is refused for ever: not asked again, and no reason to go on.

Unless it was the server's fault: then what it refused is asked again once its pause has ended.

Shaped by prompts too long for a model, asked for four times over hours, and by a server that did not
know a field and refused every row of a run, one by one.
"""

from __future__ import annotations

import json
import logging
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scoring.judge import bench, pause
from scoring.judge.bench import REFUSALS_TO_PAUSE
from scoring.judge.errors import JudgeMisconfigured
from scoring.models import JudgeCall, Judgement, JudgePause
from tests.factories import make_retrieval, make_run
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

    from memory.models import Retrieval, Run
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


# --- When it was the server's fault ---------------------------------------------------------------


def paused_by_refusals(judge: JudgeServer, run: Run, fault: str = "400") -> int:
    """Refuse the scripts of *run* until the judge is paused; how many rows that has closed."""
    judge.control(fault=fault)
    rows = judged(run, round=3)
    JudgePause.objects.get()
    JudgePause.objects.update(since=timezone.now())  # the clock of the database stands in a test
    judge.control(fault=None)
    return sum(row.llm_reason == "judge_error" and row.llm_retry_at is None for row in rows)


def resumed() -> dict[str, Any]:
    out = StringIO()
    call_command("judge_resume", "--json", stdout=out)
    said: dict[str, Any] = json.loads(out.getvalue())
    return said


def asked_once_more(run: Run) -> list[Retrieval]:
    due(run)
    return judged(run, round=4)


@pytest.mark.parametrize("mode", ["per_tip", "per_attempt"])
@pytest.mark.parametrize("by_hand", [True, False])
def test_what_was_refused_before_a_pause_is_asked_again_after_it(
    judge: JudgeServer, settings: Any, mode: str, *, by_hand: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """But not what was refused before the judge last answered: that was the question's fault."""
    use_judge(settings, judge, JUDGE_MODE=mode, JUDGE_MAX_TRIES=1)
    run = run_of(1, POISON)
    judged(run)
    attempt_with(IGNORED, run=run, script=f"{SCRIPT}# answered\n")
    judged(run, round=2)
    for number in range(REFUSALS_TO_PAUSE + 2):
        attempt_with(FOLLOWED, f"{FOLLOWED}!", run=run, script=f"{SCRIPT}# refused {number}\n")
    closed = paused_by_refusals(judge, run) - 1
    assert closed >= REFUSALS_TO_PAUSE
    if by_hand:
        said = resumed()
        assert (said["resumed"], said["of_them_refused"]) == (["default"], closed)
        assert said["rows_due"] == 2 * (REFUSALS_TO_PAUSE + 2)
    else:
        JudgePause.objects.update(until=timezone.now())
        asked_once_more(run)
        assert f"answers again; {closed} refused rows are due" in caplog.text
    poisoned, *others = asked_once_more(run)
    assert (poisoned.llm_reason, poisoned.llm_retry_at) == ("judge_error", None)
    assert {row.llm_label for row in others} == {"not_followed", "followed"}
    assert resumed() == {"resumed": [], "rows_due": 0, "of_them_refused": 0}


def test_what_did_not_fit_the_context_stays_closed_when_a_pause_ends(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    run = run_of(REFUSALS_TO_PAUSE + 1)
    assert paused_by_refusals(judge, run, "400_context") == REFUSALS_TO_PAUSE
    assert resumed() == {"resumed": ["default"], "rows_due": 1, "of_them_refused": 0}


def test_an_answer_that_cannot_be_used_is_an_answer_too(judge: JudgeServer, settings: Any) -> None:
    use_judge(settings, judge)
    run = run_of(1, POISON)
    judged(run)
    attempt_with(IGNORED, run=run, script=f"{SCRIPT}# spoilt\n")
    judge.control(fault="garbage")
    judged(run, round=2)
    run.retrievals.filter(llm_retry_at__isnull=False).update(llm_retry_at=None)
    pause.begin("default", JudgeMisconfigured("the judge server answered 401"))
    JudgePause.objects.update(since=timezone.now())
    assert resumed()["of_them_refused"] == 0


def test_what_was_refused_is_found_in_indices_not_in_all_that_was_ever_said() -> None:
    row = make_retrieval(llm_reason="judge_error")
    said = {"requested_model": "m", "prompt_sha256": "0"}
    call = said | {"run": row.run, "tips": 1, "http_tries": 1, "seconds": 1.0}
    old = JudgeCall.objects.bulk_create(JudgeCall(**call, latency_s=1.0) for _ in range(3_000))
    new = JudgeCall.objects.create(**call, error_class="JudgeRequestRefused")
    Judgement.objects.bulk_create(
        Judgement(retrieval=other, call=one, reason="judge_error", **said)
        for other, calls in ((make_retrieval(), old), (row, [new]))
        for one in calls
    )
    pause.begin("default", JudgeMisconfigured("it refuses"))
    JudgePause.objects.update(since=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE scoring_judgement, scoring_judgecall")
    with CaptureQueriesContext(connection) as queries:
        assert pause.resume(by="a test").refused == 1
    looks = [one["sql"] for one in queries if "scoring_judgecall" in one["sql"]]
    assert len(looks) == 2
    for sql in looks:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "Seq Scan" not in plan, plan
