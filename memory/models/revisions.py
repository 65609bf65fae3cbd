"""OutcomeRevision, Ban, TipVector: grades that were put right, patterns not to be tried, vectors of tips.

Guarantees: a changed outcome keeps its predecessor and its cause; revisions are appended; a ban is one
per run and pattern; a tip has at most one vector, and the encoder that made it stands beside it.

Shaped by: an evaluator bug found after fifteen runs, whose wrong grades had been credited for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from memory.models.checks import GRADE_MAX, GRADE_MIN, within
from memory.models.runs import Attempt, Run, Tip

if TYPE_CHECKING:
    BaseFloatField = models.FloatField[float, float]
else:
    BaseFloatField = models.FloatField


class OutcomeRevision(models.Model):
    """An attempt's outcome was replaced: what it was, what it became, and why. Appended, never edited."""

    class Cause(models.TextChoices):
        """Why the outcome changed."""

        REGRADE = "regrade", "graded again by another version of the ladder"
        LATE_OUTCOME = "late_outcome", "the verdict arrived after the run"
        UNDO = "undo", "an earlier revision was taken back"

    # the unique constraint below serves reads by attempt
    attempt = models.ForeignKey(
        Attempt, models.PROTECT, related_name="outcome_revisions", db_index=False
    )
    number = models.PositiveIntegerField(help_text="from 1, per attempt")
    cause = models.CharField(max_length=20, choices=Cause)
    old_value = models.FloatField(null=True, blank=True)
    old_confidence = models.FloatField(null=True, blank=True)
    old_reason = models.CharField(max_length=20, blank=True)
    old_grader = models.CharField(max_length=100)
    old_failure_mode = models.CharField(max_length=500, blank=True)
    old_evaluator = models.JSONField(
        null=True, blank=True, help_text="evaluator columns that a late verdict replaced"
    )
    new_value = models.FloatField(null=True, blank=True)
    new_confidence = models.FloatField(null=True, blank=True)
    new_reason = models.CharField(max_length=20, blank=True)
    new_grader = models.CharField(max_length=100)
    new_failure_mode = models.CharField(max_length=500, blank=True)
    by = models.CharField(max_length=150)
    note = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        db_table = "outcome_revisions"
        ordering = ("id",)
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["attempt", "number"], name="outcome_revision_once"),
            models.CheckConstraint(
                condition=Q(cause__in=["regrade", "late_outcome", "undo"]),
                name="outcome_revision_cause_known",
            ),
            models.CheckConstraint(
                condition=within("old_value", GRADE_MIN, GRADE_MAX)
                & within("new_value", GRADE_MIN, GRADE_MAX)
                & within("old_confidence", 0.0, 1.0)
                & within("new_confidence", 0.0, 1.0),
                name="outcome_revision_range",
            ),
            models.CheckConstraint(condition=~Q(by=""), name="outcome_revision_has_author"),
        ]

    def __str__(self) -> str:
        return f"revision {self.number} of attempt {self.attempt_id}"


class Ban(models.Model):
    """A pattern that an agent is told not to try again, as it reported it."""

    skill = models.CharField(max_length=500)
    run = models.ForeignKey(Run, models.PROTECT, related_name="bans", db_index=False)
    rule_id = models.CharField(max_length=500, blank=True, help_text="empty: for every rule")
    pattern = models.CharField(max_length=1000)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "bans"
        ordering = ("id",)
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["run", "rule_id", "pattern"], name="ban_once"),
            models.CheckConstraint(condition=~Q(pattern=""), name="ban_says_something"),
        ]
        indexes: ClassVar[list[Any]] = [
            models.Index(fields=["skill", "rule_id", "-id"], name="ban_of_rule"),
        ]

    def __str__(self) -> str:
        return f"ban {self.pk} of {self.skill}"


class RealField(BaseFloatField):
    """A float of four bytes: vectors are computed in single precision."""

    def db_type(self, connection: Any) -> str:
        """Postgres' ``real``."""
        return "real"


class TipVector(models.Model):
    """The text vector of a tip, for the ranker's candidates; of unit length."""

    tip = models.OneToOneField(Tip, models.PROTECT, primary_key=True, related_name="vector")
    skill = models.CharField(max_length=500)
    encoder = models.CharField(max_length=64, help_text="sha256 of weights and recipe")
    text_sha256 = models.CharField(max_length=64)
    values = ArrayField(RealField())

    class Meta:
        db_table = "tip_vectors"
        indexes: ClassVar[list[Any]] = [
            # asked at each search by text: how many, and the highest key
            models.Index(fields=["skill", "encoder", "tip"], name="tip_vector_latest"),
        ]

    def __str__(self) -> str:
        return f"vector of tip {self.tip_id}"
