"""One run, whole: attempts, the tips of each, what each signal said, and why one said nothing.

Guarantees: plain JSON data in a fixed order (attempts as ingested, tips by rank); three queries, no
script or tip text loaded; the answer to "followed?" and its source are those of ``memory.credit``.
Does not hide a superseded revision: whoever names it by its primary key gets it, marked.

Shaped by: a system that could tell what a tip was worth but not which rows, signals and failures
that number was made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db.models import Q

from memory.credit import following, quadrant, row_of
from memory.models import Attempt, Retrieval
from memory.rates import rounded
from memory.reasons import STRUCTURAL, Reason

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from memory.models import Run

RUN_FIELDS: Final = (
    "external_id", "skill", "status", "revision", "source", "model", "environment_tag",
    "scoring_round", "log_format", "hazards", "text_repaired",
)  # fmt: skip
RUN_TIMES: Final = (
    "started_at",
    "ended_at",
    "ingested_at",
    "state_changed_at",
    "done_at",
    "superseded_at",
)
ATTEMPT_FIELDS: Final = (
    "rule_id", "number", "sender_number", "category", "title", "passed", "failure_mode",
    "outcome_value", "outcome_confidence", "outcome_reason", "outcome_grader", "evaluator_error",
    "apply_failed", "deferred", "script_sha256", "script_truncated", "hazards",
)  # fmt: skip
UNREAD: Final = ("script", "narrative", "evaluator_raw", "extra")
SIGNAL_FIELDS: Final = (
    "tip_followed_llm", "llm_label", "llm_source", "llm_reason", "llm_tries", "llm_redacted",
    "tip_followed_emb", "tip_followed_emb_max_chunk", "tip_followed_emb_truncated", "emb_source",
    "emb_reason",
    "tip_followed_trace", "tip_followed_trace_verdict", "tip_followed_trace_evidence",
    "tip_followed_trace_version", "trace_reason",
    "tip_followed_review", "tip_followed_review_by",
)  # fmt: skip


def run_view(run: Run) -> dict[str, Any]:
    """``{"run": …, "attempts": [… "retrievals": […]]}``.

    ``followed`` is what the first signal with an answer says (review, judge, trace, cosine) and
    ``followed_source`` is that signal; ``reason`` is the code that explains the NULL that matters
    most, None when there is none.
    """
    found = Attempt.objects.filter(run=run).annotate(has_script=Q(script__isnull=False))
    attempts = [_attempt(attempt) for attempt in found.defer(*UNREAD)]
    by_id = {attempt.pop("_pk"): attempt for attempt in attempts}
    rows: QuerySet[Any] = (
        Retrieval.objects.filter(run=run)
        .select_related("tip")
        .defer("shown_text", "tip__text", "tip__mechanism", "tip__extra", "extra")
        .order_by("attempt_id", "rank", "pk")
    )
    for row in rows.iterator():
        by_id[row.attempt_id]["retrievals"].append(_retrieval(row))
    return {"run": _run(run, attempts), "attempts": attempts}


def load_bearing_reason(row: Retrieval) -> str | None:
    """The one code that explains *row*: of the judge's NULL first, then the embedding's, the trace's."""
    candidates: list[str] = []
    if row.tip_followed_llm is None:
        said = (row.llm_reason, row.emb_reason, row.trace_reason)
        candidates += [reason for reason in said if reason in STRUCTURAL]
        candidates += [Reason.NO_OUTCOME] if row.outcome_value is None else []
        candidates.append(row.llm_reason)
    if row.tip_followed_emb is None:
        candidates.append(row.emb_reason)
    if row.tip_followed_trace is None:
        candidates.append(row.trace_reason)
    return next((str(reason) for reason in candidates if reason), None)


def _run(run: Run, attempts: list[dict[str, Any]]) -> dict[str, Any]:
    times = {name: getattr(run, name) for name in RUN_TIMES}
    return {
        "id": run.pk,
        **{name: getattr(run, name) for name in RUN_FIELDS},
        "high_stakes": run.extra.get("high_stakes") is True,
        **{name: time.isoformat() if time else None for name, time in times.items()},
        "attempts": len(attempts),
        "retrievals": sum(len(attempt["retrievals"]) for attempt in attempts),
    }


def _attempt(attempt: Any) -> dict[str, Any]:
    return {
        "_pk": attempt.pk,
        **{name: getattr(attempt, name) for name in ATTEMPT_FIELDS},
        "has_script": attempt.has_script,
        "retrievals": [],
    }


def _retrieval(row: Retrieval) -> dict[str, Any]:
    plain = row_of(row)
    followed, source = following(plain)
    return {
        "id": row.pk,
        "tip": row.tip.external_id,
        "tip_id": row.tip_id,
        "tip_type": row.tip.tip_type,
        "rank": row.rank,
        "similarity_score": rounded(row.similarity_score),
        "shown": row.shown,
        "shown_cut": row.shown_cut,
        "withheld": row.withheld,
        "propensity": row.propensity,
        "outcome_value": row.outcome_value,
        "outcome_confidence": row.outcome_confidence,
        "followed": followed,
        "followed_source": None if source is None else str(source),
        "quadrant": str(quadrant(plain)),
        "reason": load_bearing_reason(row),
        **{name: getattr(row, name) for name in SIGNAL_FIELDS},
    }
