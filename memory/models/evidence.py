"""RunEvidence, TipEvidence: what retrievals add up to, so that no reader has to add them up again.

Guarantees: every sum is derived (``memory.evidence`` makes it from rows, ``manage.py recount`` makes all
of them anew and compares); sums are exact decimals, so that adding and taking away leaves no residue;
a row of TipEvidence is the sum of the RunEvidence rows of its key. Does not hold a row for a pair that
was never retrieved: nothing known is not the same as nothing earned.

Shaped by: a hit rate that scanned the whole history at each retrieval, and counted ten attempts at one
rule as ten independent successes or failures.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q

from memory.models.runs import Run, Tip


class EvidenceSums(models.Model):
    """The sums themselves. A *visit* is a run's attempts at one rule: it counts once, by its mean credit.

    ``credit_*``: over the retrievals that the policy keeps in its denominator; each in [-1, 1].
    ``visit_*``: over the visits with any such retrieval; ``visit_squares`` gives the spread.
    """

    policy = models.CharField(max_length=50)
    rows = models.PositiveIntegerField(help_text="retrievals, withheld ones included")
    shown = models.PositiveIntegerField()
    followed = models.PositiveIntegerField()
    ignored = models.PositiveIntegerField()
    earned = models.PositiveIntegerField()
    misleading = models.PositiveIntegerField()
    lucky_neighbour = models.PositiveIntegerField()
    bystander = models.PositiveIntegerField()
    credit_n = models.PositiveIntegerField()
    credit_total = models.DecimalField(max_digits=30, decimal_places=12)
    visits = models.PositiveIntegerField()
    visit_total = models.DecimalField(max_digits=30, decimal_places=12)
    visit_squares = models.DecimalField(max_digits=30, decimal_places=12)

    class Meta:
        abstract = True


class RunEvidence(EvidenceSums):
    """What one run says about one tip on one rule under one policy: a recount of its rows.

    ``category``: one of those that the rule's rows have in this run.
    """

    # the unique constraint below serves reads by run
    run = models.ForeignKey(Run, models.PROTECT, related_name="evidence", db_index=False)
    # never read by tip: the sums of a tip stand in TipEvidence
    tip = models.ForeignKey(Tip, models.PROTECT, related_name="+", db_index=False)
    rule_id = models.CharField(max_length=500)
    category = models.CharField(max_length=500, blank=True)

    class Meta:
        db_table = "run_evidence"
        verbose_name_plural = "run evidence"
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(
                fields=["run", "tip", "rule_id", "category", "policy"], name="run_evidence_once"
            ),
            models.CheckConstraint(
                condition=Q(credit_n__lte=F("rows"), shown__lte=F("rows"), visits__lte=1),
                name="run_evidence_counts",
            ),
        ]

    def __str__(self) -> str:
        return f"evidence of run {self.run_id} on tip {self.tip_id}"


class TipEvidence(EvidenceSums):
    """What all runs say: of a tip on a rule, in a category, anywhere; and of the whole skill."""

    class Level(models.TextChoices):
        """``key`` holds the rule id, the category, or nothing."""

        RULE = "rule", "tip on a rule"
        CATEGORY = "category", "tip in a category"
        TIP = "tip", "tip anywhere"
        SKILL = "skill", "all tips of the skill"

    skill = models.CharField(max_length=500)
    level = models.CharField(max_length=10, choices=Level)
    key = models.CharField(max_length=500, blank=True)
    tip = models.ForeignKey(
        Tip, models.PROTECT, related_name="evidence", null=True, blank=True, help_text="skill: none"
    )

    class Meta:
        db_table = "tip_evidence"
        verbose_name_plural = "tip evidence"
        constraints: ClassVar[list[Any]] = [
            # one row per key, also for the skill's own without a tip; the ranker reads by its prefix
            models.UniqueConstraint(
                fields=["skill", "policy", "level", "key", "tip"],
                name="tip_evidence_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(level__in=["rule", "category", "tip", "skill"]),
                name="tip_evidence_level_known",
            ),
            models.CheckConstraint(
                condition=Q(level="skill", tip__isnull=True)
                | ~Q(level="skill") & Q(tip__isnull=False),
                name="tip_evidence_has_tip",
            ),
            models.CheckConstraint(
                condition=Q(credit_n__lte=F("rows"), shown__lte=F("rows"), visits__lte=F("rows")),
                name="tip_evidence_counts",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.level} evidence of tip {self.tip_id} under {self.policy}"
