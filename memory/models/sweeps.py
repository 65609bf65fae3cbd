"""EvictionSweep, SweepEntry, TipChange: which tips were retired, why, by whom, and how to take it back.

Guarantees: a sweep holds the gate that it used and an entry for each tip that the gate caught, with the
figures of that moment; it is previewed, then applied, then perhaps undone, never edited otherwise; every
retirement and return of a tip is appended to TipChange. Does not delete a tip or a retrieval.

Shaped by: 587 tips retired in one night, and an undo typed by hand as ``retired_at > ...``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from memory.models.runs import Run, Tip


class EvictionSweep(models.Model):
    """One pass of the eviction gate over the active tips of a skill."""

    class State(models.TextChoices):
        """PREVIEWED changes nothing; UNDONE has given back what it retired."""

        PREVIEWED = "previewed", "previewed"
        APPLIED = "applied", "applied"
        UNDONE = "undone", "undone"

    skill = models.CharField(max_length=500)
    policy = models.CharField(max_length=50)
    gate = models.JSONField(help_text="the gate as it was used, see memory/eviction.py")
    state = models.CharField(max_length=10, choices=State, default=State.PREVIEWED)
    run = models.ForeignKey(
        Run, models.PROTECT, related_name="sweeps", null=True, blank=True,
        help_text="whose dream pass made it; empty: a person",
    )  # fmt: skip
    active = models.PositiveIntegerField(help_text="active tips that were looked at")
    with_evidence = models.PositiveIntegerField(help_text="of these, with enough to be judged")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    applied_at = models.DateTimeField(null=True, blank=True)
    applied_by = models.CharField(max_length=150, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)
    undone_by = models.CharField(max_length=150, blank=True)

    class Meta:
        db_table = "eviction_sweeps"
        ordering = ("-id",)
        constraints: ClassVar[list[Any]] = [
            models.CheckConstraint(
                condition=Q(state__in=["previewed", "applied", "undone"]), name="sweep_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state="previewed", applied_at__isnull=True)
                | ~Q(state="previewed") & Q(applied_at__isnull=False) & ~Q(applied_by=""),
                name="sweep_applied_has_time",
            ),
            models.CheckConstraint(
                condition=~Q(state="undone") | Q(undone_at__isnull=False) & ~Q(undone_by=""),
                name="sweep_undone_has_time",
            ),
        ]
        indexes: ClassVar[list[Any]] = [
            models.Index(fields=["skill", "-id"], name="sweep_of_skill"),
        ]

    def __str__(self) -> str:
        return f"sweep {self.pk} of {self.skill} ({self.state})"


class SweepEntry(models.Model):
    """One tip that the gate caught, with the figures that it was judged by."""

    class Cause(models.TextChoices):
        """The quadrant that weighs most in the tip's record."""

        MISLEADING = "misleading", "followed into failures"
        LUCKY_NEIGHBOUR = "lucky_neighbour", "present at successes that it had no part in"
        DEAD_WEIGHT = "dead_weight", "neither followed nor present at success"

    # the unique constraint below serves reads by sweep
    sweep = models.ForeignKey(EvictionSweep, models.PROTECT, related_name="entries", db_index=False)
    tip = models.ForeignKey(Tip, models.PROTECT, related_name="sweep_entries")
    cause = models.CharField(max_length=20, choices=Cause)
    mean = models.FloatField(help_text="shrunk mean credit on the policy's scale, [-1, 1]")
    low = models.FloatField(help_text="lower end of its 95 % interval")
    high = models.FloatField(help_text="upper end of its 95 % interval")
    visits = models.PositiveIntegerField()
    figures = models.JSONField(help_text="quadrant counts and the like")
    over_cap = models.BooleanField(default=False, help_text="caught, but left for a later sweep")
    retired = models.BooleanField(default=False, help_text="by this sweep, when it was applied")
    given_back = models.BooleanField(default=False, help_text="when the sweep was undone")

    class Meta:
        db_table = "eviction_sweep_entries"
        ordering = ("id",)
        verbose_name_plural = "sweep entries"
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["sweep", "tip"], name="sweep_entry_once"),
            models.CheckConstraint(
                condition=Q(cause__in=["misleading", "lucky_neighbour", "dead_weight"]),
                name="sweep_entry_cause_known",
            ),
            models.CheckConstraint(
                condition=Q(low__gte=-1e9, low__lte=models.F("mean"), high__gte=models.F("mean"))
                & Q(high__lte=1e9),
                name="sweep_entry_interval",
            ),
            models.CheckConstraint(
                condition=Q(retired=True) | Q(given_back=False), name="sweep_entry_gives_back_own"
            ),
        ]

    def __str__(self) -> str:
        return f"tip {self.tip_id} in sweep {self.sweep_id}"


class TipChange(models.Model):
    """A tip left the active pool, came back, was asked for, or got another standing. Appended only."""

    class Action(models.TextChoices):
        """What happened to the tip."""

        RETIRE = "retire", "retired"
        REACTIVATE = "reactivate", "reactivated"
        PROTECT = "protect", "protected from sweeps"
        UNPROTECT = "unprotect", "no longer protected from sweeps"
        EXEMPT = "exempt", "never withheld by the coin"
        INCLUDE = "include", "withheld by the coin like others"
        PROPOSE = "propose", "learned again while retired"

    tip = models.ForeignKey(Tip, models.PROTECT, related_name="changes")
    action = models.CharField(max_length=10, choices=Action)
    reason = models.TextField()
    by = models.CharField(max_length=150)
    at = models.DateTimeField()
    sweep = models.ForeignKey(
        EvictionSweep, models.PROTECT, related_name="changes", null=True, blank=True
    )

    class Meta:
        db_table = "tip_changes"
        ordering = ("id",)
        constraints: ClassVar[list[Any]] = [
            models.CheckConstraint(
                condition=Q(
                    action__in=[
                        "retire",
                        "reactivate",
                        "protect",
                        "unprotect",
                        "exempt",
                        "include",
                        "propose",
                    ]
                ),
                name="tip_change_action_known",
            ),
            models.CheckConstraint(
                condition=~Q(reason="") & ~Q(by=""), name="tip_change_has_reason_and_author"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} tip {self.tip_id}"
