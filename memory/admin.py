"""The graph in the admin: runs, attempts, tips, retrievals and dream passes, to be read.

Guarantees: every list takes a fixed number of queries, filters only by columns with few values, and
answers a search by whole ids. "Followed?" and its source are those of ``memory.credit``, as in every
report; a pass shows its report as text. Does not judge tips: ``memory.admin_tips`` has the pages where
people do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html

from memory import admin_evidence, admin_sweeps  # noqa: F401 - importing registers their pages
from memory.admin_base import ReadOnlyAdmin, excerpt
from memory.admin_judges import JudgedRowsAdmin
from memory.admin_tips import TipDesk, record_url
from memory.credit import Signal, following, quadrant, row_of
from memory.dream_report import markdown
from memory.models import Attempt, DreamPass, Retrieval, Run, Tip
from memory.provenance import UNCALIBRATED
from memory.run_view import load_bearing_reason
from memory.terminal import visible

if TYPE_CHECKING:
    from django.utils.safestring import SafeString


def rows_link(model: str, text: str, **filters: Any) -> SafeString:
    """A link to the list of *model* of this app, filtered."""
    query = "&".join(f"{name}__exact={value}" for name, value in filters.items())
    return format_html(
        '<a href="{}?{}">{}</a>', reverse(f"admin:memory_{model}_changelist"), query, text
    )


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Runs, latest first."""

    list_display = (
        "external_id", "skill", "status", "scoring_round", "revision", "model", "started_at",
        "ended_at", "superseded_at", "rows",
    )  # fmt: skip
    list_filter = ("status", ("superseded_at", admin.EmptyFieldListFilter))
    search_fields = ("external_id", "skill")
    search_help_text = "external id, skill or primary key, whole"
    unlisted = ("hazards", "extra")

    @admin.display(description="rows")
    def rows(self, run: Run) -> SafeString:
        """Links to the run's attempts and retrievals."""
        return format_html(
            "{} · {}",
            rows_link("attempt", "attempts", run=run.pk),
            rows_link("retrieval", "retrievals", run=run.pk),
        )


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    """Attempts of all runs."""

    list_display = (
        "rule_id", "number", "run", "category", "passed", "failure_mode", "outcome_value",
        "outcome_confidence", "outcome_reason", "script_truncated", "rows",
    )  # fmt: skip
    list_select_related = ("run",)
    list_filter = ("passed", "script_truncated", "apply_failed", "deferred")
    search_fields = ("rule_id", "run__external_id")
    search_help_text = "rule id, external id of the run or primary key, whole"
    unlisted = (
        "script",
        "narrative",
        "evaluator_raw",
        "evaluator_error",
        "extra",
        "run__extra",
        "run__hazards",
    )

    @admin.display(description="rows")
    def rows(self, attempt: Attempt) -> SafeString:
        """Link to the tips of the attempt."""
        return rows_link("retrieval", "retrievals", attempt=attempt.pk)


@admin.register(Tip)
class TipAdmin(TipDesk):
    """Tips, retired ones included; the pages about their records hang below."""

    list_display = (
        "external_id", "skill", "tip_type", "category", "beginning", "source_rule_id",
        "created_at", "retired_at", "rows",
    )  # fmt: skip
    list_filter = (("retired_at", admin.EmptyFieldListFilter),)
    search_fields = ("external_id", "source_rule_id")
    search_help_text = "external id, source rule or primary key, whole"
    unlisted = ("mechanism", "extra")

    @admin.display(description="text")
    def beginning(self, tip: Tip) -> str:
        """What it says, cut."""
        return excerpt(tip.text)

    @admin.display(description="rows")
    def rows(self, tip: Tip) -> SafeString:
        """Links to the retrievals of the tip and to its record."""
        return format_html(
            '{} · <a href="{}">record</a>',
            rows_link("retrieval", "retrievals", tip=tip.pk),
            record_url(tip.pk),
        )


@admin.register(Retrieval)
class RetrievalAdmin(JudgedRowsAdmin):
    """Retrievals: the unit of attribution."""

    list_display = (
        "id", "run", "rule_id", "attempt", "tip", "rank", "shown", "outcome_value", "answer",
        "quadrant", "tip_followed_llm", "judge", "tip_followed_emb", "tip_followed_trace_verdict",
        "reason",
    )  # fmt: skip
    list_select_related = ("run", "attempt", "tip")
    list_filter = ("shown", "superseded", "tip_followed_llm", "tip_followed_review")
    search_fields = ("rule_id", "run__external_id", "tip__external_id")
    search_help_text = "rule id, external id of the run or tip, or primary key, whole"
    ordering = ("-id",)
    unlisted = (
        "shown_text", "extra", "tip_followed_trace_evidence", "run__extra", "run__hazards",
        "attempt__script", "attempt__narrative", "attempt__evaluator_raw", "attempt__extra",
        "tip__text", "tip__mechanism", "tip__extra",
    )  # fmt: skip
    readonly_fields = ("answer", "quadrant", "judge", "reason")

    def source_of(self, row: Retrieval) -> str:
        """As stored beside the verdict."""
        return row.llm_source

    @admin.display(description="followed?")
    def answer(self, row: Any) -> str:
        """What the first signal with an answer says, which one that is, and whether it is marked."""
        followed, source = following(row_of(row))
        if followed is None:
            return "nobody knows"
        marked = source is Signal.LLM and row.judge_is_uncalibrated
        mark = f", {UNCALIBRATED}" if marked else ""
        return f"{'followed' if followed else 'ignored'} ({source}{mark})"

    @admin.display(description="quadrant")
    def quadrant(self, row: Retrieval) -> str:
        """Earned, misleading, lucky neighbour, bystander or unknown."""
        return str(quadrant(row_of(row))).replace("_", " ")

    @admin.display(description="reason")
    def reason(self, row: Retrieval) -> str:
        """Why a signal is missing."""
        return load_bearing_reason(row) or ""


@admin.register(DreamPass)
class DreamPassAdmin(ReadOnlyAdmin):
    """Stored recounts."""

    list_display = ("id", "run", "number", "policy", "retrievals", "created_at")
    list_select_related = ("run",)
    search_fields = ("run__external_id",)
    search_help_text = "external id of the run or primary key, whole"
    ordering = ("-id",)
    unlisted = ("summary", "report", "run__extra", "run__hazards")
    readonly_fields = ("document",)

    class Media:
        css = {"all": ("memory/desk.css",)}

    @admin.display(description="as a document")
    def document(self, kept: DreamPass) -> SafeString:
        """The report, Markdown shown as text: no tip's words become a link or a tag."""
        try:
            text = markdown(kept)
        except (KeyError, TypeError):  # a summary of a shape that is not made any more
            text = "Kept by an older version: `manage.py dream RUN --force` makes it anew."
        return format_html('<pre class="desk-text">{}</pre>', visible(text, lines=True))
