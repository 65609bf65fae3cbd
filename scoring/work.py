"""One door to work on a score batch: claim, compute, store, close. Tasks and the reaper both use it.

Guarantees: what fails is stored and never raised, so that no chord is failed by one row. Only a lost
database is raised, for Celery to try again. Safe to run twice.

Does not give back the lease when the database is lost: it runs out (SCORE_LEASE_S), and only then may
the batch be claimed again. Celery's own retry helps when the database went away before the claim.

Shaped by: chords whose body never ran because one header of two hundred had raised (celery#1700).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from django.db import InterfaceError, OperationalError

from scoring import batches, embed_step, trace_step
from scoring.judge import service as judge_step
from scoring.models import Signal

if TYPE_CHECKING:
    from collections.abc import Callable

    from scoring.batches import Lease

logger = logging.getLogger(__name__)

STEPS: Final[dict[Signal, Callable[[Lease], int]]] = {
    Signal.JUDGE: judge_step.score,
    Signal.EMBED: embed_step.score,
    Signal.TRACE: trace_step.score,
}

LOST_DATABASE: Final = (OperationalError, InterfaceError)


def score_batch(batch_id: int) -> int:
    """Work on one batch, if it may be claimed. Returns the id, whatever happened.

    Raises:
        OperationalError, InterfaceError: the database is away; nothing is lost, try again.
    """
    lease = batches.claim(batch_id)
    if lease is None:
        return batch_id
    try:
        rows = STEPS[Signal(lease.batch.signal)](lease)
    except batches.LeaseLost:
        logger.warning("batch.lease_lost", extra={"batch_id": batch_id})
    except LOST_DATABASE:
        raise
    except Exception as error:
        signal = lease.batch.signal
        logger.exception("batch.error", extra={"batch_id": batch_id, "signal": signal})
        batches.give_back(lease, reason=f"{type(error).__name__}: {error}")
    else:
        batches.close(lease)
        logger.debug("batch.done", extra={"batch_id": batch_id, "rows": rows})
    return batch_id
