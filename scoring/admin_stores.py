"""What scoring keeps for itself, in the admin: cached verdicts, budgets, text vectors; to be read.

Guarantees: as ``memory.admin_base`` says; vectors are not shown, only what they are of. Empties no cache.

Shaped by: a cache that answered for weeks and that nobody could look into.
"""

from __future__ import annotations

from django.contrib import admin

from memory.admin_base import ReadOnlyAdmin, excerpt
from scoring.models import EscalationBudget, TextEmbedding, VerdictCache


@admin.register(VerdictCache)
class VerdictCacheAdmin(ReadOnlyAdmin):
    """Verdicts that identical questions are answered with."""

    list_display = ("key", "label", "said", "beginning", "requested_model", "created_at")
    list_filter = ("label",)
    search_fields = ("key",)
    search_help_text = "key, whole"
    ordering = ("-key",)
    unlisted = ("evidence",)

    @admin.display(description="reasoning")
    def beginning(self, kept: VerdictCache) -> str:
        """What the judge gave as its reason, cut."""
        return excerpt(kept.reasoning)


@admin.register(EscalationBudget)
class EscalationBudgetAdmin(ReadOnlyAdmin):
    """How many verdicts of a run went to the stronger judge."""

    list_display = ("run_id", "run", "spent")
    list_select_related = ("run",)
    search_fields = ("run__external_id",)
    search_help_text = "external id of the run or primary key, whole"
    ordering = ("-run_id",)
    unlisted = ("run__extra", "run__hazards")


@admin.register(TextEmbedding)
class TextEmbeddingAdmin(ReadOnlyAdmin):
    """Texts that have a vector, without the numbers."""

    list_display = ("id", "text_sha256", "encoder_sha256", "tokens", "truncated", "created_at")
    list_filter = ("truncated",)
    search_fields = ("text_sha256",)
    search_help_text = "sha256 of the text or primary key, whole"
    ordering = ("-id",)
    exclude = ("vector", "chunks")
    unlisted = ("vector", "chunks")
