"""The shared limit, on a real Valkey: never exceeded, adapted to the server, and not needed to go on.

Shaped by eight workers that each kept to eight calls, and by a limiter whose dead holders were never
forgotten.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import redis
from django.conf import settings

from scoring.judge import errors
from scoring.judge.bench import Bench
from scoring.judge.client import CallBudget, JudgeClient, JudgeConfig
from scoring.judge.pace import Pace, valkey_url
from scoring.judge.prompt import PromptLibrary
from tests.conftest import CHECKOUT
from tests.scoring.judge.questions import QUESTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.scoring.judge.conftest import Clock
    from tests.stand_ins.judge_server import JudgeServer


@pytest.fixture
def pace_of(request: pytest.FixtureRequest) -> Iterator[Callable[..., Pace]]:
    """Build limits as separate processes would; each test has a server of its own name."""
    built: list[Pace] = []

    def build(ceiling: int = 4, *, lease_s: float = 30.0, url: str = "") -> Pace:
        made = Pace(
            backend_url=url or settings.CELERY_RESULT_BACKEND,
            server=f"http://{request.node.name}",
            ceiling=ceiling,
            lease_s=lease_s,
        )
        built.append(made)
        return made

    yield build
    for pace in built:
        pace.close()


def test_all_processes_together_keep_to_the_ceiling(pace_of: Callable[..., Pace]) -> None:
    paces = [pace_of(4), pace_of(4), pace_of(4)]
    running, most, lock = 0, 0, threading.Lock()

    def call(number: int) -> None:
        nonlocal running, most
        with paces[number % 3].slot() as slot:
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.01)
            with lock:
                running -= 1
            slot.good()

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(call, range(60)))
    assert most == 4


def test_an_overloaded_server_halves_the_limit_and_good_answers_raise_it_by_one_a_round(
    pace_of: Callable[..., Pace],
) -> None:
    pace = pace_of(8)
    seen = []
    for verdict in ("bad", "bad", "", *["good"] * 4):
        time.sleep(0.002)  # a call that began before the last cut would not cut again
        with pace.slot() as slot:
            slot.verdict = verdict
        seen.append(pace.limit())
    assert seen[:3] == [4.0, 2.0, 2.0]
    assert seen[3:] == sorted(seen[3:])
    assert 3.2 < seen[-1] < 3.8
    for _ in range(60):
        with pace.slot() as slot:
            slot.good()
    assert pace.limit() == 8.0


def test_calls_that_began_before_a_cut_do_not_cut_again(pace_of: Callable[..., Pace]) -> None:
    pace = pace_of(8)
    with ThreadPoolExecutor(8) as pool:
        together = threading.Barrier(8)

        def call(_: int) -> None:
            with pace.slot() as slot:
                together.wait(60)
                time.sleep(0.05)
                slot.bad()

        list(pool.map(call, range(8)))
    assert pace.limit() == 4.0


def test_the_limit_never_falls_below_one_call(pace_of: Callable[..., Pace]) -> None:
    pace = pace_of(4)
    for _ in range(6):
        time.sleep(0.002)
        with pace.slot() as slot:
            slot.bad()
    assert pace.limit() == 1.0
    with pace.slot():
        pass


def test_a_place_whose_holder_died_is_free_when_its_lease_ends(
    pace_of: Callable[..., Pace],
) -> None:
    dead, living = pace_of(1, lease_s=-3.0), pace_of(1, lease_s=600.0)  # slack makes it 2 s
    started = time.monotonic()
    slot = dead.slot()
    slot.__enter__()  # and is never left
    looks: list[float] = []
    with living.slot(waiting=lambda: looks.append(time.monotonic())):
        assert 1.5 < time.monotonic() - started < 60
    assert looks, "the waiting one could renew its own lease meanwhile"


def test_places_go_to_the_waiters_of_all_processes_in_the_order_in_which_they_came(
    pace_of: Callable[..., Pace],
) -> None:
    holder, waiters = pace_of(1), [pace_of(1) for _ in range(4)]
    came: list[int] = []
    held = holder.slot()
    held.__enter__()

    def wait(number: int) -> None:
        with waiters[number].slot():
            came.append(number)

    with ThreadPoolExecutor(4) as pool:
        for place, number in enumerate((2, 0, 3, 1), start=1):
            pool.submit(wait, number)
            in_line(holder, place)
        held.__exit__(None, None, None)
    assert came == [2, 0, 3, 1]


def test_a_waiter_that_is_dead_is_passed_over(
    pace_of: Callable[..., Pace], monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, dead, living = pace_of(1), pace_of(1, lease_s=3600.0), pace_of(1)
    monkeypatch.setattr("scoring.judge.pace.LOOK_MS", 1)  # so that it is taken for dead at once
    with holder.slot():
        with pytest.raises(LookupError), dead.slot(waiting=give_up):
            pass
        dead._take(keys=dead._keys[:4], args=[*dead._terms("dead"), 1])  # stood in line, and died
        monkeypatch.undo()
        time.sleep(0.01)
    assert not holder._valkey.zcard(holder._keys[0]), "the dead one was given the place"
    with living.slot():
        assert living.limit() == 1.0


def test_a_place_handed_to_one_that_has_just_died_is_soon_free(
    pace_of: Callable[..., Pace], monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, living = pace_of(1, lease_s=3600.0), pace_of(1, lease_s=3600.0)
    monkeypatch.setattr("scoring.judge.pace.LOOK_MS", 300)
    with holder.slot():
        holder._take(keys=holder._keys[:4], args=[*holder._terms("dead"), 60_000])  # and dies
    assert holder._valkey.zscore(holder._keys[0], "dead"), "it was not handed over"
    with living.slot():
        assert not living._valkey.zscore(living._keys[0], "dead")
        (lease,) = living._valkey.zrange(living._keys[0], 0, -1, withscores=True)
        seconds, _ = living._valkey.time()
        assert lease[1] / 1000 - seconds > 3000, (
            "who lives has the place for the whole of its lease"
        )


def test_a_place_that_was_handed_over_is_kept_for_the_whole_lease(
    pace_of: Callable[..., Pace], monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, waiter = pace_of(1), pace_of(1, lease_s=3600.0)
    monkeypatch.setattr("scoring.judge.pace.LOOK_S", 60.0)  # it does not look by itself
    held = holder.slot()
    held.__enter__()

    def left_s() -> float:
        with waiter.slot():
            (lease,) = waiter._valkey.zrange(waiter._keys[0], 0, -1, withscores=True)
            return float(lease[1] / 1000 - waiter._valkey.time()[0])

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(left_s)
        in_line(holder, 1)
        held.__exit__(None, None, None)
        assert found.result(60) > 3000


def test_a_process_that_went_on_by_itself_leaves_no_place_taken(
    pace_of: Callable[..., Pace],
) -> None:
    holder, waiter = pace_of(1), pace_of(1, lease_s=3600.0)
    held = holder.slot()
    held.__enter__()

    def wait() -> None:
        with waiter.slot():
            pass

    with ThreadPoolExecutor(1) as pool:
        gone = pool.submit(wait)
        in_line(holder, 1)
        waiter._lost(redis.TimeoutError("one reply was late"))  # as any of its threads may find
        gone.result(60)
        held.__exit__(None, None, None)
    started = time.monotonic()
    with holder.slot():
        assert time.monotonic() - started < 60, "the place was kept for one that had gone"


def test_more_can_wait_than_the_client_has_connections_for_by_default(
    pace_of: Callable[..., Pace],
) -> None:
    pace = pace_of(1)
    held = pace.slot()
    held.__enter__()

    def wait() -> bool:
        with pace.slot():
            return pace._local

    with ThreadPoolExecutor(110) as pool:
        waiting = [pool.submit(wait) for _ in range(110)]
        in_line(pace, 110)
        held.__exit__(None, None, None)
        assert not any(one.result(60) for one in waiting)


def test_without_a_valkey_who_gives_up_waiting_hears_why(pace_of: Callable[..., Pace]) -> None:
    pace = pace_of(1, url="sentinel://127.0.0.1:1")
    with pace.slot(), pytest.raises(LookupError), pace.slot(waiting=give_up):
        pass
    with pace.slot():
        pass


def give_up() -> None:
    raise LookupError


def in_line(pace: Pace, number: int) -> None:
    """Wait until that many stand in line."""
    while pace._valkey.zcard(pace._keys[2]) < number:
        time.sleep(0.005)


def test_a_process_goes_on_by_itself_when_valkey_is_away_and_says_so_once(
    pace_of: Callable[..., Pace], caplog: pytest.LogCaptureFixture
) -> None:
    pace = pace_of(2, url="redis://127.0.0.1:1/0")
    most, running, lock = 0, 0, threading.Lock()

    def call(_: int) -> None:
        nonlocal most, running
        with pace.slot() as slot:
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.01)
            with lock:
                running -= 1
            slot.good()

    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(6) as pool:
        list(pool.map(call, range(18)))
    assert most == 2
    assert caplog.text.count("judge.pace_local") == 1
    assert pace.limit() is None


def test_an_error_gives_the_place_back(pace_of: Callable[..., Pace]) -> None:
    pace = pace_of(1)
    for _ in range(3):
        with pytest.raises(KeyError), pace.slot():
            raise KeyError
    with pace.slot():
        pass


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("redis://h:1/2", "redis://h:1/2"),
        ("rediss://h/0?ssl_cert_reqs=CERT_REQUIRED", "rediss://h/0?ssl_cert_reqs=required"),
        ("redis+socket:///run/a%20b/v.sock?virtual_host=3", "unix:///run/a b/v.sock?db=3"),
        ("redis+socket:///v.sock", "unix:///v.sock?db=0"),
        ("sentinel://h:1", None),
        ("rpc://", None),
    ],
)
def test_the_address_of_a_result_backend_is_understood(given: str, expected: str | None) -> None:
    assert valkey_url(given) == expected


def test_a_bench_tells_the_limit_how_the_server_bears_it(
    judge: JudgeServer, pace_of: Callable[..., Pace]
) -> None:
    config = JudgeConfig(judge.base_url, "stand-in-judge", max_tries=1, read_timeout_s=60)
    with JudgeClient(config) as client:
        bench = Bench("default", config, client, PromptLibrary(CHECKOUT / "prompts"), pace_of(8))

        def limit_after(fault: str | None, *, within_s: float = 60) -> float | None:
            time.sleep(0.002)
            judge.control(fault=fault)
            try:
                ask: Any = bench.ask
                ask(QUESTION, schema={"type": "object"}, budget=CallBudget(1, within_s, 300))
            except errors.JudgeError:
                pass
            return bench.pace.limit()

        assert limit_after("503") == 4.0
        assert limit_after("401") == 4.0, "a wrong key is no overload"
        assert limit_after("hang", within_s=0.3) == 2.0
        assert limit_after(None) == 2.5
        assert bench.served.fingerprint


def test_a_try_that_meets_an_overload_cuts_at_once_and_gives_its_place_back(
    judge: JudgeServer, pace_of: Callable[..., Pace]
) -> None:
    """Both while the call still waits for its next try."""
    pace, seen = pace_of(8), []

    def sleep(_: float) -> None:
        seen.append((pace.limit(), pace._valkey.zcard(pace._keys[0])))

    config = JudgeConfig(judge.base_url, "stand-in-judge", max_tries=4)
    with JudgeClient(config, sleep=sleep) as client:
        bench = Bench("default", config, client, PromptLibrary(CHECKOUT / "prompts"), pace)
        judge.control(fault="429", times=2)
        bench.ask(QUESTION, schema={"type": "object"}, budget=config.budget)
    assert seen == [(4.0, 0), (2.0, 0)]
    assert pace.limit() == 2.5, "the try that was answered counts as one"


def test_waiting_for_a_place_is_not_on_the_budget_of_a_call(
    judge: JudgeServer, pace_of: Callable[..., Pace], clock: Clock
) -> None:
    pace, waits = pace_of(1), threading.Event()
    config = JudgeConfig(judge.base_url, "stand-in-judge", deadline_s=60)
    with (
        JudgeClient(config, sleep=clock.sleep, clock=clock) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        bench = Bench("default", config, client, PromptLibrary(CHECKOUT / "prompts"), pace)
        ask: Any = bench.ask
        with pace.slot():
            asked = pool.submit(
                ask, QUESTION, schema={"type": "object"}, budget=config.budget, waiting=waits.set
            )
            assert waits.wait(60)
            clock.now += 100
            assert judge.counters()["questions"] == 0
        assert asked.result(60).tries == 1


def test_the_state_is_forgotten_after_an_hour_without_calls(pace_of: Callable[..., Pace]) -> None:
    pace = pace_of(4)
    with pace.slot() as slot:
        slot.bad()
    with redis.Redis.from_url(str(valkey_url(settings.CELERY_RESULT_BACKEND))) as valkey:
        left = [valkey.pttl(key) for key in pace._keys if valkey.exists(key)]
    assert left
    assert all(0 < ms <= 3_600_000 for ms in left)
