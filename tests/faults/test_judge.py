"""A judge that answers errors, garbage or nothing, and a row that kills whoever asks about it.

A run does not wait for a sick judge: it becomes final with reasons, and gets its labels in later rounds.
Shaped by judgements that were marked as computed when the server was away, and by a task that killed
its worker, was redelivered, and killed the next one, without end (OOM loops of several projects).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.invariants import survive
from tests.faults.runs import fault_run

if TYPE_CHECKING:
    from tests.faults.harness import System

pytestmark = pytest.mark.faults


@pytest.mark.parametrize(
    ("fault", "reasons"),
    [
        ("500", {"judge_unavailable"}),
        ("garbage", {"judge_error"}),
        ("hang", {"judge_unavailable"}),
    ],
)
def test_a_run_with_a_sick_judge_is_final_and_gets_its_labels_when_it_is_well(
    fault: str, reasons: set[str], system: System
) -> None:
    system.start("judge")
    system.judge.control(fault=fault)
    run = system.post()
    system.wait_for(lambda: system.status(run) == "done", what="a final run without labels")
    assert system.labelled(run) == 0
    assert system.reasons(run) <= reasons | {""}
    system.judge.control(fault=None)
    survive(system, run)
    passes = system.query("SELECT number FROM dream_passes WHERE run_id = %s", system.run_id(run))
    assert len(passes) > 1


def test_a_row_that_always_kills_its_process_costs_only_itself(system: System) -> None:
    tries = 2
    judge = system.start(
        "judge", pool="prefork", plan="die-on-poison", env={"JUDGE_MAX_TRIES": str(tries)}
    )
    run = system.post(fault_run(poisoned=True))
    survive(system, run, unlabelled=1)
    assert system.reasons(run) == {"judge_error"}
    assert judge.mark.read_text().splitlines() == ["killed"] * tries
