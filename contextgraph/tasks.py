"""Thin tasks of the corridor, all on queue ``control``: an id in, an id out."""

from __future__ import annotations

from celery import shared_task

from contextgraph import pipeline
from scoring.tasks import OPTIONS


@shared_task(name="contextgraph.dispatch_run", ignore_result=True, **OPTIONS)
def dispatch_run(run_id: int) -> int:
    """INGESTED -> SCORING; sends the chord."""
    pipeline.dispatch(run_id)
    return run_id


@shared_task(name="contextgraph.finalize_run", ignore_result=True, **OPTIONS)
def finalize_run(run_id: int) -> int:
    """Body and errback of the chord: closes the round if all its batches are closed."""
    pipeline.finalize(run_id)
    return run_id


@shared_task(name="contextgraph.reap_runs", ignore_result=True)
def reap_runs() -> dict[str, list[int]]:
    """Scheduled sweep, see :func:`contextgraph.pipeline.reap`."""
    return pipeline.reap().as_dict()
