"""Which signals of a run can be computed again, and their rows made ready for it.

Guarantees: a reason that the run itself gives (not shown, no script, ...) stays; judgements stay, they
are appended to; a review stays; a superseded row is not judged again. After :func:`clear` a row is as
if the signal had never looked at it, tries included.

Does not open a scoring round and does not guard against one that is open: pipeline.rescore does.

Shaped by: an outage of a day that left rows without a signal for ever, because all their tries were used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db.models import Q

from memory.models import Retrieval
from memory.reasons import STRUCTURAL, UNANSWERED, Reason
from scoring.batches import REASON_COLUMN
from scoring.models import Signal

if TYPE_CHECKING:
    from memory.querysets import RetrievalQuerySet

UNTOUCHED: Final[dict[Signal, dict[str, Any]]] = {
    Signal.JUDGE: {
        "tip_followed_llm": None,
        "llm_label": "",
        "llm_redacted": False,
        "llm_source": "",
        "llm_reason": "",
        "llm_tries": 0,
        "llm_retry_at": None,
    },
    Signal.EMBED: {
        "tip_followed_emb": None,
        "tip_followed_emb_max_chunk": None,
        "tip_followed_emb_truncated": None,
        "emb_source": "",
        "emb_reason": "",
        "emb_tries": 0,
    },
    Signal.TRACE: {
        "tip_followed_trace": None,
        "tip_followed_trace_verdict": "",
        "tip_followed_trace_version": "",
        "tip_followed_trace_evidence": [],
        "trace_reason": "",
        "trace_tries": 0,
    },
}
"""The columns of a signal as ingest leaves them."""


def rescorable(run_id: int, signal: Signal, *, only_failed: bool) -> RetrievalQuerySet:
    """Rows of a run whose *signal* can be computed again; *only_failed*: those without an answer."""
    rows = Retrieval.objects.filter(run_id=run_id)
    if signal is Signal.JUDGE:
        rows = rows.counted()
    column = f"{REASON_COLUMN[signal]}__in"
    if only_failed:
        return rows.filter(**{column: [str(reason) for reason in UNANSWERED]})
    # a text that a later run brought makes the row computable after all
    late_text = Q(**{REASON_COLUMN[signal]: Reason.TIP_TEXT_UNKNOWN}) & ~Q(shown_sha256="")
    return rows.filter(late_text | ~Q(**{column: [str(reason) for reason in STRUCTURAL]}))


def clear(run_id: int, signal: Signal, *, only_failed: bool) -> int:
    """Forget *signal* on these rows; returns their number."""
    cleared = rescorable(run_id, signal, only_failed=only_failed).update(**UNTOUCHED[signal])
    # "computed at" is shared by judge and embedding: it goes with the last of them
    Retrieval.objects.filter(
        run_id=run_id,
        tip_followed_computed_at__isnull=False,
        tip_followed_llm__isnull=True,
        tip_followed_emb__isnull=True,
    ).exclude(emb_reason=Reason.EMBEDDING_ERROR).update(tip_followed_computed_at=None)
    return cleared
