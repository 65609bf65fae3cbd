"""A pair that several workers have at the same moment is asked about once; nobody waits for the dead.

Real threads, real processes, and the calls counted at the server. Shaped by the retries of one rule,
which were cut into batches of their own and judged side by side: four questions about one pair.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from memory.models import Retrieval
from scoring.judge import service
from scoring.judge.client import JudgeClient
from scoring.judge.flights import Flights, patience
from scoring.models import Judgement, ScoreBatch
from tests.conftest import CHECKOUT
from tests.factories import make_attempt, make_retrieval, make_run, make_tip
from tests.scoring.judge.bench_rows import (
    FOLLOWED,
    IGNORED,
    SCRIPT,
    attempt_with,
    batch_of,
    held,
    use_judge,
)
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from memory.models import Run

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_S = 60
PATIENT = {"JUDGE_READ_TIMEOUT_S": WAIT_S, "JUDGE_DEADLINE_S": WAIT_S}
UNCLEAR = "judge-says=unclear about the banner"


def retries(count: int, *tips: str, run: Run | None = None, **fields: Any) -> list[ScoreBatch]:
    """A batch for each of some attempts, all with the same script and the same tips."""
    run = run or make_run(**fields)
    shown = [make_tip(text=text) for text in tips]
    made = []
    for number in range(1, count + 1):
        attempt = make_attempt(run=run, script=SCRIPT, number=number)
        ids = [
            make_retrieval(attempt=attempt, tip=tip, rank=rank).pk
            for rank, tip in enumerate(shown, start=1)
        ]
        made.append(batch_of(run, first_id=ids[0], last_id=ids[-1]))
    return made


def side_by_side(batches: Sequence[ScoreBatch]) -> None:
    """Judge them at once, a thread each."""
    start = threading.Barrier(len(batches))

    def work(batch: ScoreBatch) -> None:
        try:
            start.wait(WAIT_S)
            service.score(held(batch))
        finally:
            connection.close()

    with ThreadPoolExecutor(len(batches)) as pool:
        list(pool.map(work, batches, timeout=WAIT_S))


def calls_of(monkeypatch: pytest.MonkeyPatch, *, meet: int) -> list[int]:
    """How many calls ran at the start of each, itself included; they end when *meet* have begun."""
    ask, lock, running = JudgeClient.ask, threading.Lock(), [0]
    seen: list[int] = []
    met = threading.Barrier(meet)

    def counted(*given: Any, **options: Any) -> Any:
        with lock:
            running[0] += 1
            seen.append(running[0])
        try:
            met.wait(WAIT_S)
            return ask(*given, **options)
        finally:
            with lock:
                running[0] -= 1

    monkeypatch.setattr(JudgeClient, "ask", counted)
    return seen


def until_all_have_looked(judge: JudgeServer, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let the server say nothing before *count* threads have looked whether a pair is asked about."""
    begin, fault_for = Flights.begin, judge.state.fault_for
    lock, looked, all_looked = threading.Lock(), set[int](), threading.Event()

    def begun(*given: Any) -> set[str]:
        try:
            return begin(*given)
        finally:
            with lock:
                looked.add(threading.get_ident())
                if len(looked) >= count:
                    all_looked.set()

    def late(question: Any) -> str | None:
        assert all_looked.wait(WAIT_S)
        return fault_for(question)

    monkeypatch.setattr(Flights, "begin", begun)
    monkeypatch.setattr(judge.state, "fault_for", late)


def asked(judge: JudgeServer) -> tuple[int, int]:
    counted = judge.counters()
    return counted["questions"], counted["pairs"]


def locks() -> int:
    """Advisory locks that any session holds on this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        return int(cursor.fetchone()[0])


def labels() -> list[str]:
    return list(Retrieval.objects.order_by("pk").values_list("llm_label", flat=True))


def wait_for(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


# --- Threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["per_attempt", "per_tip"])
def test_retries_that_are_judged_side_by_side_are_asked_about_once(
    judge: JudgeServer, settings: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_judge(settings, judge, JUDGE_MODE=mode, **PATIENT)
    until_all_have_looked(judge, monkeypatch, 4)
    side_by_side(retries(4, FOLLOWED, IGNORED))
    assert asked(judge)[1] == judge.counters()["distinct"] == 2
    assert labels() == ["followed", "not_followed"] * 4
    assert Judgement.objects.filter(cached=True).count() == 6
    assert set(Retrieval.objects.values_list("llm_tries", flat=True)) == {0, 1}
    assert locks() == 0


def test_of_tips_that_overlap_each_is_asked_about_once(
    judge: JudgeServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_judge(settings, judge, **PATIENT)
    until_all_have_looked(judge, monkeypatch, 4)
    run = make_run()
    texts = [f"{FOLLOWED} {number}" for number in range(5)]
    batches = []
    for part in (texts[:3], texts[1:4], texts[2:], texts[::-1]):
        first = attempt_with(*part, run=run).retrievals.order_by("pk")
        ids = list(first.values_list("pk", flat=True))
        batches.append(batch_of(run, first_id=ids[0], last_id=ids[-1]))
    side_by_side(batches)
    assert asked(judge)[1] == judge.counters()["distinct"] == 5
    assert set(labels()) == {"followed"}


def test_the_stronger_judge_is_asked_once_too_and_paid_once(
    judge: JudgeServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with JudgeServer(model="strong-judge") as strong:
        until_all_have_looked(strong, monkeypatch, 3)
        use_judge(
            settings,
            judge,
            **PATIENT,
            JUDGE_HIGH_STAKES_MODEL="strong-judge",
            JUDGE_HIGH_STAKES_BASE_URL=strong.base_url,
        )
        batches = retries(3, FOLLOWED, extra={"high_stakes": True})
        side_by_side(batches)
        assert (asked(strong), asked(judge)) == ((1, 1), (0, 0))
    assert batches[0].run.escalationbudget.spent == 1
    assert set(labels()) == {"followed"}


def test_an_answer_that_is_not_kept_is_asked_for_by_each_one_after_the_other(
    judge: JudgeServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_judge(settings, judge, **PATIENT)
    until_all_have_looked(judge, monkeypatch, 3)
    at_once = calls_of(monkeypatch, meet=1)
    side_by_side(retries(3, UNCLEAR))
    assert asked(judge) == (3, 3)
    assert at_once == [1, 1, 1]
    assert labels() == ["unclear"] * 3


def test_without_the_cache_nobody_waits(
    judge: JudgeServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_judge(settings, judge, JUDGE_CACHE=False, **PATIENT)
    at_once = calls_of(monkeypatch, meet=3)
    side_by_side(retries(3, FOLLOWED))
    assert asked(judge) == (3, 3)
    assert at_once == [1, 2, 3]


def test_who_waits_for_a_judge_that_turns_out_to_be_away_leaves_the_row_for_later(
    judge: JudgeServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_judge(settings, judge, **PATIENT)
    judge.control(fault="401")
    until_all_have_looked(judge, monkeypatch, 3)
    side_by_side(retries(3, FOLLOWED))
    assert asked(judge)[0] == 1
    for row in Retrieval.objects.all():
        assert (row.llm_reason, row.llm_tries) == ("judge_unavailable", 0)
        assert row.llm_retry_at is not None
    assert locks() == 0


def test_a_question_that_raises_leaves_no_lock(judge: JudgeServer, settings: Any) -> None:
    use_judge(settings, judge)
    (batch,) = retries(1, FOLLOWED)

    def break_(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr("scoring.judge.client.JudgeClient.ask", break_)
        service.score(held(batch))
    assert locks() == 0


def test_who_holds_a_pair_for_too_long_is_not_waited_for(
    judge: JudgeServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process that was stopped in the middle of its call."""
    use_judge(settings, judge, **PATIENT)
    assert patience() == 2 * WAIT_S
    monkeypatch.setattr("scoring.judge.session.patience", lambda: 2.0)
    first, second = retries(2, FOLLOWED)
    go_on, called = threading.Event(), threading.Event()

    def freeze() -> None:
        ask = JudgeClient.ask

        def frozen(*given: Any, **options: Any) -> Any:
            if threading.current_thread() is thread:
                called.set()
                go_on.wait(WAIT_S)
            return ask(*given, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(JudgeClient, "ask", frozen)
            try:
                service.score(held(first))
            finally:
                connection.close()

    thread = threading.Thread(target=freeze)
    thread.start()
    try:
        assert called.wait(WAIT_S)
        started = time.monotonic()
        service.score(held(second))
        assert time.monotonic() - started >= 2.0
        assert not go_on.is_set() and thread.is_alive(), "the frozen one was waited for"
    finally:
        go_on.set()
        thread.join(WAIT_S)
    assert labels() == ["followed"] * 2
    assert locks() == 0


# --- Processes ------------------------------------------------------------------------------------


def started(batch: ScoreBatch, folder: Path, settings: Any) -> subprocess.Popen[bytes]:
    ScoreBatch.objects.filter(pk=batch.pk).update(state="new", leased_until=None, lease_token="")
    database = connection.settings_dict
    environment = os.environ | {
        "DATABASE_URL": f"postgresql://{database['USER']}@/{database['NAME']}"
        f"?host={database['HOST']}&port={database['PORT']}",
        "DJANGO_SETTINGS_MODULE": "contextgraph.settings",
        "CELERY_RESULT_BACKEND": settings.CELERY_RESULT_BACKEND,
        "JUDGE_BASE_URL": settings.JUDGE_BASE_URL,
        "JUDGE_MODEL": settings.JUDGE_MODEL,
    }
    arguments = [str(batch.pk), str(folder / f"ready-{batch.pk}"), str(folder / "go")]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.scoring.judge.one_batch", *arguments],
        cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def ended(children: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in children:
        if child.poll() is None:
            child.kill()
        child.wait(WAIT_S)


def test_processes_that_have_a_pair_at_once_ask_about_it_once(
    judge: JudgeServer, settings: Any, tmp_path: Path
) -> None:
    """None of them has been told yet what the server calls itself, which is part of the cache's key."""
    use_judge(settings, judge)
    judge.control(latency_ms=1_500)
    batches = retries(3, FOLLOWED, IGNORED)
    children = [started(batch, tmp_path, settings) for batch in batches]
    try:
        wait_for(lambda: len(list(tmp_path.glob("ready-*"))) == 3, "they never were ready")
        (tmp_path / "go").touch()
        assert [child.wait(WAIT_S) for child in children] == [0, 0, 0]
    finally:
        ended(children)
    assert asked(judge) == (1, 2)
    assert labels() == ["followed", "not_followed"] * 3


def test_who_is_killed_while_he_asks_is_not_waited_for(
    judge: JudgeServer, settings: Any, tmp_path: Path
) -> None:
    use_judge(settings, judge, **PATIENT)
    judge.control(latency_ms=300_000)
    first, second = retries(2, FOLLOWED)
    child = started(first, tmp_path, settings)
    try:
        (tmp_path / "go").touch()
        wait_for(lambda: judge.counters()["in_flight"] == 1, "it never asked")
        assert locks() == 1
        child.send_signal(signal.SIGKILL)
        child.wait(WAIT_S)
    finally:
        ended([child])
    judge.control(latency_ms=0)
    begun = time.monotonic()
    service.score(held(second))
    assert time.monotonic() - begun < WAIT_S < patience(), "the lock went with its session"
    assert labels() == ["", "followed"]
