"""Intake in the admin: refused messages, which can be replayed, and documents that wait for parts.

Guarantees: pages are read-only; the one action, replay, needs a permission of its own, goes through
the same function as ``replay_rejected``, and is written to the admin's log. Bytes of strangers are
shown decoded, cut and escaped. Names the admin site.

Shaped by: queues whose refused messages could only be looked at by taking them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin, messages

from contextgraph.models import IncomingDocument, RejectedMessage
from contextgraph.rejected import Replay, replay
from contextgraph.tasks import dispatch_run
from memory.admin_base import ReadOnlyAdmin, excerpt
from memory.terminal import visible

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

admin.site.site_header = "contextgraph"
admin.site.site_title = "contextgraph"
admin.site.index_title = "What happened, and what each tip is worth"

BODY_SHOWN = 20_000
"""Bytes of a refused message on its page."""

FAILURES_SHOWN = 5


@admin.register(RejectedMessage)
class RejectedMessageAdmin(ReadOnlyAdmin):
    """Messages that intake refused, latest first."""

    list_display = (
        "id", "received_at", "reason", "what_happened", "content_type", "body_size", "replays",
        "resolved_at",
    )  # fmt: skip
    list_filter = ("reason", ("resolved_at", admin.EmptyFieldListFilter))
    search_fields = ("body_sha256",)
    search_help_text = "sha256 of the bytes or primary key, whole"
    ordering = ("-id",)
    unlisted = ("body", "headers")
    readonly_fields = ("body_text",)
    actions = ("replay_selected",)

    @admin.display(description="detail")
    def what_happened(self, message: RejectedMessage) -> str:
        """The cause, cut."""
        return excerpt(message.detail, limit=160)

    @admin.display(description="body")
    def body_text(self, message: RejectedMessage) -> str:
        """The first bytes, decoded; what is no text is shown as escapes."""
        body = bytes(message.body)
        text = body[:BODY_SHOWN].decode("utf-8", "backslashreplace")
        more = f"\n… {message.body_size - BODY_SHOWN} more bytes" if len(body) > BODY_SHOWN else ""
        return visible(text, lines=True) + more

    def has_replay_permission(self, request: HttpRequest) -> bool:
        """Who may replay; asked by Django for the action below."""
        return request.user.has_perm("contextgraph.replay_message")

    @admin.action(description="Replay the selected messages", permissions=["replay"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[RejectedMessage]) -> None:
        """Put them through intake again; those that were resolved already are left alone."""
        rows = queryset.filter(resolved_at__isnull=True).order_by("pk")
        outcomes = list(replay(rows, announce=dispatch_run.delay))
        self._log(request, outcomes)
        stored = sum(outcome.ok for outcome in outcomes)
        level = messages.SUCCESS if stored == len(outcomes) else messages.WARNING
        text = f"{stored} of {len(outcomes)} messages went through."
        self.message_user(request, text, level)
        for outcome in [outcome for outcome in outcomes if not outcome.ok][:FAILURES_SHOWN]:
            detail = f"Message {outcome.id}: {outcome.reason}: {excerpt(outcome.detail, limit=300)}"
            self.message_user(request, detail, messages.ERROR)

    def _log(self, request: HttpRequest, outcomes: list[Replay]) -> None:
        rows = RejectedMessage.objects.defer("body").in_bulk([outcome.id for outcome in outcomes])
        for outcome in outcomes:
            said = "went through" if outcome.ok else f"refused again: {outcome.reason}"
            self.log_change(request, rows[outcome.id], f"Replayed: {said}.")


@admin.register(IncomingDocument)
class IncomingDocumentAdmin(ReadOnlyAdmin):
    """Run documents that travel in parts."""

    list_display = (
        "id", "name", "sha256", "format", "skill", "parts", "size", "first_part_at",
        "last_part_at", "assembled_at",
    )  # fmt: skip
    list_filter = (("assembled_at", admin.EmptyFieldListFilter),)
    search_fields = ("sha256",)
    search_help_text = "sha256 of the document or primary key, whole"
    ordering = ("-id",)
