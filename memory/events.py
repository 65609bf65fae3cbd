"""What this room tells those above it, who may listen or not.

Guarantees: sent after the commit, so that a listener sees the rows; a listener that fails harms neither
the sender nor another listener. A hint, as every message here: the reaper finds the run without it.

Does not import a listener: ``contextgraph.apps`` connects them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.db import transaction
from django.dispatch import Signal

if TYPE_CHECKING:
    from memory.models import Run

run_recorded: Final = Signal()
"""An agent has ended the run that it recorded. Arguments: ``run_id``, its primary key."""


def announce_recorded(run: Run) -> None:
    """Send :data:`run_recorded` for *run* once the transaction is committed."""
    run_id, sender = run.pk, type(run)

    def send() -> None:  # not a partial: Django asks a failed robust hook for its __qualname__
        run_recorded.send_robust(sender=sender, run_id=run_id)

    transaction.on_commit(send, robust=True)
