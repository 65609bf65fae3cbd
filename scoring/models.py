"""Work units of scoring, what judges answered, and cached text vectors.

Guarantees: a batch is worked on by one holder at a time (lease), is tried a bounded number of times,
and always ends in DONE or FAILED; a judgement is appended, never edited; a text is embedded once per
encoder. Does not guarantee at most one judge call per row: a worker killed between the call
and the commit pays twice.

Shaped by: an all-or-nothing write at the end of a nineteen-minute pass, lost to one stray brace.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from memory.models.checks import known
from memory.reasons import Reason


class Signal(models.TextChoices):
    """The machine signals; each has a module in this package and a queue of its own."""

    JUDGE = "judge", "LLM judge"
    EMBED = "embed", "embedding"
    TRACE = "trace", "action trace"


class ScoreBatch(models.Model):
    """A slice of a run's retrievals for one signal: NEW -> LEASED -> DONE | FAILED.

    The slice is a range of primary keys; which of its rows still lack the signal is read from the
    rows, so a batch that died half way goes on where it stopped.
    """

    class State(models.TextChoices):
        """NEW may be claimed; LEASED may be claimed again once the lease is over."""

        NEW = "new", "new"
        LEASED = "leased", "leased"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    OPEN = (State.NEW, State.LEASED)

    # the unique constraint below serves reads by run
    run = models.ForeignKey(
        "memory.Run", models.PROTECT, related_name="score_batches", db_index=False
    )
    round = models.PositiveIntegerField(help_text="the run's scoring round that made it")
    signal = models.CharField(max_length=10, choices=Signal)
    number = models.PositiveIntegerField()
    first_id = models.BigIntegerField(help_text="first retrieval, inclusive")
    last_id = models.BigIntegerField(help_text="last retrieval, inclusive")
    state = models.CharField(max_length=10, choices=State, default=State.NEW)
    tries = models.PositiveSmallIntegerField(default=0, help_text="counted before the work")
    leased_until = models.DateTimeField(null=True, blank=True)
    lease_token = models.CharField(max_length=36, blank=True, help_text="who holds the lease")
    sent_at = models.DateTimeField(null=True, blank=True)
    changed_at = models.DateTimeField()
    reason = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ("run", "round", "signal", "number")
        verbose_name_plural = "score batches"
        constraints: ClassVar[list[Any]] = [
            # dispatch may run twice; the second insert must be a no-op
            models.UniqueConstraint(
                fields=["run", "round", "signal", "number"], name="score_batch_once"
            ),
            models.CheckConstraint(
                condition=Q(signal__in=Signal.values), name="score_batch_signal_known"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["new", "leased", "done", "failed"]),
                name="score_batch_state_known",
            ),
            models.CheckConstraint(
                condition=~Q(state="leased") | Q(leased_until__isnull=False),
                name="score_batch_lease_ends",
            ),
            models.CheckConstraint(
                condition=~Q(state="failed") | ~Q(reason=""), name="score_batch_failed_has_reason"
            ),
            models.CheckConstraint(
                condition=Q(first_id__lte=models.F("last_id")), name="score_batch_range"
            ),
        ]
        indexes: ClassVar[list[Any]] = [
            # finalize and reaper: open batches only, a few hundred at any time
            models.Index(
                fields=["run", "state"],
                condition=Q(state__in=["new", "leased"]),
                name="score_batch_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.signal} batch {self.number} of run {self.run_id}"


class Judgement(models.Model):
    """One answer (or failure) of a judge about one retrieval, with all that it takes to audit it."""

    retrieval = models.ForeignKey("memory.Retrieval", models.PROTECT, related_name="judgements")
    followed = models.BooleanField(null=True, blank=True)
    reasoning = models.TextField(blank=True)
    reason = models.CharField(max_length=20, blank=True, help_text="why there is no verdict")
    error = models.CharField(max_length=500, blank=True)
    requested_model = models.CharField(max_length=200)
    served_model = models.CharField(max_length=200, blank=True)
    system_fingerprint = models.CharField(max_length=200, blank=True)
    prompt_sha256 = models.CharField(max_length=64)
    tier = models.CharField(max_length=20, default="default")
    prompt_tokens = models.PositiveIntegerField(null=True, blank=True)
    completion_tokens = models.PositiveIntegerField(null=True, blank=True)
    latency_s = models.FloatField(null=True, blank=True)
    http_tries = models.PositiveSmallIntegerField(default=0)
    raw_reply = models.TextField(blank=True, help_text="capped")
    evidence = models.JSONField(default=list, blank=True, help_text="spans of the script quoted")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        constraints: ClassVar[list[Any]] = [
            models.CheckConstraint(
                condition=Q(followed__isnull=False, reason="")
                | Q(followed__isnull=True) & ~Q(reason=""),
                name="judgement_label_or_reason",
            ),
            models.CheckConstraint(
                condition=known("reason", Reason.values), name="judgement_reason_known"
            ),
        ]

    def __str__(self) -> str:
        return f"judgement {self.pk} of retrieval {self.retrieval_id}"


class TextEmbedding(models.Model):
    """Vectors of one distinct text under one encoder (weights and recipe); 1.5 kB for a short text."""

    text_sha256 = models.CharField(max_length=64)
    encoder_sha256 = models.CharField(max_length=64, help_text="of weights and chunking recipe")
    vector = models.BinaryField(help_text="float32 little endian, 384")
    chunks = models.BinaryField(help_text="float32 little endian, n x 384; empty: same as vector")
    tokens = models.PositiveIntegerField()
    truncated = models.BooleanField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar[list[Any]] = [
            # cache key; two workers that embed the same text both succeed
            models.UniqueConstraint(
                fields=["text_sha256", "encoder_sha256"], name="text_embedding_once"
            ),
        ]

    def __str__(self) -> str:
        return f"embedding of {self.text_sha256[:12]}"
