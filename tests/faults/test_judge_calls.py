"""A judge worker is killed while it judges: what it had finished is not asked for again.

The calls are counted at the server. Real worker processes, real SIGKILL; one call may be under way per
thread when the blow falls, and those alone are asked for twice.
Shaped by passes of nineteen minutes that wrote their verdicts at the end, or never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.invariants import survive

if TYPE_CHECKING:
    from tests.faults.harness import System

pytestmark = pytest.mark.faults

THREADS = 2
"""Calls at once of the harness's judge worker."""
LATENCY_MS = 500


@pytest.mark.parametrize(("mode", "at_least"), [("per_attempt", 5), ("per_tip", 6)])
def test_verdicts_that_were_stored_before_a_kill_are_not_asked_for_again(
    system: System, mode: str, at_least: int
) -> None:
    # the cache is off: a pair that was asked about would be a hit, whether its row was stored or not
    env = {"JUDGE_MODE": mode}
    system.judge.control(reset=True, latency_ms=LATENCY_MS)
    system.start("judge", env=env)
    run = system.post()
    system.wait_for(lambda: system.labelled(run) >= at_least, within=40, what="some verdicts")
    system.end("judge")
    # the server works on for the dead: their calls are counted when it has done
    system.wait_for(lambda: system.judge.counters()["in_flight"] == 0, what="an idle server")
    stored = system.labelled(run)
    before = system.judge.counters()
    assert at_least <= stored < run.judgeable, "the blow fell in the middle"

    system.judge.control(reset=True)
    system.start("judge", env=env)
    survive(system, run)
    after = system.judge.counters()
    assert after["pairs"] == run.judgeable - stored, "exactly what was not stored is asked for"
    assert after["distinct"] == after["pairs"]
    tips_a_call = 4 if mode == "per_attempt" else 1
    assert before["pairs"] <= stored + THREADS * tips_a_call


def test_a_killed_worker_leaves_its_places_to_the_next_one(system: System) -> None:
    """With one call at a time over all workers, a dead holder would stop everything for ever."""
    env = {"JUDGE_CONCURRENCY": "1"}
    system.judge.control(reset=True, latency_ms=LATENCY_MS)
    system.start("judge", env=env)
    run = system.post()
    system.wait_for(lambda: system.labelled(run) >= 4, within=40, what="a first verdict")
    system.end("judge")
    system.start("judge", env=env)
    survive(system, run)
    assert system.judge.counters()["in_flight_max"] <= 2, "the killed call, and its successor"
