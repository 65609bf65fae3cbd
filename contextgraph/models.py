"""Intake: documents that arrive in parts, and messages that were refused.

Guarantees: no message is acknowledged before it is a row here or a stored run; a refused message
keeps its bytes (capped), headers and reason, and can be replayed; a part that arrives twice is one
row. Does not guarantee that a document ever becomes complete: ``doctor`` shows the ones that wait.

Shaped by: transports without dead-letter queues, where rejecting a message simply deletes it.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from django.db import models
from django.db.models import Q


class IncomingDocument(models.Model):
    """A run document that travels in parts; its identity is the sha256 of the whole."""

    sha256 = models.CharField(max_length=64, unique=True)
    name = models.TextField(blank=True, help_text="file name at the sender, for people")
    format = models.CharField(max_length=50, default="auto")
    skill = models.CharField(max_length=500, blank=True, help_text="when the log does not name it")
    revise = models.BooleanField(default=False)
    parts = models.PositiveIntegerField()
    size = models.BigIntegerField(help_text="bytes of the whole, compressed as sent")
    first_part_at = models.DateTimeField(auto_now_add=True)
    last_part_at = models.DateTimeField()
    assembled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        constraints: ClassVar[list[Any]] = [
            models.CheckConstraint(condition=Q(parts__gte=1), name="document_has_parts"),
        ]
        indexes: ClassVar[list[Any]] = [
            # doctor: documents that still wait for parts, oldest first
            models.Index(
                fields=["last_part_at"],
                condition=Q(assembled_at__isnull=True),
                name="document_incomplete",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name or 'document'} {self.sha256[:12]}"


class IncomingPart(models.Model):
    """One part of a document; emptied once the whole has been ingested."""

    document = models.ForeignKey(IncomingDocument, models.CASCADE, related_name="pieces")
    number = models.PositiveIntegerField(help_text="1-based")
    sha256 = models.CharField(max_length=64)
    body = models.BinaryField()

    class Meta:
        constraints: ClassVar[list[Any]] = [
            # parts may arrive twice
            models.UniqueConstraint(fields=["document", "number"], name="part_once_per_document"),
        ]

    def __str__(self) -> str:
        return f"part {self.number} of {self.document_id}"


class RejectionReason(models.TextChoices):
    """Why a message was refused."""

    NOT_JSON = "not_json", "not JSON"
    CONTENT_TYPE = "content_type", "content type is not JSON"
    TOO_LARGE = "too_large", "too large"
    SCHEMA = "schema", "does not match the schema"
    VERSION = "version", "unknown version"
    DIGEST = "digest", "a digest does not match"
    CONFLICT = "conflict", "another run is stored under this id"
    CLAIM = "claim", "the claim check cannot be fetched"
    UNREADABLE = "unreadable", "the run log cannot be read"
    INTERNAL = "internal", "an error of ours"


class RejectedMessage(models.Model):
    """A message that intake refused, with what it takes to replay it."""

    Reason: TypeAlias = RejectionReason

    received_at = models.DateTimeField(auto_now_add=True)
    reason = models.CharField(max_length=20, choices=RejectionReason)
    detail = models.TextField()
    content_type = models.CharField(max_length=200, blank=True)
    headers = models.JSONField(default=dict, blank=True)
    body = models.BinaryField(help_text="raw bytes, capped")
    body_size = models.BigIntegerField(help_text="bytes before the cap")
    body_sha256 = models.CharField(max_length=64)
    replays = models.PositiveIntegerField(default=0)
    resolved_at = models.DateTimeField(null=True, blank=True, help_text="a replay went through")

    class Meta:
        ordering = ("-id",)
        permissions: ClassVar[list[Any]] = [("replay_message", "Can replay a rejected message")]
        constraints: ClassVar[list[Any]] = [
            models.CheckConstraint(
                condition=Q(reason__in=RejectionReason.values), name="rejected_reason_known"
            ),
        ]
        indexes: ClassVar[list[Any]] = [
            # replay_rejected, doctor, admin: the ones that still wait
            models.Index(
                fields=["received_at"], condition=Q(resolved_at__isnull=True), name="rejected_open"
            ),
        ]

    def __str__(self) -> str:
        return f"rejected message {self.pk} ({self.reason})"
