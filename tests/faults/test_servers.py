"""Broker, result store and database are emptied or killed while a run is judged; it ends whole.

The killed servers are those of production (append-only file and fsync on), restarted by the call that
every command makes. Shaped by chords whose counter was gone (their body never ran) and by
BusyLoadingError, which failed headers that had done their work.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.invariants import survive

if TYPE_CHECKING:
    from tests.faults.harness import System

pytestmark = pytest.mark.faults


def test_a_run_survives_the_loss_of_every_message(either_system: System) -> None:
    either_system.start("judge")
    run = either_system.post_and_wait_until_half_judged()
    either_system.servers.wipe_broker()
    survive(either_system, run)


def test_a_run_survives_the_loss_of_every_result(either_system: System) -> None:
    either_system.start("judge")
    run = either_system.post_and_wait_until_half_judged()
    either_system.servers.wipe_results()
    survive(either_system, run)


def test_a_run_survives_the_kill_of_the_broker(system: System) -> None:
    system.start("judge")
    run = system.post_and_wait_until_half_judged()
    system.servers.kill("valkey")
    system.servers.start()
    survive(system, run)


def test_a_run_survives_the_kill_of_the_database(system: System) -> None:
    system.start("judge")
    run = system.post_and_wait_until_half_judged()
    system.servers.kill("postgres")
    time.sleep(1.0)  # workers meet it while it is away
    system.servers.start()
    survive(system, run)


def test_a_run_survives_a_storm_of_kills(system: System) -> None:
    system.start("judge", pool="prefork")
    run = system.post_and_wait_until_half_judged()
    for _ in range(2):
        system.servers.kill("valkey", "postgres")
        system.end("judge", "control")
        system.servers.start()
        system.start("control", wait=False)
        system.start("judge", pool="prefork")
        time.sleep(2.0)
    survive(system, run)
