"""The control worker dies at the two worst moments: amid the chord's messages, and before the recount.

Both are inside the product's own functions, where the saboteur kills the process. Shaped by
celery#1700 (a dispatch that was interrupted half way) and by runs that stayed "finalizing" for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.invariants import survive

if TYPE_CHECKING:
    from tests.faults.harness import System

pytestmark = pytest.mark.faults


def test_a_dispatch_killed_after_some_of_its_headers_is_completed(system: System) -> None:
    system.start("judge")
    control = system.start("control", plan="die-while-publishing")
    run = system.post()
    system.wait_for(control.exited, what="the kill amid the publishing")
    assert control.mark.exists()
    assert system.status(run) == "scoring"
    system.start("control")
    survive(system, run)


def test_a_recount_killed_before_it_began_is_made_once(system: System) -> None:
    system.start("judge")
    control = system.start("control", plan="die-before-finish")
    run = system.post()
    system.wait_for(control.exited, what="the kill before the recount")
    assert control.mark.exists()
    assert system.status(run) == "finalizing"
    system.start("control")
    survive(system, run)
