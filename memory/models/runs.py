"""Run, Attempt, Tip: what happened. See the package docstring for what the rows guarantee."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q

from memory.models.checks import GRADE_MAX, GRADE_MIN, known, within
from memory.models.families import RuleFamily
from memory.querysets import RunQuerySet, TipQuerySet
from memory.reasons import OUTCOME_REASONS


class Run(models.Model):
    """A run of an agent loop: (RECORDING ->) INGESTED -> SCORING -> FINALIZING -> DONE.

    RECORDING: an agent is at work on it (``memory.store``); nothing is scored or credited yet.

    DONE is final. The reaper and ``rescore`` may take a run from DONE to SCORING again when a failed
    judge call is due for a retry; the recount that follows replaces nothing, it adds a DreamPass.
    """

    class Status(models.TextChoices):
        """Where the run stands; the only place that says so (the broker merely hints)."""

        RECORDING = "recording", "recording"
        INGESTED = "ingested", "ingested"
        SCORING = "scoring", "scoring"
        FINALIZING = "finalizing", "finalizing"
        DONE = "done", "done"

    OPEN = (Status.INGESTED, Status.SCORING, Status.FINALIZING)
    """What the pipeline has to finish; a run that is still being recorded is its agent's."""

    skill = models.CharField(max_length=500)
    external_id = models.CharField(max_length=500)
    source = models.CharField(max_length=500, blank=True)
    revision = models.PositiveIntegerField(default=1)
    superseded_at = models.DateTimeField(null=True, blank=True)
    digest = models.CharField(max_length=64, help_text="sha256 of the canonical record stream")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True, help_text="empty: the run died")
    model = models.CharField(max_length=500, blank=True)
    environment_tag = models.CharField(max_length=500, blank=True)
    log_path = models.TextField(blank=True)
    log_sha256 = models.CharField(max_length=64, blank=True)
    log_format = models.CharField(max_length=50, blank=True)
    hazards = models.JSONField(default=dict, blank=True, help_text="what the reader met, counted")
    extra = models.JSONField(
        default=dict, blank=True, help_text="fields of the sender kept as sent"
    )
    text_repaired = models.BooleanField(default=False)
    ingested_at = models.DateTimeField(auto_now_add=True)

    # State, written by pipeline.py alone.
    status = models.CharField(max_length=12, choices=Status, default=Status.INGESTED)
    scoring_round = models.PositiveIntegerField(default=0, help_text="how often it went to scoring")
    state_changed_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True, blank=True, help_text="first time it became final")
    dream_number = models.PositiveIntegerField(default=0, help_text="dream passes begun")

    objects = RunQuerySet.as_manager()

    class Meta:
        db_table = "runs"
        ordering = ("-started_at", "-id")
        constraints: ClassVar[list[Any]] = [
            # intake is idempotent: two consumers with the same message cannot both insert
            models.UniqueConstraint(
                fields=["skill", "external_id"],
                condition=Q(superseded_at__isnull=True),
                name="run_current_once_per_skill_and_id",
            ),
            models.UniqueConstraint(
                fields=["skill", "external_id", "revision"], name="run_revision_once"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["recording", "ingested", "scoring", "finalizing", "done"]),
                name="run_status_known",
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("started_at")),
                name="run_ends_after_start",
            ),
            models.CheckConstraint(
                condition=~Q(status="done") | Q(done_at__isnull=False), name="run_done_has_time"
            ),
        ]
        indexes: ClassVar[list[Any]] = [
            # reap_runs: open runs only, a handful at any time
            models.Index(
                fields=["state_changed_at"], condition=~Q(status="done"), name="run_open_by_age"
            ),
            # audit_memory, admin list: the latest runs of a skill
            models.Index(fields=["skill", "-started_at"], name="run_skill_latest"),
            # intake: "have we stored this very document before?" without parsing it
            models.Index(fields=["log_sha256"], name="run_log_sha256"),
            # show_run, audit_memory, post_run --follow, admin search: a run by its name alone
            models.Index(fields=["external_id"], name="run_external_id"),
        ]

    def __str__(self) -> str:
        return f"{self.skill}/{self.external_id}"


class Tip(models.Model):
    """A piece of advice. Its text never changes: a revised text is another tip of the sender."""

    class Scope(models.TextChoices):
        """For what the tip is retrieved."""

        RULE = "rule", "rules like the one it came from"
        ENVIRONMENT = "environment", "every rule in its environment"

    skill = models.CharField(max_length=500)
    external_id = models.CharField(max_length=500, help_text="the sender's id of the tip")
    text = models.TextField(blank=True, help_text="empty: retrieved, but its text was never sent")
    text_sha256 = models.CharField(max_length=64, blank=True)
    words_sha256 = models.CharField(
        max_length=64, blank=True, db_default="",
        help_text="of the words alone: equal where a text says the same in nearly these words",
    )  # fmt: skip
    tip_type = models.CharField(max_length=500, blank=True)
    category = models.CharField(max_length=500, blank=True)
    mechanism = models.TextField(blank=True)
    source_rule_id = models.CharField(max_length=500, blank=True)
    source_run_id = models.CharField(max_length=500, blank=True, help_text="as the sender names it")
    outcome_at_source_value = models.FloatField(null=True, blank=True)
    outcome_at_source_confidence = models.FloatField(null=True, blank=True)
    environment_tag = models.CharField(max_length=500, blank=True)
    extra = models.JSONField(default=dict, blank=True)
    text_repaired = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(null=True, blank=True)
    retired_reason = models.TextField(blank=True)
    retired_sweep = models.ForeignKey(
        "memory.EvictionSweep", models.PROTECT, related_name="retired_tips", null=True, blank=True,
        help_text="empty while retired: a person did it",
    )  # fmt: skip
    scope = models.CharField(max_length=20, choices=Scope, default=Scope.RULE)
    protected = models.BooleanField(default=False, help_text="no sweep retires it")
    holdout_exempt = models.BooleanField(default=False, help_text="never withheld by the coin")
    rule_family = models.GeneratedField(
        expression=RuleFamily("source_rule_id"), output_field=models.TextField(), db_persist=True
    )

    objects = TipQuerySet.as_manager()

    class Meta:
        db_table = "tips"
        ordering = ("id",)
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["skill", "external_id"], name="tip_once_per_skill"),
            models.CheckConstraint(
                condition=within("outcome_at_source_value", GRADE_MIN, GRADE_MAX),
                name="tip_source_value_range",
            ),
            models.CheckConstraint(
                condition=within("outcome_at_source_confidence", 0.0, 1.0),
                name="tip_source_confidence_range",
            ),
            models.CheckConstraint(
                condition=Q(retired_at__isnull=True) | ~Q(retired_reason=""),
                name="tip_retired_has_reason",
            ),
            models.CheckConstraint(
                condition=Q(retired_sweep__isnull=True) | Q(retired_at__isnull=False),
                name="tip_active_has_no_sweep",
            ),
            models.CheckConstraint(
                condition=Q(scope__in=["rule", "environment"]), name="tip_scope_known"
            ),
        ]
        indexes: ClassVar[list[Any]] = [
            # save_tip: does the skill have a tip in nearly these words?
            models.Index(
                fields=["skill", "words_sha256"],
                condition=~Q(words_sha256=""),
                name="tip_by_words",
            ),
            # ranker: active tips born of a rule family
            models.Index(
                fields=["skill", "rule_family"],
                condition=Q(retired_at__isnull=True),
                name="tip_active_by_family",
            ),
            # ranker: active tips of a category
            models.Index(
                fields=["skill", "category"],
                condition=Q(retired_at__isnull=True),
                name="tip_active_by_category",
            ),
            # ranker: the few tips that hold for a whole environment
            models.Index(
                fields=["skill", "environment_tag"],
                condition=Q(retired_at__isnull=True, scope="environment"),
                name="tip_active_of_environment",
            ),
            # ranker's canaries: the same three ways, of retired tips
            models.Index(
                fields=["skill", "rule_family"],
                condition=Q(retired_at__isnull=False),
                name="tip_retired_by_family",
            ),
            models.Index(
                fields=["skill", "category"],
                condition=Q(retired_at__isnull=False),
                name="tip_retired_by_category",
            ),
            models.Index(
                fields=["skill", "environment_tag"],
                condition=Q(retired_at__isnull=False, scope="environment"),
                name="tip_retired_of_environment",
            ),
            # admin search of tips, retrievals and judgements: a tip by its name alone
            models.Index(fields=["external_id"], name="tip_external_id"),
            # admin search: the tips that a rule gave rise to, retired ones too
            models.Index(fields=["source_rule_id"], name="tip_source_rule"),
        ]

    def __str__(self) -> str:
        return f"{self.skill}/{self.external_id}"


class Attempt(models.Model):
    """One attempt at one rule: script, evaluator output, graded outcome. Successes have a row too."""

    # the unique constraint below serves reads by run
    run = models.ForeignKey(Run, models.PROTECT, related_name="attempts", db_index=False)
    skill = models.CharField(max_length=500)
    rule_id = models.CharField(max_length=500)
    number = models.PositiveIntegerField(help_text="1-based, unique per rule within the run")
    sender_number = models.PositiveIntegerField(help_text="differs when a rule was selected twice")
    category = models.CharField(max_length=500, blank=True)
    title = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    script = models.TextField(null=True, blank=True)  # noqa: DJ001 - NULL: no script; '': an empty one
    script_sha256 = models.CharField(max_length=64, blank=True)
    script_truncated = models.BooleanField(default=False)
    narrative = models.TextField(blank=True)
    evaluator_raw = models.JSONField(null=True, blank=True)
    evaluator_error = models.TextField(blank=True)
    passed = models.BooleanField(null=True, blank=True)
    failure_mode = models.CharField(max_length=500, blank=True)
    apply_failed = models.BooleanField(default=False)
    deferred = models.BooleanField(default=False)
    sender_grade_value = models.FloatField(null=True, blank=True)
    sender_grade_confidence = models.FloatField(null=True, blank=True)
    hazards = models.JSONField(default=list, blank=True)
    extra = models.JSONField(default=dict, blank=True)
    text_repaired = models.BooleanField(default=False)

    # The graded outcome (ADR-0019, DEF-26): value in [-1, 1], confidence in [0, 1].
    outcome_value = models.FloatField(null=True, blank=True)
    outcome_confidence = models.FloatField(null=True, blank=True)
    outcome_reason = models.CharField(max_length=20, blank=True)
    outcome_grader = models.CharField(
        max_length=100, help_text="name@version of the grading ladder"
    )

    class Meta:
        db_table = "attempts"
        ordering = ("id",)
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(
                fields=["run", "rule_id", "number"], name="attempt_once_per_rule"
            ),
            models.CheckConstraint(condition=Q(number__gte=1), name="attempt_number_from_one"),
            models.CheckConstraint(
                condition=within("outcome_value", GRADE_MIN, GRADE_MAX), name="attempt_value_range"
            ),
            models.CheckConstraint(
                condition=within("outcome_confidence", 0.0, 1.0), name="attempt_confidence_range"
            ),
            # a grade without its confidence (or the reverse) is no grade; none at all needs a reason
            models.CheckConstraint(
                condition=Q(
                    outcome_value__isnull=False, outcome_confidence__isnull=False, outcome_reason=""
                )
                | Q(outcome_value__isnull=True, outcome_confidence__isnull=True)
                & ~Q(outcome_reason=""),
                name="attempt_outcome_or_reason",
            ),
            models.CheckConstraint(
                condition=known("outcome_reason", OUTCOME_REASONS), name="attempt_reason_known"
            ),
            # an evaluator that failed has graded nothing (never -0.2 for a lost connection)
            models.CheckConstraint(
                condition=Q(evaluator_error="") | Q(outcome_value__isnull=True),
                name="attempt_error_has_no_outcome",
            ),
            models.CheckConstraint(
                condition=Q(script__isnull=False) | Q(script_sha256="", script_truncated=False),
                name="attempt_script_facts_need_a_script",
            ),
        ]
        indexes: ClassVar[list[Any]] = [
            # admin search: the attempts at a rule in all runs
            models.Index(fields=["rule_id"], name="attempt_rule"),
        ]

    def __str__(self) -> str:
        return f"{self.rule_id} #{self.number}"
