"""Kept beside the graph: sums of evidence, stages of passes, revisions, bans and vectors; to be read.

Guarantees: as ``memory.admin_base`` says; a filter's choices are known beforehand and never collected
from the table. Changes nothing: ``manage.py recount`` mends sums, ``regrade`` revises outcomes.

Shaped by: aggregates that were shown without the sums they were made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from memory.admin_base import ReadOnlyAdmin, excerpt
from memory.credit import POLICIES
from memory.evidence_sql import COUNTS
from memory.models import Ban, DreamStage, OutcomeRevision, RunEvidence, TipEvidence, TipVector

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

SHOWN = (*COUNTS, "credit_n", "credit_total", "visits", "visit_total")


class PolicyFilter(admin.SimpleListFilter):
    """By credit policy: those of ``memory.credit``."""

    title = "policy"
    parameter_name = "policy"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The names."""
        return [(name, name) for name in POLICIES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Rows of the policy that was chosen."""
        return queryset.filter(policy=self.value()) if self.value() else queryset


@admin.register(RunEvidence)
class RunEvidenceAdmin(ReadOnlyAdmin):
    """What one run says about a tip on a rule."""

    list_display = ("id", "run", "tip", "rule_id", "category", "policy", *SHOWN)
    list_select_related = ("run", "tip")
    list_filter = (PolicyFilter,)
    search_fields = ("run__external_id",)
    search_help_text = "external id of the run or primary key, whole"
    ordering = ("-id",)
    unlisted = ("run__extra", "run__hazards", "tip__text", "tip__mechanism", "tip__extra")


@admin.register(TipEvidence)
class TipEvidenceAdmin(ReadOnlyAdmin):
    """What all runs say about a tip, and about a skill."""

    list_display = ("id", "skill", "level", "key", "tip", "policy", *SHOWN)
    list_select_related = ("tip",)
    list_filter = ("level", PolicyFilter)
    search_fields = ("tip__external_id",)
    search_help_text = "external id of the tip or primary key, whole"
    ordering = ("-id",)
    unlisted = ("tip__text", "tip__mechanism", "tip__extra")


@admin.register(DreamStage)
class DreamStageAdmin(ReadOnlyAdmin):
    """How far the latest pass of each run has come."""

    list_display = ("id", "run", "number", "stage", "state", "finished_at", "seconds", "failure")
    list_select_related = ("run",)
    list_filter = ("stage", "state")
    search_fields = ("run__external_id",)
    search_help_text = "external id of the run or primary key, whole"
    ordering = ("-id",)
    unlisted = ("detail", "run__extra", "run__hazards")

    @admin.display(description="error")
    def failure(self, stage: DreamStage) -> str:
        """What it raised, cut."""
        return excerpt(stage.error, limit=160)


@admin.register(OutcomeRevision)
class OutcomeRevisionAdmin(ReadOnlyAdmin):
    """Outcomes that were put right, latest first."""

    list_display = (
        "id", "attempt", "number", "cause", "old_value", "new_value", "old_grader", "new_grader",
        "by", "at",
    )  # fmt: skip
    list_select_related = ("attempt",)
    list_filter = ("cause",)
    search_fields = ("attempt__rule_id",)
    search_help_text = "rule id or primary key, whole"
    ordering = ("-id",)
    unlisted = (
        "old_evaluator", "note", "attempt__script", "attempt__narrative", "attempt__evaluator_raw",
        "attempt__extra",
    )  # fmt: skip


@admin.register(Ban)
class BanAdmin(ReadOnlyAdmin):
    """Patterns that agents are told not to try again."""

    list_display = ("id", "skill", "run", "rule_id", "what", "created_at")
    list_select_related = ("run",)
    search_fields = ("skill", "run__external_id")
    search_help_text = "skill, external id of the run or primary key, whole"
    ordering = ("-id",)
    unlisted = ("run__extra", "run__hazards")

    @admin.display(description="pattern")
    def what(self, ban: Ban) -> str:
        """The pattern, cut."""
        return excerpt(ban.pattern)


@admin.register(TipVector)
class TipVectorAdmin(ReadOnlyAdmin):
    """Text vectors of tips, without their numbers."""

    list_display = ("tip_id", "tip", "skill", "encoder", "text_sha256")
    list_select_related = ("tip",)
    search_fields = ("tip__external_id",)
    search_help_text = "external id of the tip or primary key, whole"
    ordering = ("-tip_id",)
    exclude = ("values",)
    unlisted = ("values", "tip__text", "tip__mechanism", "tip__extra")
