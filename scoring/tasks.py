"""Header tasks, one per signal: an id in, the same id out. The work is in scoring/work.py.

Returning the id matters: two deliveries of one header then have equal results, and collapse in the
result backend. A task raises for a lost database only, and Celery tries it again a few times.
"""

from __future__ import annotations

from typing import Any, Final

from celery import shared_task

from scoring.work import LOST_DATABASE, score_batch

OPTIONS: Final[dict[str, Any]] = {
    "autoretry_for": LOST_DATABASE,
    "max_retries": 5,
    "retry_backoff": 1,
    "retry_backoff_max": 15,
}


@shared_task(name="scoring.judge_batch", **OPTIONS)
def judge_batch(batch_id: int) -> int:
    """Queue ``judge``."""
    return score_batch(batch_id)


@shared_task(name="scoring.embed_batch", **OPTIONS)
def embed_batch(batch_id: int) -> int:
    """Queue ``embed``."""
    return score_batch(batch_id)


@shared_task(name="scoring.trace_batch", **OPTIONS)
def trace_batch(batch_id: int) -> int:
    """Queue ``trace``."""
    return score_batch(batch_id)


TASK_OF: Final = {"judge": judge_batch, "embed": embed_batch, "trace": trace_batch}
"""Signal -> task."""
