"""DreamPass, DreamStage: the recount at the end of a scoring round, and how far it has come.

Guarantees: a pass is a snapshot derived from rows; a run has one row per stage, which says which pass it
belongs to and how it ended, so that a pass that was killed goes on with the stage it was killed in.

Shaped by: a guard column that was written last, and read by two passes at once.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from memory.models.runs import Run


class DreamPass(models.Model):
    """The recount of a run's rows: derived, kept as a snapshot for reports."""

    run = models.ForeignKey(Run, models.PROTECT, related_name="dream_passes", db_index=False)
    number = models.PositiveIntegerField(help_text="the run's pass that made it, from 1")
    policy = models.CharField(max_length=50)
    created_at = models.DateTimeField(auto_now_add=True)
    retrievals = models.PositiveIntegerField()
    summary = models.JSONField(help_text="per tip and per category, see memory/summary.py")
    report = models.JSONField(
        default=dict, blank=True, help_text="what changed since the last pass, see memory/dream.py"
    )

    class Meta:
        db_table = "dream_passes"
        verbose_name_plural = "dream passes"
        ordering = ("run", "number")
        constraints: ClassVar[list[Any]] = [
            # finalize may run twice for one round; the second must not count anything again
            models.UniqueConstraint(fields=["run", "number"], name="dream_pass_once_per_round"),
        ]

    def __str__(self) -> str:
        return f"dream pass {self.number} of run {self.run_id}"


class DreamStage(models.Model):
    """Where the run's current pass stands in one stage."""

    class Stage(models.TextChoices):
        """In the order in which they run (law 7): score, then credit, then evict, then report."""

        SCORE = "score", "score"
        CREDIT = "credit", "credit"
        EVICT = "evict", "evict"
        REPORT = "report", "report"

    class State(models.TextChoices):
        """A stage becomes DONE in the transaction of its work; FAILED says why, and is tried again."""

        NEW = "new", "new"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    # the unique constraint below serves reads by run
    run = models.ForeignKey(Run, models.PROTECT, related_name="dream_stages", db_index=False)
    stage = models.CharField(max_length=10, choices=Stage)
    number = models.PositiveIntegerField(help_text="of the pass it belongs to, from 1")
    state = models.CharField(max_length=10, choices=State, default=State.NEW)
    finished_at = models.DateTimeField(null=True, blank=True)
    seconds = models.FloatField(null=True, blank=True)
    detail = models.JSONField(default=dict, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        db_table = "dream_stages"
        ordering = ("id",)
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["run", "stage"], name="dream_stage_once"),
            models.CheckConstraint(
                condition=Q(stage__in=["score", "credit", "evict", "report"]),
                name="dream_stage_known",
            ),
            models.CheckConstraint(
                condition=Q(state="new", finished_at__isnull=True)
                | Q(state__in=["done", "failed"], finished_at__isnull=False),
                name="dream_stage_state_known",
            ),
            models.CheckConstraint(
                condition=~Q(state="failed") | ~Q(error=""), name="dream_stage_failed_has_error"
            ),
        ]

    def __str__(self) -> str:
        return f"stage {self.stage} of pass {self.number} of run {self.run_id}"
