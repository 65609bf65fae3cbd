"""Action-trace step of a batch: what each tip names, looked for in the parsed script.

Guarantees: a distinct tip and a distinct script are parsed once per batch; the verdict, its evidence
and the version of the rules are stored together; where the trace abstains, the row says so.
"""

from __future__ import annotations

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

    from scoring.models import ScoreBatch

WRITE_AT_ONCE: Final = 200
EVIDENCE_AT_MOST: Final = 20
"""Lines of evidence kept per row; a tip that names more is not clearer for it."""


def score(batch: ScoreBatch) -> int:
    """Fill tip_followed_trace and its companions for the open rows of *batch*; returns their number."""
    rows = list(
        batches.rows_of(batch).only("pk", "skill", "attempt_id", "shown_text", "trace_tries")
    )
    scripts = dict(
        Attempt.objects.filter(pk__in={row.attempt_id for row in rows}).values_list("pk", "script")
    )
    for start in range(0, len(rows), WRITE_AT_ONCE):
        part = rows[start : start + WRITE_AT_ONCE]
        for row in part:
            _fill(row, script=scripts[row.attempt_id] or "")
        _write(part)
        batches.renew(batch)
    return len(rows)


def _fill(row: Retrieval, *, script: str) -> None:
    actions = load_skill(settings.PROMPTS_DIR, row.skill).actions
    vocabulary = ActionVocabulary.from_mapping(actions) if actions else ActionVocabulary.default()
    result = trace(tip=row.shown_text, script=script, vocabulary=vocabulary)
    row.trace_tries += 1
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
