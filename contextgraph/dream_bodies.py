"""What each stage of a dream pass does: the bodies of memory, and what scoring adds to them.

Guarantees: every body is a recount of rows and may be run again. SCORE settles p(followed) before CREDIT
reads it (law 7). The vectors of the run's tips are filled with the REPORT, in a savepoint: without them
the ranker's text leg is silent, and no pass fails.

Does not run anything by itself: ``memory.dream`` does, for ``contextgraph.pipeline``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import transaction

from memory import dream_stages
from memory.credit import policy_named
from memory.dream import Stage, words_of
from memory.signals import coverage
from scoring import attribution, batches, tip_vectors
from scoring.models import Signal
from scoring.work import LOST_DATABASE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memory.dream import Body
    from memory.models import Run

logger = logging.getLogger(__name__)


def score(run: Run) -> dict[str, Any]:
    """Close the run's signals: reasons for rows that were not judged, p(followed) of the others."""
    skipped = batches.skip_superseded(run.pk)  # it may have been superseded while it was judged
    changed = attribution.fill(run.pk)
    return {
        "skipped_as_superseded": skipped,
        "p_followed_changed": changed,
        "coverage": [signal.as_dict() for signal in coverage(run.retrievals.all())],
    }


def credit(run: Run) -> dict[str, Any]:
    """Under the deployment's policy."""
    return dream_stages.credit(run, policy=policy_named(settings.CREDIT_POLICY))


def report(run: Run) -> dict[str, Any]:
    """Say what changed, then have the ranker find the run's tips by their text."""
    return dream_stages.report(run) | _fill_vectors(run)


def _fill_vectors(run: Run) -> dict[str, Any]:
    if Signal.EMBED not in settings.SIGNALS:
        return {}  # the model may not even be installed
    try:
        with transaction.atomic():
            filled = tip_vectors.fill_for_run(run.pk)
    except LOST_DATABASE:
        raise
    except Exception as error:
        logger.exception("dream.vectors_failed", extra={"run_id": run.pk})
        return {"tip_vectors_error": words_of(error)}
    return {"tip_vectors_written": filled.written, "tip_vectors_left": filled.left}


STAGES: Final[Mapping[Stage, Body]] = {
    Stage.SCORE: score,
    Stage.CREDIT: credit,
    Stage.EVICT: dream_stages.evict,
    Stage.REPORT: report,
}
