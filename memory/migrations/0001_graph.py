"""The graph: runs, attempts, tips, retrievals, dream passes."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("skill", models.CharField(max_length=500)),
                ("external_id", models.CharField(max_length=500)),
                ("source", models.CharField(blank=True, max_length=500)),
                ("revision", models.PositiveIntegerField(default=1)),
                ("superseded_at", models.DateTimeField(blank=True, null=True)),
                (
                    "digest",
                    models.CharField(
                        help_text="sha256 of the canonical record stream", max_length=64
                    ),
                ),
                ("started_at", models.DateTimeField()),
                (
                    "ended_at",
                    models.DateTimeField(blank=True, help_text="empty: the run died", null=True),
                ),
                ("model", models.CharField(blank=True, max_length=500)),
                ("environment_tag", models.CharField(blank=True, max_length=500)),
                ("log_path", models.TextField(blank=True)),
                ("log_sha256", models.CharField(blank=True, max_length=64)),
                ("log_format", models.CharField(blank=True, max_length=50)),
                (
                    "hazards",
                    models.JSONField(
                        blank=True, default=dict, help_text="what the reader met, counted"
                    ),
                ),
                (
                    "extra",
                    models.JSONField(
                        blank=True, default=dict, help_text="fields of the sender kept as sent"
                    ),
                ),
                ("text_repaired", models.BooleanField(default=False)),
                ("ingested_at", models.DateTimeField(auto_now_add=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("ingested", "ingested"),
                            ("scoring", "scoring"),
                            ("finalizing", "finalizing"),
                            ("done", "done"),
                        ],
                        default="ingested",
                        max_length=12,
                    ),
                ),
                (
                    "scoring_round",
                    models.PositiveIntegerField(
                        default=0, help_text="how often it went to scoring"
                    ),
                ),
                ("state_changed_at", models.DateTimeField()),
                (
                    "done_at",
                    models.DateTimeField(
                        blank=True, help_text="first time it became final", null=True
                    ),
                ),
            ],
            options={
                "db_table": "runs",
                "ordering": ("-started_at", "-id"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "done"), _negated=True),
                        fields=["state_changed_at"],
                        name="run_open_by_age",
                    ),
                    models.Index(fields=["skill", "-started_at"], name="run_skill_latest"),
                    models.Index(fields=["log_sha256"], name="run_log_sha256"),
                    models.Index(fields=["external_id"], name="run_external_id"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("superseded_at__isnull", True)),
                        fields=("skill", "external_id"),
                        name="run_current_once_per_skill_and_id",
                    ),
                    models.UniqueConstraint(
                        fields=("skill", "external_id", "revision"), name="run_revision_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status__in", ["ingested", "scoring", "finalizing", "done"])
                        ),
                        name="run_status_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ended_at__isnull", True),
                            ("ended_at__gte", models.F("started_at")),
                            _connector="OR",
                        ),
                        name="run_ends_after_start",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "done"), _negated=True),
                            ("done_at__isnull", False),
                            _connector="OR",
                        ),
                        name="run_done_has_time",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("skill", models.CharField(max_length=500)),
                ("rule_id", models.CharField(max_length=500)),
                (
                    "number",
                    models.PositiveIntegerField(
                        help_text="1-based, unique per rule within the run"
                    ),
                ),
                (
                    "sender_number",
                    models.PositiveIntegerField(help_text="differs when a rule was selected twice"),
                ),
                ("category", models.CharField(blank=True, max_length=500)),
                ("title", models.TextField(blank=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("script", models.TextField(blank=True, null=True)),
                ("script_sha256", models.CharField(blank=True, max_length=64)),
                ("script_truncated", models.BooleanField(default=False)),
                ("narrative", models.TextField(blank=True)),
                ("evaluator_raw", models.JSONField(blank=True, null=True)),
                ("evaluator_error", models.TextField(blank=True)),
                ("passed", models.BooleanField(blank=True, null=True)),
                ("failure_mode", models.CharField(blank=True, max_length=500)),
                ("apply_failed", models.BooleanField(default=False)),
                ("deferred", models.BooleanField(default=False)),
                ("sender_grade_value", models.FloatField(blank=True, null=True)),
                ("sender_grade_confidence", models.FloatField(blank=True, null=True)),
                ("hazards", models.JSONField(blank=True, default=list)),
                ("extra", models.JSONField(blank=True, default=dict)),
                ("text_repaired", models.BooleanField(default=False)),
                ("outcome_value", models.FloatField(blank=True, null=True)),
                ("outcome_confidence", models.FloatField(blank=True, null=True)),
                ("outcome_reason", models.CharField(blank=True, max_length=20)),
                (
                    "outcome_grader",
                    models.CharField(
                        help_text="name@version of the grading ladder", max_length=100
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="attempts",
                        to="memory.run",
                    ),
                ),
            ],
            options={
                "db_table": "attempts",
                "ordering": ("id",),
            },
        ),
        migrations.CreateModel(
            name="Tip",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("skill", models.CharField(max_length=500)),
                (
                    "external_id",
                    models.CharField(help_text="the sender's id of the tip", max_length=500),
                ),
                (
                    "text",
                    models.TextField(
                        blank=True, help_text="empty: retrieved, but its text was never sent"
                    ),
                ),
                ("text_sha256", models.CharField(blank=True, max_length=64)),
                ("tip_type", models.CharField(blank=True, max_length=500)),
                ("category", models.CharField(blank=True, max_length=500)),
                ("mechanism", models.TextField(blank=True)),
                ("source_rule_id", models.CharField(blank=True, max_length=500)),
                (
                    "source_run_id",
                    models.CharField(
                        blank=True, help_text="as the sender names it", max_length=500
                    ),
                ),
                ("outcome_at_source_value", models.FloatField(blank=True, null=True)),
                ("outcome_at_source_confidence", models.FloatField(blank=True, null=True)),
                ("environment_tag", models.CharField(blank=True, max_length=500)),
                ("extra", models.JSONField(blank=True, default=dict)),
                ("text_repaired", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("retired_at", models.DateTimeField(blank=True, null=True)),
                ("retired_reason", models.TextField(blank=True)),
            ],
            options={
                "db_table": "tips",
                "ordering": ("id",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("retired_at__isnull", True)),
                        fields=["skill", "source_rule_id"],
                        name="tip_active_by_rule",
                    ),
                    models.Index(fields=["external_id"], name="tip_external_id"),
                    models.Index(fields=["source_rule_id"], name="tip_source_rule"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("skill", "external_id"), name="tip_once_per_skill"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("outcome_at_source_value__isnull", True),
                            models.Q(
                                ("outcome_at_source_value__gte", -1.0),
                                ("outcome_at_source_value__lte", 1.0),
                            ),
                            _connector="OR",
                        ),
                        name="tip_source_value_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("outcome_at_source_confidence__isnull", True),
                            models.Q(
                                ("outcome_at_source_confidence__gte", 0.0),
                                ("outcome_at_source_confidence__lte", 1.0),
                            ),
                            _connector="OR",
                        ),
                        name="tip_source_confidence_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("retired_at__isnull", True),
                            models.Q(("retired_reason", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="tip_retired_has_reason",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Retrieval",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("rule_id", models.CharField(max_length=500)),
                ("rank", models.PositiveIntegerField()),
                (
                    "similarity_score",
                    models.FloatField(blank=True, help_text="composite, may exceed 1", null=True),
                ),
                ("outcome_value", models.FloatField(blank=True, null=True)),
                ("outcome_confidence", models.FloatField(blank=True, null=True)),
                ("retrieved_at", models.DateTimeField()),
                ("skill", models.CharField(max_length=500)),
                ("category", models.CharField(blank=True, max_length=500)),
                ("model", models.CharField(blank=True, max_length=500)),
                ("environment_tag", models.CharField(blank=True, max_length=500)),
                (
                    "superseded",
                    models.BooleanField(
                        default=False, help_text="belongs to an older revision of its run"
                    ),
                ),
                ("extra", models.JSONField(blank=True, default=dict)),
                ("shown", models.BooleanField()),
                ("shown_text", models.TextField(blank=True)),
                ("shown_sha256", models.CharField(blank=True, max_length=64)),
                ("shown_cut", models.BooleanField(default=False)),
                ("withheld", models.BooleanField(default=False)),
                (
                    "propensity",
                    models.FloatField(default=1.0, help_text="inclusion probability, (0, 1]"),
                ),
                ("tip_followed_emb_max_chunk", models.FloatField(blank=True, null=True)),
                ("tip_followed_emb_truncated", models.BooleanField(blank=True, null=True)),
                (
                    "tip_followed_trace",
                    models.FloatField(blank=True, help_text="[0, 1]", null=True),
                ),
                ("tip_followed_trace_verdict", models.CharField(blank=True, max_length=20)),
                ("tip_followed_trace_evidence", models.JSONField(blank=True, default=list)),
                ("tip_followed_trace_version", models.CharField(blank=True, max_length=40)),
                ("tip_followed_review", models.BooleanField(blank=True, null=True)),
                ("tip_followed_review_by", models.CharField(blank=True, max_length=150)),
                (
                    "llm_source",
                    models.CharField(
                        blank=True, help_text="judge model @ prompt sha256", max_length=200
                    ),
                ),
                ("llm_reason", models.CharField(blank=True, max_length=20)),
                ("llm_tries", models.PositiveSmallIntegerField(default=0)),
                ("llm_retry_at", models.DateTimeField(blank=True, null=True)),
                (
                    "emb_source",
                    models.CharField(
                        blank=True,
                        help_text="encoder: sha256 of weights and recipe, first 16 digits",
                        max_length=40,
                    ),
                ),
                ("emb_reason", models.CharField(blank=True, max_length=20)),
                ("emb_tries", models.PositiveSmallIntegerField(default=0)),
                ("trace_reason", models.CharField(blank=True, max_length=20)),
                ("trace_tries", models.PositiveSmallIntegerField(default=0)),
                (
                    "attempt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="retrievals",
                        to="memory.attempt",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="retrievals",
                        to="memory.run",
                    ),
                ),
                (
                    "tip",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="retrievals",
                        to="memory.tip",
                    ),
                ),
            ],
            options={
                "db_table": "tip_retrievals",
                "ordering": ("id",),
            },
        ),
        migrations.CreateModel(
            name="DreamPass",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "number",
                    models.PositiveIntegerField(help_text="equals the scoring round it closed"),
                ),
                ("policy", models.CharField(max_length=50)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("retrievals", models.PositiveIntegerField()),
                (
                    "summary",
                    models.JSONField(help_text="per tip and per category, see memory/dream.py"),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="dream_passes",
                        to="memory.run",
                    ),
                ),
            ],
            options={
                "db_table": "dream_passes",
                "verbose_name_plural": "dream passes",
                "ordering": ("run", "number"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("run", "number"), name="dream_pass_once_per_round"
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(fields=["rule_id"], name="attempt_rule"),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(
                fields=("run", "rule_id", "number"), name="attempt_once_per_rule"
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(("number__gte", 1)), name="attempt_number_from_one"
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("outcome_value__isnull", True),
                    models.Q(("outcome_value__gte", -1.0), ("outcome_value__lte", 1.0)),
                    _connector="OR",
                ),
                name="attempt_value_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("outcome_confidence__isnull", True),
                    models.Q(("outcome_confidence__gte", 0.0), ("outcome_confidence__lte", 1.0)),
                    _connector="OR",
                ),
                name="attempt_confidence_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("outcome_confidence__isnull", False),
                        ("outcome_reason", ""),
                        ("outcome_value__isnull", False),
                    ),
                    models.Q(
                        ("outcome_confidence__isnull", True),
                        ("outcome_value__isnull", True),
                        models.Q(("outcome_reason", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="attempt_outcome_or_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(("outcome_reason__in", ["", "no_outcome"])),
                name="attempt_reason_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("evaluator_error", ""), ("outcome_value__isnull", True), _connector="OR"
                ),
                name="attempt_error_has_no_outcome",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("script__isnull", False),
                    models.Q(("script_sha256", ""), ("script_truncated", False)),
                    _connector="OR",
                ),
                name="attempt_script_facts_need_a_script",
            ),
        ),
        migrations.AddIndex(
            model_name="retrieval",
            index=models.Index(fields=["run", "id"], name="retrieval_run_rows"),
        ),
        migrations.AddIndex(
            model_name="retrieval",
            index=models.Index(fields=["tip", "rule_id"], name="retrieval_tip_rule"),
        ),
        migrations.AddIndex(
            model_name="retrieval",
            index=models.Index(fields=["rule_id"], name="retrieval_rule"),
        ),
        migrations.AddIndex(
            model_name="retrieval",
            index=models.Index(
                condition=models.Q(("llm_retry_at__isnull", False)),
                fields=["llm_retry_at"],
                name="retrieval_judge_retry_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.UniqueConstraint(
                fields=("attempt", "tip"), name="retrieval_once_per_attempt"
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(("rank__gte", 1)), name="retrieval_rank_from_one"
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("similarity_score__isnull", True),
                    models.Q(
                        ("similarity_score__gt", float("-inf")),
                        ("similarity_score__lt", float("inf")),
                    ),
                    _connector="OR",
                ),
                name="retrieval_score_finite",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("outcome_value__isnull", True),
                    models.Q(("outcome_value__gte", -1.0), ("outcome_value__lte", 1.0)),
                    _connector="OR",
                ),
                name="retrieval_value_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("outcome_confidence__isnull", True),
                    models.Q(("outcome_confidence__gte", 0.0), ("outcome_confidence__lte", 1.0)),
                    _connector="OR",
                ),
                name="retrieval_confidence_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("outcome_confidence__isnull", True), ("outcome_value__isnull", True)),
                    models.Q(
                        ("outcome_confidence__isnull", False), ("outcome_value__isnull", False)
                    ),
                    _connector="OR",
                ),
                name="retrieval_outcome_whole",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(("propensity__gt", 0.0), ("propensity__lte", 1.0)),
                name="retrieval_propensity_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(("shown", True), ("withheld", True), _negated=True),
                name="retrieval_withheld_is_not_shown",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tip_followed_emb_max_chunk__isnull", True),
                    models.Q(
                        ("tip_followed_emb_max_chunk__gte", -1.0),
                        ("tip_followed_emb_max_chunk__lte", 1.0),
                    ),
                    _connector="OR",
                ),
                name="retrieval_max_chunk_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tip_followed_trace__isnull", True),
                    models.Q(("tip_followed_trace__gte", 0.0), ("tip_followed_trace__lte", 1.0)),
                    _connector="OR",
                ),
                name="retrieval_trace_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "tip_followed_trace_verdict__in",
                        ["", "followed", "violated", "not_followed", "abstained"],
                    )
                ),
                name="retrieval_trace_verdict_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tip_followed_trace__isnull", True),
                    models.Q(
                        ("tip_followed_trace__isnull", False),
                        ("trace_reason", ""),
                        models.Q(("tip_followed_trace_verdict", ""), _negated=True),
                        models.Q(("tip_followed_trace_version", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="retrieval_trace_has_source",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tip_followed_review__isnull", True),
                    models.Q(("tip_followed_review_by", ""), _negated=True),
                    _connector="OR",
                ),
                name="retrieval_review_has_author",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "llm_reason__in",
                        [
                            "",
                            "not_shown",
                            "no_script",
                            "script_truncated",
                            "tip_text_unknown",
                            "no_outcome",
                            "skipped",
                            "too_long",
                            "judge_unavailable",
                            "judge_error",
                            "embedding_error",
                            "trace_error",
                            "trace_abstained",
                        ],
                    ),
                    (
                        "emb_reason__in",
                        [
                            "",
                            "not_shown",
                            "no_script",
                            "script_truncated",
                            "tip_text_unknown",
                            "no_outcome",
                            "skipped",
                            "too_long",
                            "judge_unavailable",
                            "judge_error",
                            "embedding_error",
                            "trace_error",
                            "trace_abstained",
                        ],
                    ),
                    (
                        "trace_reason__in",
                        [
                            "",
                            "not_shown",
                            "no_script",
                            "script_truncated",
                            "tip_text_unknown",
                            "no_outcome",
                            "skipped",
                            "too_long",
                            "judge_unavailable",
                            "judge_error",
                            "embedding_error",
                            "trace_error",
                            "trace_abstained",
                        ],
                    ),
                ),
                name="retrieval_reason_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("shown", True),
                    models.Q(
                        ("tip_followed_emb_max_chunk__isnull", True),
                        ("tip_followed_emb_truncated__isnull", True),
                        ("tip_followed_trace__isnull", True),
                        ("tip_followed_trace_verdict", ""),
                    ),
                    _connector="OR",
                ),
                name="retrieval_unshown_has_no_trace",
            ),
        ),
    ]
