"""Work units of scoring, what judges answered, and cached text vectors.

Guarantees: a batch is worked on by one holder at a time (lease), is tried a bounded number of times,
and always ends in DONE or FAILED; a judgement is appended, never edited; a text is embedded once per
encoder. Does not guarantee at most one judge call per row: a worker killed between the call and the
commit pays twice.

Shaped by: an all-or-nothing write at the end of a nineteen-minute pass, lost to one stray brace.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from memory.models.checks import known, label_agrees
from memory.reasons import JudgeLabel, Reason


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
    without_cache = models.BooleanField(
        default=False, db_default=False, help_text="the judge is asked anew, whatever is cached"
    )
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
                condition=Q(first_id__lte=F("last_id")), name="score_batch_range"
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
    """What one judge said (or failed to say) about one retrieval, with all that it takes to audit it.

    Appended, never edited: a later verdict of a stronger judge names the one that it supersedes.
    What the call cost stands in `call`, which several judgements may share; a verdict from the
    cache has none, and neither has a question that could not be asked.
    """

    retrieval = models.ForeignKey("memory.Retrieval", models.PROTECT, related_name="judgements")
    call = models.ForeignKey(
        "scoring.JudgeCall", models.PROTECT, related_name="judgements", null=True, blank=True
    )
    supersedes = models.OneToOneField(
        "self", models.PROTECT, related_name="superseded_by", null=True, blank=True
    )
    label = models.CharField(max_length=20, blank=True, choices=JudgeLabel)
    said = models.CharField(
        max_length=20, blank=True, help_text="the label before its quotes were verified"
    )
    followed = models.BooleanField(null=True, blank=True)
    reasoning = models.TextField(blank=True)
    evidence = models.JSONField(
        default=list, blank=True, help_text="a line per claim, and where its quote was found"
    )
    reason = models.CharField(max_length=20, blank=True, help_text="why there is no yes or no")
    error = models.CharField(max_length=500, blank=True)
    requested_model = models.CharField(max_length=200)
    served_model = models.CharField(max_length=200, blank=True)
    system_fingerprint = models.CharField(max_length=200, blank=True)
    prompt_id = models.CharField(max_length=64, blank=True)
    prompt_version = models.PositiveIntegerField(null=True, blank=True)
    prompt_sha256 = models.CharField(max_length=64)
    prompt_skill = models.CharField(max_length=64, blank=True, help_text="folder of the prompt")
    cross_skill = models.BooleanField(
        default=False, help_text="the tip belongs to another skill than its run, whose prompt it is"
    )
    tier = models.CharField(max_length=20, default="default")
    stakes = models.JSONField(
        default=list, blank=True, help_text="why the stronger judge was asked"
    )
    position = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="place among the tips of the call, from 1"
    )
    cached = models.BooleanField(default=False)
    request_key = models.CharField(
        max_length=64, blank=True, help_text="sha256 of the canonical request; key of the cache"
    )
    redactions = models.JSONField(
        default=dict, blank=True, help_text="secrets taken out before sending, per text and kind"
    )
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
            models.CheckConstraint(
                condition=label_agrees(label="label", followed="followed", reason="reason"),
                name="judgement_label_agrees",
            ),
            # a hit costs nothing: what it cost stands with the judgement that was cached
            models.CheckConstraint(
                condition=Q(cached=False) | Q(call__isnull=True) & ~Q(request_key=""),
                name="judgement_cached_has_no_call",
            ),
        ]
        indexes: ClassVar[list[Any]] = [
            # as what has a judge answered? asked wherever a verdict is shown (scoring.calibrated)
            models.Index(
                F("requested_model"),
                F("prompt_sha256"),
                F("served_model"),
                F("system_fingerprint"),
                Coalesce("position", 0),
                condition=~Q(label="") | Q(followed__isnull=False),
                name="judgement_answered_as",
            ),
        ]

    def __str__(self) -> str:
        return f"judgement {self.pk} of retrieval {self.retrieval_id}"


class JudgeCall(models.Model):
    """One question put to a judge server, about tips or a memo, and what it cost. Appended."""

    run = models.ForeignKey(
        "memory.Run", models.PROTECT, related_name="judge_calls", null=True, blank=True,
        help_text="empty: a memo that is not about one run",
    )  # fmt: skip
    purpose = models.CharField(
        max_length=20, default="verdict", db_default="verdict",
        help_text="verdict, or memo_ and the prompt's name",
    )  # fmt: skip
    tier = models.CharField(max_length=20, default="default")
    requested_model = models.CharField(max_length=200)
    served_model = models.CharField(max_length=200, blank=True)
    system_fingerprint = models.CharField(max_length=200, blank=True)
    prompt_sha256 = models.CharField(max_length=64)
    tips = models.PositiveSmallIntegerField(help_text="tips asked about; of a memo 0")
    again = models.BooleanField(default=False, help_text="asked a second time within one step")
    http_tries = models.PositiveSmallIntegerField(help_text="requests sent")
    seconds = models.FloatField(help_text="wall time, waiting for its turn and retries included")
    latency_s = models.FloatField(null=True, blank=True, help_text="of the request that answered")
    prompt_tokens = models.PositiveIntegerField(null=True, blank=True)
    cached_tokens = models.PositiveIntegerField(
        null=True, blank=True, help_text="those of the prompt that the server had in its cache"
    )
    completion_tokens = models.PositiveIntegerField(null=True, blank=True)
    reasoning_tokens = models.PositiveIntegerField(null=True, blank=True)
    error_class = models.CharField(max_length=60, blank=True, help_text="empty: the reply was read")
    error = models.CharField(max_length=500, blank=True)
    raw_reply = models.TextField(blank=True, help_text="capped")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        constraints: ClassVar[list[Any]] = [
            models.CheckConstraint(
                condition=Q(purpose="verdict", run__isnull=False) | Q(purpose__startswith="memo_"),
                name="judge_call_has_purpose",
            ),
        ]
        indexes: ClassVar[list[Any]] = [
            # a new process asks which fingerprint the model had last
            models.Index(fields=["requested_model", "-id"], name="judge_call_latest"),
        ]

    def __str__(self) -> str:
        return f"call {self.pk} to {self.requested_model}"


class VerdictCache(models.Model):
    """A verdict that holds: its label says something, and its quotes were found. Written once."""

    key = models.CharField(max_length=64, primary_key=True, help_text="sha256, see judge/cache.py")
    label = models.CharField(max_length=20, choices=JudgeLabel)
    said = models.CharField(max_length=20)
    reasoning = models.TextField(blank=True)
    evidence = models.JSONField(default=list)
    requested_model = models.CharField(max_length=200)
    served_model = models.CharField(max_length=200, blank=True)
    system_fingerprint = models.CharField(max_length=200, blank=True)
    prompt_sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar[list[Any]] = [
            # an answer that proves nothing is asked for anew
            models.CheckConstraint(
                condition=Q(
                    label__in=["followed", "contradicted", "not_followed", "not_applicable"]
                ),
                name="verdict_cache_holds_good_ones",
            ),
        ]

    def __str__(self) -> str:
        return f"cached verdict {self.key[:12]}"


class JudgePause(models.Model):
    """A time in which a judge is not asked. At most one per tier is not cleared.

    When `until` is over, one worker may try: a failure prolongs the pause, an answer clears it.
    """

    tier = models.CharField(max_length=20, default="default")
    since = models.DateTimeField()
    until = models.DateTimeField(help_text="nobody asks before; then one worker does")
    cause = models.CharField(max_length=500)
    error_class = models.CharField(max_length=60)
    failures = models.PositiveIntegerField(default=1, help_text="calls that failed into this pause")
    cleared_at = models.DateTimeField(null=True, blank=True)
    cleared_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ("-id",)
        constraints: ClassVar[list[Any]] = [
            # eight threads meet the same 401: one row, one line in the log
            models.UniqueConstraint(
                fields=["tier"], condition=Q(cleared_at__isnull=True), name="judge_pause_open_once"
            ),
        ]

    def __str__(self) -> str:
        return f"pause {self.pk} of judge {self.tier}"


class EscalationBudget(models.Model):
    """How many verdicts of a run were put to the stronger judge; counted before it is asked."""

    run = models.OneToOneField("memory.Run", models.PROTECT, primary_key=True)
    spent = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.spent} escalations of run {self.run_id}"


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
