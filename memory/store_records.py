"""A recorded run as the record stream that it would have been posted as, and the digest of that.

Guarantees: made of rows alone, in one order: the header with ``ended_at``; every tip that the run
retrieved or that was born in it, by external id (code points); the attempts in the order in which they
were begun, each with its retrievals by rank; the footer with the run's summary. So a run posted with
these records is the run that is stored ("unchanged"), and rows that differ give another digest. A shown
text that is the tip's own is left out, as a sender would. Memory is bounded by some attempts.

Does not hold bans (the wire has no place for them) nor what was computed since: signals and grades. The
coin and the ranker travel as fields that the wire keeps without knowing them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db.models import Prefetch, Q
from django.db.models.functions import Collate

from contextgraph.envelope import (
    AttemptEntry,
    RunHeader,
    TipEntry,
    digest_of,
    footer_of,
    validate,
)
from memory.models import Attempt, Retrieval, Run, Tip
from memory.store_rows import SENT_MODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contextgraph.envelope import Record

SUMMARY: Final = "summary"
"""Key in ``Run.extra`` of what the agent said at the end of its run."""
CONFIG: Final = "config"
"""Key in ``Run.extra`` of what the agent said at its start."""
AT_ONCE: Final = 100
"""Attempts, or tips, that are held."""

_SAME: Final = (
    "rule_id", "number", "category", "title", "started_at", "ended_at", "script", "narrative",
    "evaluator_raw", "evaluator_error", "passed", "apply_failed", "deferred", "text_repaired",
)  # fmt: skip
"""Columns of an attempt that carry the names of the wire."""
_TIP: Final = (
    "text", "tip_type", "category", "mechanism", "source_rule_id", "source_run_id",
    "outcome_at_source_value", "outcome_at_source_confidence", "environment_tag", "scope",
    "text_repaired",
)  # fmt: skip


def digest(run: Run) -> str:
    """64 hex digits over the rows of *run* as they are now."""
    return digest_of(records_of(run))


def records_of(run: Run) -> Iterator[Record]:
    """RunHeader, tips, attempts, RunFooter."""
    extra = dict(run.extra)
    closing = {SUMMARY: extra.pop(SUMMARY)} if SUMMARY in extra else {}
    header = _header(run, extra)
    yield header
    retrieved = Retrieval.objects.filter(run=run).values("tip_id")
    tips = Tip.objects.filter(
        Q(pk__in=retrieved) | Q(skill=run.skill, source_run_id=header.external_id)
    )
    for tip in tips.order_by(Collate("external_id", "C")).iterator(chunk_size=AT_ONCE):
        known = {name: getattr(tip, name) for name in _TIP}
        yield validate(TipEntry, tip.extra | known | {"tip": tip.external_id})
    rows = Retrieval.objects.select_related("tip").order_by("rank", "pk")
    rows = rows.defer("tip__text", "tip__mechanism", "tip__extra", "tip_followed_trace_evidence")
    attempts = Attempt.objects.filter(run=run).order_by("pk")
    for attempt in attempts.prefetch_related(Prefetch("retrievals", rows)).iterator(AT_ONCE):
        yield _attempt(attempt)
    yield footer_of(header, closing)


def _header(run: Run, extra: dict[str, Any]) -> RunHeader:
    names = (
        "skill", "external_id", "source", "started_at", "ended_at", "model", "environment_tag",
        "text_repaired",
    )  # fmt: skip
    return validate(RunHeader, extra | {name: getattr(run, name) for name in names})


def _attempt(attempt: Attempt) -> AttemptEntry:
    extra = dict(attempt.extra)
    cut = extra.pop("script_truncated", attempt.script_truncated)
    renumbered = attempt.sender_number != attempt.number
    known = {name: getattr(attempt, name) for name in _SAME} | {
        "failure_mode": extra.pop(SENT_MODE, attempt.failure_mode),
        "sender_number": attempt.sender_number if renumbered else None,
        "script_truncated": cut,
        "grade_value": attempt.sender_grade_value,
        "grade_confidence": attempt.sender_grade_confidence,
        "hazards": tuple(attempt.hazards),
        "retrievals": [_retrieval(row) for row in attempt.retrievals.all()],
    }
    return validate(AttemptEntry, extra | known)


def _retrieval(row: Any) -> dict[str, Any]:
    known = {
        "tip": row.tip.external_id,
        "rank": row.rank,
        "similarity": row.similarity_score,
        "shown": row.shown,
        "shown_text": None,
        "shown_cut": row.shown_cut,
        "withheld": row.withheld,
        "propensity": row.propensity,
        "canary": row.canary,
        "retrieved_at": row.retrieved_at,
    }
    if row.shown and row.shown_sha256 != row.tip.text_sha256:
        known["shown_text"] = row.shown_text
    if row.coin is not None:
        known["coin"] = row.coin
    if row.ranker:
        known["ranker"] = row.ranker
    return {**row.extra, **known}
