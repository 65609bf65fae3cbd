"""Memo: the last memo of a subject, with the facts it was written from and what was said about it.

Guarantees: one row per key, written in one statement, so that there is no half memo; a verdict names the
tier that gave it. The text is not trusted: who serves it compares its hash, which covers the sides too,
and holds them all against the facts of the day (``scoring.memos.cache``).

Does not keep earlier memos: the facts they told stand in rows of their own.

Shaped by: a cache whose key knew nothing of model, prompt and gate, and whose rows lost their verdicts.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q


class Memo(models.Model):
    """What is served until the facts change, or it is too old."""

    class Mode(models.TextChoices):
        """For whom it is written."""

        HUMAN = "human", "prose for a reviewer"
        AGENT = "agent", "a line for each fact"

    class Variant(models.TextChoices):
        """How it was asked to be written; ``reason`` says when the writer had to take over."""

        WRITER = "writer", "without a model"
        SINGLE = "single", "by a model in one pass"
        DEBATE = "debate", "by a model after a debate"

    key = models.CharField(max_length=64, help_text="sha256, see scoring/memos/cache.py")
    product = models.CharField(max_length=20)
    identifier = models.TextField()
    mode = models.CharField(max_length=10, choices=Mode)
    variant = models.CharField(max_length=10, choices=Variant)
    model = models.CharField(max_length=200, blank=True, help_text="asked; empty: none")
    prompt_sha256 = models.CharField(max_length=64, blank=True)
    gate_version = models.CharField(max_length=20)
    fingerprint = models.CharField(max_length=64, help_text="of the facts it was written from")
    facts = models.JSONField(help_text="the snapshot, see scoring/memos/stored.py")
    text = models.TextField()
    text_sha256 = models.CharField(max_length=64)
    sides = models.JSONField(
        default=list, blank=True, help_text="both sides of a debate; a text that was rejected"
    )
    reason = models.CharField(
        max_length=500, blank=True, help_text="why the writer took over; empty: it did not"
    )
    calls = models.PositiveIntegerField(default=0, help_text="calls to a model that it took")
    verdict = models.JSONField(
        null=True, blank=True, help_text="the judge's checklist; empty: not judged"
    )
    verdict_tier = models.CharField(max_length=20, blank=True)
    accepted = models.BooleanField(
        null=True, blank=True, help_text="by the judge; empty: not judged"
    )
    written_at = models.DateTimeField()
    judged_at = models.DateTimeField(null=True, blank=True)
    served_at = models.DateTimeField(null=True, blank=True, help_text="last time without writing")
    hits = models.PositiveIntegerField(default=0, help_text="times it was served without writing")

    class Meta:
        ordering = ("-id",)
        constraints: ClassVar[list[Any]] = [
            # the upsert's target: two writers of one memo leave one row
            models.UniqueConstraint(fields=["key"], name="memo_once_per_key"),
            models.CheckConstraint(
                condition=Q(mode__in=["human", "agent"]), name="memo_mode_known"
            ),
            models.CheckConstraint(
                condition=Q(variant="writer", model="")
                | Q(variant__in=["single", "debate"]) & ~Q(model=""),
                name="memo_variant_names_its_model",
            ),
            models.CheckConstraint(condition=~Q(text=""), name="memo_has_text"),
            models.CheckConstraint(
                condition=Q(
                    accepted__isnull=True, verdict__isnull=True, judged_at__isnull=True,
                    verdict_tier="",
                )
                | Q(accepted__isnull=False, verdict__isnull=False, judged_at__isnull=False)
                & ~Q(verdict_tier=""),
                name="memo_verdict_whole",
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"memo about {self.product} {self.identifier}"
