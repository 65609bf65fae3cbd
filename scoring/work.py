"""One door to work on a score batch: claim, compute, store, close. Tasks and the reaper both use it.

Guarantees: what fails is stored and never raised, so that no chord is failed by one row. Only a lost
database is raised, for Celery to try again; the lease then ends by itself. Safe to run twice.

Shaped by: chords whose body never ran because one header of two hundred had raised (celery#1700).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from django.db import DatabaseError, InterfaceError, OperationalError

from scoring import batches, embed_step, trace_step
from scoring.judge import service as judge_step
from scoring.models import Signal

if TYPE_CHECKING:
    from collections.abc import Callable

    from scoring.models import ScoreBatch

logger = logging.getLogger(__name__)

STEPS: Final[dict[Signal, Callable[[ScoreBatch], int]]] = {
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
    batch = batches.claim(batch_id)
    if batch is None:
        return batch_id
    try:
        rows = STEPS[Signal(batch.signal)](batch)
    except batches.LeaseLost:
        logger.warning("batch.lease_lost", extra={"batch_id": batch_id})
    except LOST_DATABASE:
        raise
    except DatabaseError as error:
        _give_back(batch, error)
    except Exception as error:  # noqa: BLE001 - a header task never fails its chord
        _give_back(batch, error)
    else:
        batches.close(batch)
        logger.debug("batch.done", extra={"batch_id": batch_id, "rows": rows})
    return batch_id


def _give_back(batch: ScoreBatch, error: Exception) -> None:
    logger.exception("batch.error", extra={"batch_id": batch.pk, "signal": batch.signal})
    batches.give_back(batch, reason=f"{type(error).__name__}: {error}")
