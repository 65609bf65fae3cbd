"""Workers die, stop, freeze or come late, and messages come twice; the run ends whole.

Real prefork children and real process groups are signalled while a part of the run is judged.
Shaped by celery#5106 (a lost child fails the chord), celery#6932 (a killed group is waited for), and
chord counters that a second delivery of one header moves twice.
"""

from __future__ import annotations

import signal
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.faults.invariants import assert_whole, survive

if TYPE_CHECKING:
    from tests.faults.harness import System
    from tests.faults.runs import FaultRun

pytestmark = pytest.mark.faults

LONGER_THAN_THE_LEASE_S = 4.5


def test_a_run_survives_the_kill_of_a_judge_child(either_system: System) -> None:
    judge = either_system.start("judge", pool="prefork")
    run = either_system.post_and_wait_until_half_judged()
    judge.children()[-1].kill()
    survive(either_system, run)
    # a pool that looked before the child could be collected looks again 5 s later
    judge.wait_for_line("signal 9 (SIGKILL)")


def test_a_run_survives_the_kill_of_every_worker_at_once(either_system: System) -> None:
    either_system.start("judge", pool="prefork")
    run = either_system.post_and_wait_until_half_judged()
    either_system.end("judge", "control", "signals")
    assert either_system.status(run) == "scoring"
    either_system.start_standing()
    either_system.start("judge")
    survive(either_system, run)


def test_a_run_survives_a_warm_stop_and_a_new_worker(system: System) -> None:
    judge = system.start("judge")
    run = system.post_and_wait_until_half_judged()
    judge.stop()
    assert system.status(run) == "scoring"
    system.start("judge")
    survive(system, run)


def test_a_worker_that_freezes_for_longer_than_its_lease_spoils_nothing(system: System) -> None:
    frozen = system.start("judge")
    run = system.post_and_wait_until_half_judged()
    frozen.signal_group(signal.SIGSTOP)
    system.start("judge", label="judge-2")
    try:
        survive(system, run)
        before = system.query("SELECT count(*) FROM scoring_judgement")
    finally:
        frozen.signal_group(signal.SIGCONT)
    time.sleep(2.5)  # it wakes up with replies in its hands, and finds its batches taken
    assert_whole(system, run)
    assert system.query("SELECT count(*) FROM scoring_judgement") == before
    system.end("judge-2")


def test_a_run_waits_for_a_worker_that_comes_late(system: System) -> None:
    run = post_without_judge(system)
    time.sleep(LONGER_THAN_THE_LEASE_S)
    assert (system.status(run), system.labelled(run)) == ("scoring", 0)
    assert system.servers.waiting("judge") <= 3 * run.judgeable, "messages pile up"
    system.start("judge")
    survive(system, run)


def test_a_header_that_is_delivered_many_times_is_judged_once(system: System) -> None:
    system.judge.control(reset=True)
    run = post_without_judge(system)
    run_id = system.run_id(run)
    assert run_id is not None
    system.servers.wipe_broker()
    # one after the other, so that both threads of the worker have the same batch in hand
    repeated = [batch for batch in system.batch_ids(run, "judge") for _ in range(3)]
    system.send("scoring.judge_batch", *repeated)
    assert system.servers.waiting("judge") >= len(repeated)
    system.start("judge")
    for _ in range(3):
        system.send("scoring.trace_batch", *system.batch_ids(run, "trace"))
        system.send("contextgraph.dispatch_run", run_id)
        system.send("contextgraph.finalize_run", run_id)
    survive(system, run)
    assert system.judge.counters()["pairs"] == run.judgeable


def post_without_judge(system: System) -> FaultRun:
    """Post a run whose whole chord is sent while no judge worker runs."""
    if "judge" in system.programs:
        system.end("judge")
    run = system.post()
    sent = partial(system.servers.waiting, "judge")
    system.wait_for(
        lambda: sent() >= max(1, len(system.batch_ids(run, "judge"))),
        what="the messages of the chord",
    )
    return run
