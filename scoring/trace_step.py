"""Action-trace step of a batch: what each tip names, looked for in the parsed script.

Guarantees: a distinct tip and a distinct script are parsed once per batch; the verdict, its evidence
and the version of the rules are stored together; where the trace abstains, the row says so. A row whose
trace raises gets a reason and a line in the log, and the others go on.

A worker that has lost its batch writes nothing, however late it wakes up.

Does not excuse a skill file that cannot be used: that fails the batch, which is tried again.

Shaped by: one strange script that left five hundred rows of its batch without a signal.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from django.conf import settings

from contextgraph.skills import load_skill
from memory.models import Attempt, Retrieval
from memory.reasons import Reason
from scoring import batches
from scoring.trace import TRACE_VERSION, ActionVocabulary, Verdict, trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scoring.batches import Lease

logger = logging.getLogger(__name__)

WRITE_AT_ONCE: Final = 200
EVIDENCE_AT_MOST: Final = 20
"""Lines of evidence kept per row; a tip that names more is not clearer for it."""


def score(lease: Lease) -> int:
    """Fill tip_followed_trace and its companions for the open rows of a batch; returns their number.

    Raises:
        LeaseLost: another worker has the batch.
        SkillError, VocabularyError: the skill's file cannot be used.
    """
    rows = list(
        batches.rows_of(lease.batch).only("pk", "skill", "attempt_id", "shown_text", "trace_tries")
    )
    scripts = dict(
        Attempt.objects.filter(pk__in={row.attempt_id for row in rows}).values_list("pk", "script")
    )
    vocabularies = {skill: _vocabulary(skill) for skill in {row.skill for row in rows}}
    for start in range(0, len(rows), WRITE_AT_ONCE):
        part = rows[start : start + WRITE_AT_ONCE]
        for row in part:
            _fill(row, scripts[row.attempt_id] or "", vocabularies[row.skill])
        with batches.writing(lease, part):
            _write(part)
        batches.renew(lease)
    return len(rows)


def _vocabulary(skill: str) -> ActionVocabulary:
    actions = load_skill(settings.PROMPTS_DIR, skill).actions
    return ActionVocabulary.from_mapping(actions) if actions else ActionVocabulary.default()


def _fill(row: Retrieval, script: str, vocabulary: ActionVocabulary) -> None:
    row.trace_tries += 1
    try:
        result = trace(tip=row.shown_text, script=script, vocabulary=vocabulary)
    except Exception:
        logger.exception("trace.error", extra={"retrieval_id": row.pk})
        row.trace_reason = Reason.TRACE_ERROR
        return
    row.tip_followed_trace = result.score
    row.tip_followed_trace_verdict = result.verdict.value
    row.tip_followed_trace_version = TRACE_VERSION
    row.tip_followed_trace_evidence = [asdict(seen) for seen in result.evidence[:EVIDENCE_AT_MOST]]
    row.trace_reason = Reason.TRACE_ABSTAINED if result.verdict is Verdict.ABSTAINED else ""


def _write(rows: Sequence[Retrieval]) -> None:
    Retrieval.objects.bulk_update(
        rows,
        [
            "tip_followed_trace",
            "tip_followed_trace_verdict",
            "tip_followed_trace_version",
            "tip_followed_trace_evidence",
            "trace_reason",
            "trace_tries",
        ],
    )
