"""One thread rings for all: in the order of the times, once each, and after a fork as before it."""

from __future__ import annotations

import os
import queue
import threading
import time

import pytest

from scoring.judge.alarms import Alarms


def test_alarms_ring_in_the_order_of_their_times_and_not_before() -> None:
    alarms, rung = Alarms(), queue.Queue[tuple[str, float]]()
    begun = time.monotonic()
    for name, seconds in (("third", 0.3), ("first", 0.1), ("second", 0.2), ("at once", -1.0)):
        alarms.after(seconds, lambda name=name: rung.put((name, time.monotonic() - begun)))  # type: ignore[misc]
    heard = [rung.get(timeout=60) for _ in range(4)]
    assert [name for name, _ in heard] == ["at once", "first", "second", "third"]
    assert all(at >= due for (_, at), due in zip(heard[1:], (0.1, 0.2, 0.3), strict=True))
    assert rung.empty()


def test_an_alarm_that_fails_keeps_no_other_from_ringing(caplog: pytest.LogCaptureFixture) -> None:
    alarms, rung = Alarms(), threading.Event()
    alarms.after(0.0, lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    alarms.after(0.05, rung.set)
    assert rung.wait(60)
    assert "an alarm failed" in caplog.text


def test_after_a_thread_that_could_not_be_started_the_next_alarm_starts_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alarms, rung = Alarms(), threading.Semaphore(0)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            alarms.after(0.0, rung.release)
    alarms.after(0.0, rung.release)
    assert rung.acquire(timeout=60)


def test_all_alarms_share_one_thread() -> None:
    before = threading.active_count()
    alarms, rung = Alarms(), threading.Semaphore(0)
    for number in range(50):
        alarms.after(number / 1000, rung.release)
    assert threading.active_count() - before <= 1
    assert all(rung.acquire(timeout=60) for _ in range(50))


def test_a_forked_process_has_alarms_of_its_own() -> None:
    alarms, here = Alarms(), threading.Event()
    alarms.after(3600.0, here.set)  # so that there is a thread, which the child will not have
    child = os.fork()
    if child == 0:
        rung = threading.Event()
        alarms.after(0.01, rung.set)
        os._exit(0 if rung.wait(30) and not here.is_set() else 1)
    assert os.waitpid(child, 0)[1] == 0
