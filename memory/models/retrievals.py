"""Retrieval: the unit of attribution. One row answers what was shown, how it went, and who followed."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q

from memory.models.checks import GRADE_MAX, GRADE_MIN, finite, known, label_agrees, within
from memory.models.runs import Attempt, Run, Tip
from memory.querysets import RetrievalQuerySet
from memory.reasons import TRACE_VERDICTS, JudgeLabel, Reason


class Retrieval(models.Model):
    """One tip retrieved into one attempt: the unit of attribution (``tip_retrievals``).

    Credit reads this row and no other. ``skill``, ``category``, ``model`` and ``environment_tag``
    are copies from the run and the attempt so that it stays so.
    """

    # no index per foreign key: the composite ones in Meta start with the same column
    run = models.ForeignKey(Run, models.PROTECT, related_name="retrievals", db_index=False)
    attempt = models.ForeignKey(Attempt, models.PROTECT, related_name="retrievals", db_index=False)
    tip = models.ForeignKey(Tip, models.PROTECT, related_name="retrievals", db_index=False)
    rule_id = models.CharField(max_length=500)
    rank = models.PositiveIntegerField()
    similarity_score = models.FloatField(null=True, blank=True, help_text="composite, may exceed 1")
    outcome_value = models.FloatField(null=True, blank=True)
    outcome_confidence = models.FloatField(null=True, blank=True)
    retrieved_at = models.DateTimeField()

    skill = models.CharField(max_length=500)
    category = models.CharField(max_length=500, blank=True)
    model = models.CharField(max_length=500, blank=True)
    environment_tag = models.CharField(max_length=500, blank=True)
    superseded = models.BooleanField(
        default=False, help_text="belongs to an older revision of its run"
    )
    extra = models.JSONField(default=dict, blank=True)

    # What the agent really saw, and how likely that was.
    shown = models.BooleanField()
    shown_text = models.TextField(blank=True)
    shown_sha256 = models.CharField(max_length=64, blank=True)
    shown_cut = models.BooleanField(default=False)
    withheld = models.BooleanField(default=False)
    propensity = models.FloatField(default=1.0, help_text="inclusion probability, (0, 1]")
    canary = models.BooleanField(default=False, help_text="a retired tip, shown again to test it")
    coin = models.FloatField(
        null=True, blank=True, help_text="what was drawn, [0, 1); shown when below propensity"
    )
    ranker = models.CharField(
        max_length=64, blank=True, help_text="sha256 of the ranker's version and settings"
    )

    # Signals beside the three columns of ADR-0019 (which come in a migration of their own).
    tip_followed_emb_max_chunk = models.FloatField(null=True, blank=True)
    tip_followed_emb_truncated = models.BooleanField(null=True, blank=True)
    tip_followed_trace = models.FloatField(null=True, blank=True, help_text="[0, 1]")
    tip_followed_trace_verdict = models.CharField(max_length=20, blank=True)
    tip_followed_trace_evidence = models.JSONField(default=list, blank=True)
    tip_followed_trace_version = models.CharField(max_length=40, blank=True)
    tip_followed_review = models.BooleanField(null=True, blank=True)
    tip_followed_review_by = models.CharField(max_length=150, blank=True)
    tip_followed_p = models.FloatField(
        null=True, blank=True, help_text="p(followed) from all machine signals, [0, 1]"
    )
    tip_followed_p_version = models.CharField(
        max_length=40, blank=True, help_text="of the coefficients that gave it"
    )

    llm_source = models.CharField(
        max_length=200, blank=True, help_text="judge model @ prompt sha256"
    )
    llm_label = models.CharField(
        max_length=20,
        blank=True,
        choices=JudgeLabel,
        help_text="the judge's label, of which the boolean is derived",
    )
    llm_redacted = models.BooleanField(
        default=False, help_text="secrets were taken out before the judge saw it"
    )
    llm_reason = models.CharField(max_length=20, blank=True)
    llm_tries = models.PositiveSmallIntegerField(default=0)
    llm_retry_at = models.DateTimeField(null=True, blank=True)
    emb_source = models.CharField(
        max_length=40,
        blank=True,
        help_text="encoder: sha256 of weights and recipe, first 16 digits",
    )
    emb_reason = models.CharField(max_length=20, blank=True)
    emb_tries = models.PositiveSmallIntegerField(default=0)
    trace_reason = models.CharField(max_length=20, blank=True)
    trace_tries = models.PositiveSmallIntegerField(default=0)

    # ADR-0019. Three columns, one reversible migration.
    tip_followed_llm = models.BooleanField(null=True, blank=True)
    tip_followed_emb = models.FloatField(null=True, blank=True, help_text="cosine, [-1, 1]")
    tip_followed_computed_at = models.DateTimeField(null=True, blank=True)

    objects = RetrievalQuerySet.as_manager()

    class Meta:
        db_table = "tip_retrievals"
        ordering = ("id",)
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["attempt", "tip"], name="retrieval_once_per_attempt"),
            models.CheckConstraint(condition=Q(rank__gte=1), name="retrieval_rank_from_one"),
            models.CheckConstraint(
                condition=finite("similarity_score"), name="retrieval_score_finite"
            ),
            models.CheckConstraint(
                condition=within("outcome_value", GRADE_MIN, GRADE_MAX),
                name="retrieval_value_range",
            ),
            models.CheckConstraint(
                condition=within("outcome_confidence", 0.0, 1.0), name="retrieval_confidence_range"
            ),
            models.CheckConstraint(
                condition=Q(outcome_value__isnull=True, outcome_confidence__isnull=True)
                | Q(outcome_value__isnull=False, outcome_confidence__isnull=False),
                name="retrieval_outcome_whole",
            ),
            models.CheckConstraint(
                condition=Q(propensity__gt=0.0, propensity__lte=1.0),
                name="retrieval_propensity_range",
            ),
            models.CheckConstraint(
                condition=~Q(withheld=True, shown=True), name="retrieval_withheld_is_not_shown"
            ),
            models.CheckConstraint(
                condition=Q(coin__isnull=True) | Q(coin__gte=0.0, coin__lt=1.0),
                name="retrieval_coin_range",
            ),
            # the coin decides: a row that says otherwise would bias every later estimate
            models.CheckConstraint(
                condition=Q(coin__isnull=True)
                | Q(withheld=True, coin__gte=F("propensity"))
                | Q(withheld=False, coin__lt=F("propensity")),
                name="retrieval_coin_decided",
            ),
            models.CheckConstraint(
                condition=within("tip_followed_emb_max_chunk", -1.0, 1.0),
                name="retrieval_max_chunk_range",
            ),
            models.CheckConstraint(
                condition=within("tip_followed_trace", 0.0, 1.0), name="retrieval_trace_range"
            ),
            models.CheckConstraint(
                condition=known("tip_followed_trace_verdict", TRACE_VERDICTS),
                name="retrieval_trace_verdict_known",
            ),
            # a trace score without the verdict it stands for, or without the version, says nothing
            models.CheckConstraint(
                condition=Q(tip_followed_trace__isnull=True)
                | Q(tip_followed_trace__isnull=False, trace_reason="")
                & ~Q(tip_followed_trace_verdict="")
                & ~Q(tip_followed_trace_version=""),
                name="retrieval_trace_has_source",
            ),
            models.CheckConstraint(
                condition=Q(tip_followed_review__isnull=True) | ~Q(tip_followed_review_by=""),
                name="retrieval_review_has_author",
            ),
            models.CheckConstraint(
                condition=within("tip_followed_p", 0.0, 1.0), name="retrieval_p_range"
            ),
            # a probability without its coefficients' version cannot be audited or recomputed
            models.CheckConstraint(
                condition=Q(tip_followed_p__isnull=True)
                | Q(shown=True) & ~Q(tip_followed_p_version=""),
                name="retrieval_p_has_version",
            ),
            # the label is what the judge said; the boolean and the reason are derived of it
            models.CheckConstraint(
                condition=label_agrees(
                    label="llm_label", followed="tip_followed_llm", reason="llm_reason"
                ),
                name="retrieval_label_agrees",
            ),
            models.CheckConstraint(
                condition=Q(llm_label="") | Q(shown=True) & ~Q(llm_source=""),
                name="retrieval_label_has_source",
            ),
            models.CheckConstraint(
                condition=known("llm_reason", Reason.values)
                & known("emb_reason", Reason.values)
                & known("trace_reason", Reason.values),
                name="retrieval_reason_known",
            ),
            # a tip that never reached the prompt cannot have been followed because of the prompt;
            # what is said of the ADR-0019 columns stands below
            models.CheckConstraint(
                condition=Q(shown=True)
                | Q(
                    tip_followed_trace__isnull=True,
                    tip_followed_trace_verdict="",
                    tip_followed_emb_max_chunk__isnull=True,
                    tip_followed_emb_truncated__isnull=True,
                ),
                name="retrieval_unshown_has_no_trace",
            ),
            # -- the constraints of the ADR-0019 columns --
            models.CheckConstraint(
                condition=within("tip_followed_emb", -1.0, 1.0), name="retrieval_emb_range"
            ),
            # no default verdict, ever: an error leaves the label NULL
            models.CheckConstraint(
                condition=Q(tip_followed_llm__isnull=True) | Q(llm_reason=""),
                name="retrieval_error_has_no_label",
            ),
            models.CheckConstraint(
                condition=Q(tip_followed_llm__isnull=True)
                | ~Q(llm_source="") & Q(tip_followed_computed_at__isnull=False),
                name="retrieval_followed_needs_source",
            ),
            models.CheckConstraint(
                condition=Q(tip_followed_emb__isnull=True)
                | Q(emb_reason="", tip_followed_computed_at__isnull=False),
                name="retrieval_emb_has_no_error",
            ),
            # a cosine is one of a certain encoder: other weights or another recipe give other numbers
            models.CheckConstraint(
                condition=Q(tip_followed_emb__isnull=True) | ~Q(emb_source=""),
                name="retrieval_emb_has_source",
            ),
            models.CheckConstraint(
                condition=Q(shown=True)
                | Q(tip_followed_llm__isnull=True, tip_followed_emb__isnull=True),
                name="retrieval_unshown_has_no_label",
            ),
        ]
        indexes: ClassVar[list[Any]] = [
            # show_run, finalize, score batches: the rows of one run in id order
            models.Index(fields=["run", "id"], name="retrieval_run_rows"),
            # ranker, dream pass: the evidence of a tip on a rule
            models.Index(fields=["tip", "rule_id"], name="retrieval_tip_rule"),
            # admin search: the rows of a rule, whichever tips and runs
            models.Index(fields=["rule_id"], name="retrieval_rule"),
            # reaper: judge calls whose retry is due; failed rows only, so it stays small
            models.Index(
                fields=["llm_retry_at"],
                condition=Q(llm_retry_at__isnull=False),
                name="retrieval_judge_retry_due",
            ),
            # no query of the product: kept for those who write SQL by ADR-0019, whose judge queue is
            # "rows of this run with an outcome that no signal has looked at yet"; it holds only those
            models.Index(
                fields=["run"],
                condition=Q(tip_followed_computed_at__isnull=True, outcome_value__isnull=False),
                name="retrieval_unscored_followed",
            ),
        ]

    def __str__(self) -> str:
        return f"retrieval {self.pk}"
