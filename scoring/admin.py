"""The judge's bench in the admin: work units and judgements, to be read.

Guarantees: as ``memory.admin_base`` says. Judgements show what was asked of which model and what it
answered; their text is hostile input and is escaped.
"""

from __future__ import annotations

from django.contrib import admin

from memory.admin_base import ReadOnlyAdmin, excerpt
from scoring.models import Judgement, ScoreBatch


@admin.register(ScoreBatch)
class ScoreBatchAdmin(ReadOnlyAdmin):
    """Slices of runs, per signal."""

    list_display = (
        "id", "run", "round", "signal", "number", "state", "tries", "leased_until", "sent_at",
        "changed_at", "reason",
    )  # fmt: skip
    list_select_related = ("run",)
    list_filter = ("signal", "state")
    search_fields = ("run__external_id",)
    search_help_text = "external id of the run or primary key, whole"
    ordering = ("-id",)
    unlisted = ("run__extra", "run__hazards")


@admin.register(Judgement)
class JudgementAdmin(ReadOnlyAdmin):
    """Answers and failures of judges, latest first."""

    list_display = (
        "id", "retrieval_id", "followed", "beginning", "reason", "requested_model", "served_model",
        "tier", "latency_s", "http_tries", "created_at",
    )  # fmt: skip
    list_filter = ("followed",)
    search_fields = ("retrieval__tip__external_id",)
    search_help_text = "external id of the tip or primary key, whole"
    ordering = ("-id",)
    unlisted = ("raw_reply", "evidence")

    @admin.display(description="reasoning")
    def beginning(self, judgement: Judgement) -> str:
        """What the judge gave as its reason, cut."""
        return excerpt(judgement.reasoning or judgement.error)
