"""Messages that come twice, to a killed consumer, to a database that is away, or never.

The consumer that dies between commit and acknowledgement is the product's own, killed by the saboteur
inside kombu's ``ack``. Shaped by celery#3541 (a killed consumer's message is lost) and by intake that
stored a run once per delivery.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from tests.faults.invariants import survive
from tests.faults.runs import fault_run

if TYPE_CHECKING:
    from tests.faults.harness import System

pytestmark = pytest.mark.faults


def test_a_consumer_killed_between_commit_and_ack_stores_the_run_once(
    either_system: System,
) -> None:
    either_system.start("judge")
    consumer = either_system.start("consumer", plan="die-before-ack")
    run = either_system.post()
    either_system.wait_for(consumer.exited, what="the kill inside ack")
    assert consumer.mark.exists()
    assert either_system.run_id(run) is not None, "it was killed before the commit"
    second = either_system.start("consumer", plan="redeliver-soon")
    survive(either_system, run)
    either_system.wait_for(second.mark.exists, what="the acknowledgement of the redelivery")
    assert rejected(either_system) == 0


def test_a_run_posted_by_two_publishers_to_two_consumers_is_stored_once(system: System) -> None:
    system.start("judge")
    system.start("consumer", label="consumer-2")
    system.programs["consumer-2"].wait_for_line("consumer.ready")
    run = fault_run()
    posting = [
        threading.Thread(target=system.post, args=(run,), kwargs={"times": 3}) for _ in range(2)
    ]
    for thread in posting:
        thread.start()
    for thread in posting:
        thread.join()
    survive(system, run)
    system.post(run)
    system.wait_for(lambda: system.servers.waiting(system.servers.intake_queue) == 0, what="intake")
    system.programs["consumer-2"].stop()
    survive(system, run)
    assert rejected(system) == 0


def test_a_run_posted_while_the_database_is_away_waits_and_is_stored(system: System) -> None:
    system.start("judge")
    system.servers.kill("postgres")
    run = system.post()
    system.programs["consumer"].wait_for_line("database_away")  # it has it and cannot store it
    system.servers.start()
    survive(system, run)
    assert rejected(system) == 0


def test_a_run_that_was_never_announced_is_found_by_the_reaper(system: System) -> None:
    system.start("judge")
    run = fault_run()
    document = system.folder / f"{run.external_id}.json"
    document.write_text(json.dumps(run.envelope))
    system.manage(
        "shell", "-c",
        "import json, pathlib; from contextgraph.ingest import ingest_envelope; "
        f"ingest_envelope(json.loads(pathlib.Path({str(document)!r}).read_text()))",
    )  # fmt: skip
    survive(system, run)


def rejected(system: System) -> int:
    """Messages that were refused."""
    found = system.query("SELECT count(*) AS n FROM contextgraph_rejectedmessage")
    return int(found[0]["n"])
