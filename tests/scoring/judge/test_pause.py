"""One row stops all workers, one worker tries again, and a person can end it.

Shaped by thousands of calls with a dead key, and by eight threads that each wrote an alarm.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from contextgraph.doctor import PROBES
from scoring.judge import pause
from scoring.judge.errors import JudgeMisconfigured, JudgeOverloaded, JudgeUnreachable
from scoring.judge.pause import Door
from scoring.models import JudgePause
from tests.factories import make_run
from tests.scoring.judge.bench_rows import (
    FOLLOWED,
    SCRIPT,
    attempt_with,
    judged,
    use_judge,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db
KEY = JudgeMisconfigured("the judge server answered 401", mend="check JUDGE_API_KEY")


def over() -> None:
    """Let the open pause's time be over."""
    past = timezone.now() - timedelta(seconds=1)
    JudgePause.objects.filter(cleared_at__isnull=True).update(until=past)


def in_threads(call: Callable[[], Any], count: int = 8) -> list[Any]:
    """What *call* returns in each of several threads at once."""

    def with_own_connection(_: int) -> Any:
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(with_own_connection, range(count)))


def test_the_door_is_open_until_a_pause_begins_and_per_tier() -> None:
    assert pause.door("default") is Door.OPEN
    assert pause.begin("default", KEY)
    assert pause.door("default") is Door.PAUSED
    assert pause.door("high_stakes") is Door.OPEN


@pytest.mark.django_db(transaction=True)
def test_however_many_threads_meet_the_error_there_is_one_pause_and_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began = in_threads(lambda: pause.begin("default", KEY))
    assert sorted(began) == [False] * 7 + [True]
    assert JudgePause.objects.get().failures == 8
    assert caplog.text.count("judge.paused") == 1
    assert "check JUDGE_API_KEY" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_when_the_time_is_over_exactly_one_worker_tries() -> None:
    pause.begin("default", KEY)
    over()
    doors = in_threads(lambda: pause.door("default"))
    assert sorted(doors) == [Door.PAUSED] * 7 + [Door.PROBE]


def test_a_worker_that_dies_while_trying_does_not_close_the_door_for_ever() -> None:
    pause.begin("default", KEY)
    for _ in range(2):
        over()
        assert pause.door("default") is Door.PROBE
        assert pause.door("default") is Door.PAUSED


@pytest.mark.parametrize(
    ("error", "low", "high"),
    [
        (KEY, 299, 301),
        (JudgeUnreachable("no connection"), 9, 11),
        (JudgeOverloaded("429", retry_after_s=90.0), 89, 91),
        (JudgeOverloaded("429", retry_after_s=86_400.0), 3_599, 3_601),
    ],
)
def test_a_pause_lasts_as_long_as_its_cause_deserves(
    error: Any, low: float, high: float, settings: Any
) -> None:
    settings.JUDGE_PAUSE_S = 300.0
    pause.begin("default", error)
    found = JudgePause.objects.get()
    assert low <= (found.until - found.since).total_seconds() <= high


def test_a_try_that_fails_prolongs_the_pause_and_an_answer_ends_it(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    judge.control(fault="401")
    run = make_run()
    for number in range(4):
        attempt_with(FOLLOWED, run=run, script=f"{SCRIPT}# {number}\n")

    def again() -> list[str]:
        over()
        run.retrievals.filter(llm_retry_at__isnull=False).update(llm_reason="", llm_retry_at=None)
        return [row.llm_reason for row in judged(run)]

    judged(run)
    assert again() == ["judge_unavailable"] * 4
    assert judge.counters()["questions"] == 2, "one call to begin with, one that tried"
    found = JudgePause.objects.get()
    assert (found.failures, found.cleared_at) == (2, None)
    assert found.until > timezone.now() + timedelta(seconds=200)

    judge.control(fault=None)
    assert again() == [""] * 4
    found.refresh_from_db()
    assert (found.cleared_by, pause.door("default")) == ("an answer", Door.OPEN)


def test_judge_resume_ends_the_pause_and_makes_the_rows_due(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    judge.control(fault="401")
    run = attempt_with(FOLLOWED, f"{FOLLOWED}!").run
    judged(run)
    assert not run.retrievals.filter(llm_retry_at__lte=timezone.now()).exists()
    out = StringIO()
    call_command("judge_resume", "--json", stdout=out)
    assert json.loads(out.getvalue()) == {
        "resumed": ["default"],
        "rows_due": 2,
        "of_them_refused": 0,
    }
    assert pause.door("default") is Door.OPEN
    assert JudgePause.objects.get().cleared_by.startswith("judge_resume of ")
    out = StringIO()
    call_command("judge_resume", stdout=out)
    assert "No judge is paused" in out.getvalue()


def test_doctor_names_the_pause_its_cause_and_the_mend() -> None:
    def findings() -> list[Any]:
        return list(dict(PROBES)["judge pauses"]())

    assert findings() == []
    pause.begin("default", KEY)
    (finding,) = findings()
    assert (finding.part, finding.state) == ("judge pause (default)", "warning")
    assert "JudgeMisconfigured: the judge server answered 401" in finding.detail
    assert "judge_resume" in finding.mend
    pause.resume(by="a test")
    assert findings() == []


def test_doctor_asks_every_judge_that_is_configured(judge: JudgeServer, settings: Any) -> None:
    use_judge(
        settings,
        judge,
        JUDGE_HIGH_STAKES_MODEL="another",
        JUDGE_HIGH_STAKES_BASE_URL=judge.base_url,
    )
    found = {one.part: one.state for one in dict(PROBES)["judge server"]()}
    assert found == {"judge server": "ok", "judge server (high_stakes)": "warning"}
