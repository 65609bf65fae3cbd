"""Keeps the processes of a whole system running in one terminal.

``Supervisor(root, specs).run()`` holds them until it is told to stop; ``running(root)`` and
``stop(root)`` work from any other terminal of the same checkout. Linux only (process groups,
parent-death signals); imports no Django and knows nothing of what it runs.

Not an init system: it starts nothing at boot and supervises one checkout at a time.
"""

from __future__ import annotations

from contextgraph.supervisor.children import ProcessSpec
from contextgraph.supervisor.loop import AlreadyRunningError, Supervisor
from contextgraph.supervisor.record import (
    ChildStatus,
    SupervisorStatus,
    UnstoppableError,
    running,
    stop,
)

__all__ = [
    "AlreadyRunningError",
    "ChildStatus",
    "ProcessSpec",
    "Supervisor",
    "SupervisorStatus",
    "UnstoppableError",
    "running",
    "stop",
]
