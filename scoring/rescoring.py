"""Which signals of a run can be computed again, and their rows made ready for it.

Guarantees: a reason that the run itself gives (not shown, no script, ...) stays; judgements stay, they
are appended to; a review stays; a superseded row is not judged again. After :func:`clear` a row is as
if the signal had never looked at it, tries included. What is counted as stale is an answer, or an
abstention, of another judge, prompt, encoder or trace than the one in use here.

Does not open a scoring round and does not guard against one that is open: pipeline.rescore does. Does
not see an edited action vocabulary: the trace's version is that of its rules.

Shaped by: an outage of a day that left rows without a signal for ever, because all their tries were used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db.models import Count, Q

from memory.models import Retrieval
from memory.reasons import STRUCTURAL, UNANSWERED, Reason
from scoring.batches import REASON_COLUMN
from scoring.embed_step import ENCODER_SHA256
from scoring.judge.bench import TIERS, config, configured
from scoring.judge.prompt import PromptLibrary
from scoring.model_size import source_name
from scoring.models import Signal
from scoring.trace import TRACE_VERSION

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from memory.models import Run
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

SOURCE_COLUMN: Final = {
    Signal.JUDGE: "llm_source",
    Signal.EMBED: "emb_source",
    Signal.TRACE: "tip_followed_trace_version",
}
"""Who gave the answer that stands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """Which rows of a run. All that are given must hold.

    ``only_failed``: without an answer, and nothing in the run forbids one. ``stale``: see the module.
    ``tip_id``: primary key; ``since``: retrieved then or later.
    """

    only_failed: bool = False
    stale: bool = False
    rule_id: str | None = None
    tip_id: int | None = None
    since: datetime | None = None

    def place(self) -> Q:
        """Rule, tip and time as a condition."""
        given = {
            "rule_id": self.rule_id,
            "tip_id": self.tip_id,
            "retrieved_at__gte": self.since,
        }
        return Q(**{name: value for name, value in given.items() if value is not None})


EVERY_ROW: Final = Chosen()


def rescorable(run: Run, signal: Signal, chosen: Chosen = EVERY_ROW) -> RetrievalQuerySet:
    """Rows of a run whose *signal* can be computed again.

    Raises:
        PromptError, ValueError: for stale judgements, the skill's prompt or the judge's settings.
    """
    rows = Retrieval.objects.filter(chosen.place(), run=run)
    if signal is Signal.JUDGE:
        rows = rows.counted()
    column = f"{REASON_COLUMN[signal]}__in"
    if chosen.only_failed:
        return rows.filter(**{column: [str(reason) for reason in UNANSWERED]})
    if chosen.stale:
        source = SOURCE_COLUMN[signal]
        rows = rows.exclude(**{source: ""}).exclude(**{f"{source}__in": sources(run.skill, signal)})
    # a text that a later run brought makes the row computable after all
    late_text = Q(**{REASON_COLUMN[signal]: Reason.TIP_TEXT_UNKNOWN}) & ~Q(shown_sha256="")
    return rows.filter(late_text | ~Q(**{column: [str(reason) for reason in STRUCTURAL]}))


def sources(skill: str, signal: Signal) -> list[str]:
    """What the source column of *signal* says of an answer that is given now, for this skill.

    Raises as :func:`rescorable`.
    """
    if signal is Signal.TRACE:
        return [TRACE_VERSION]
    if signal is Signal.EMBED:
        return [ENCODER_SHA256[:16]]
    prompt = _prompts(settings.PROMPTS_DIR).for_skill(skill)
    models = [config(tier).model for tier in TIERS if configured(tier)]
    return [source_name(model, prompt.sha256) for model in models]


@lru_cache(maxsize=8)
def _prompts(root: Path) -> PromptLibrary:
    return PromptLibrary(root)


def why(run: Run, signal: Signal, chosen: Chosen = EVERY_ROW) -> dict[str, int]:
    """The rows of :func:`rescorable`, counted by who answered or by why nobody did; most first."""
    source, reason = SOURCE_COLUMN[signal], REASON_COLUMN[signal]
    rows = rescorable(run, signal, chosen).order_by().values_list(source, reason)
    counted: dict[str, int] = {}
    for by, because, n in rows.annotate(n=Count("pk")).order_by("-n", source, reason):
        words = f"answered by {by}" if by else f"unanswered: {because or 'not looked at yet'}"
        counted[words] = counted.get(words, 0) + n
    return counted


def clear(run: Run, signal: Signal, chosen: Chosen = EVERY_ROW) -> int:
    """Forget *signal* on these rows; returns their number."""
    cleared = rescorable(run, signal, chosen).update(**UNTOUCHED[signal])
    # "computed at" is shared by judge and embedding: it goes with the last of them
    Retrieval.objects.filter(
        run=run,
        tip_followed_computed_at__isnull=False,
        tip_followed_llm__isnull=True,
        tip_followed_emb__isnull=True,
    ).exclude(emb_reason=Reason.EMBEDDING_ERROR).update(tip_followed_computed_at=None)
    return cleared
