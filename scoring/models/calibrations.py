"""What signals are worth against labels, and the coefficients fitted to them.

Guarantees: appended, never edited: a fit that is no longer in use stays readable. A judge's row names
model and prompt, and holds what the server said it was. Does not decide who counts as calibrated
(``scoring.calibrated`` does). Shaped by figures of a model that had been exchanged behind its name.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q

from memory.models.checks import known


class Calibration(models.Model):
    """How well one signal answered labelled pairs, and the coefficients that were fitted to them.

    A judge is its model, its prompt's sha256, what the server said it was and how it was asked: a
    change of any makes another judge (``scoring.calibrated``). Of the fits the latest adopted is in use.
    """

    class Labels(models.TextChoices):
        """Who labelled."""

        PAIRS = "pairs", "a file of labelled pairs"
        HUMAN = "human", "reviews in the database"

    signal = models.CharField(max_length=20, help_text="trace, embedding, judge or combined")
    model = models.CharField(max_length=200, blank=True, help_text="judge model, as requested")
    prompt_sha256 = models.CharField(max_length=64, blank=True)
    version = models.CharField(max_length=64, help_text="of the signal's rules or numbers")
    labels = models.CharField(max_length=10, choices=Labels)
    pairs_sha256 = models.CharField(max_length=64, help_text="of the labels that were compared")
    n = models.PositiveIntegerField(help_text="labelled pairs")
    decided = models.PositiveIntegerField(help_text="those that the signal answered")
    report = models.JSONField()
    coefficients = models.JSONField(null=True, blank=True, help_text="combined: the fit")
    served = models.JSONField(
        default=list, blank=True,
        help_text="what the server said it was: model, fingerprint, pairs decided",
    )  # fmt: skip
    asked = models.JSONField(
        default=dict, blank=True,
        help_text="mode, tips of a question, sampling parameters; empty: not known",
    )  # fmt: skip
    adopted = models.BooleanField(
        default=False, help_text="combined: p(followed) is computed with the latest of these"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        constraints: ClassVar[list[Any]] = [
            models.CheckConstraint(
                condition=known("labels", ["pairs", "human"]), name="calibration_labels_known"
            ),
            models.CheckConstraint(
                condition=~Q(signal="judge") | ~Q(model="") & ~Q(prompt_sha256=""),
                name="calibration_judge_is_named",
            ),
            models.CheckConstraint(
                condition=Q(decided__lte=F("n")), name="calibration_decided_of_n"
            ),
            models.CheckConstraint(
                condition=Q(adopted=False) | Q(coefficients__isnull=False),
                name="calibration_adopted_is_a_fit",
            ),
        ]
        indexes: ClassVar[list[Any]] = [
            # "is this judge calibrated?", asked wherever a verdict is shown
            models.Index(fields=["signal", "model", "prompt_sha256"], name="calibration_of_judge"),
        ]

    def __str__(self) -> str:
        return f"calibration {self.pk} of {self.signal}"
