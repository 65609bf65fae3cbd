"""Sums of credit per tip, sweeps that can be undone, stages of a dream pass, revisions of outcomes.

The sums start empty: ``manage.py recount`` makes them from the runs that are done already. Makes the
``vector`` extension where the server has it and the role may; the ranker does without otherwise.
"""

from __future__ import annotations

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import DatabaseError, migrations, models, transaction

import memory.models.families
import memory.models.revisions


def _make_vector_extension(_apps, editor):
    """Text search in the database, where it can be had; refused is no error."""
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        if cursor.fetchone() is None:
            return
        try:
            with transaction.atomic(using=editor.connection.alias):
                cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except DatabaseError:
            return  # the role may not; an administrator can, at any later time


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0004_judge_label"),
    ]

    operations = [
        migrations.CreateModel(
            name="Ban",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("skill", models.CharField(max_length=500)),
                (
                    "rule_id",
                    models.CharField(blank=True, help_text="empty: for every rule", max_length=500),
                ),
                ("pattern", models.CharField(max_length=1000)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "db_table": "bans",
                "ordering": ("id",),
            },
        ),
        migrations.CreateModel(
            name="DreamStage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "stage",
                    models.CharField(
                        choices=[
                            ("score", "score"),
                            ("credit", "credit"),
                            ("evict", "evict"),
                            ("report", "report"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "number",
                    models.PositiveIntegerField(help_text="of the pass it belongs to, from 1"),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("new", "new"), ("done", "done"), ("failed", "failed")],
                        default="new",
                        max_length=10,
                    ),
                ),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("seconds", models.FloatField(blank=True, null=True)),
                ("detail", models.JSONField(blank=True, default=dict)),
                ("error", models.TextField(blank=True)),
            ],
            options={
                "db_table": "dream_stages",
                "ordering": ("id",),
            },
        ),
        migrations.CreateModel(
            name="EvictionSweep",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("skill", models.CharField(max_length=500)),
                ("policy", models.CharField(max_length=50)),
                (
                    "gate",
                    models.JSONField(help_text="the gate as it was used, see memory/eviction.py"),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("previewed", "previewed"),
                            ("applied", "applied"),
                            ("undone", "undone"),
                        ],
                        default="previewed",
                        max_length=10,
                    ),
                ),
                (
                    "active",
                    models.PositiveIntegerField(help_text="active tips that were looked at"),
                ),
                (
                    "with_evidence",
                    models.PositiveIntegerField(help_text="of these, with enough to be judged"),
                ),
                ("created_at", models.DateTimeField()),
                ("created_by", models.CharField(max_length=150)),
                ("applied_at", models.DateTimeField(blank=True, null=True)),
                ("applied_by", models.CharField(blank=True, max_length=150)),
                ("undone_at", models.DateTimeField(blank=True, null=True)),
                ("undone_by", models.CharField(blank=True, max_length=150)),
            ],
            options={
                "db_table": "eviction_sweeps",
                "ordering": ("-id",),
            },
        ),
        migrations.CreateModel(
            name="OutcomeRevision",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField(help_text="from 1, per attempt")),
                (
                    "cause",
                    models.CharField(
                        choices=[
                            ("regrade", "graded again by another version of the ladder"),
                            ("late_outcome", "the verdict arrived after the run"),
                            ("undo", "an earlier revision was taken back"),
                        ],
                        max_length=20,
                    ),
                ),
                ("old_value", models.FloatField(blank=True, null=True)),
                ("old_confidence", models.FloatField(blank=True, null=True)),
                ("old_reason", models.CharField(blank=True, max_length=20)),
                ("old_grader", models.CharField(max_length=100)),
                ("old_failure_mode", models.CharField(blank=True, max_length=500)),
                (
                    "old_evaluator",
                    models.JSONField(
                        blank=True,
                        help_text="evaluator columns that a late verdict replaced",
                        null=True,
                    ),
                ),
                ("new_value", models.FloatField(blank=True, null=True)),
                ("new_confidence", models.FloatField(blank=True, null=True)),
                ("new_reason", models.CharField(blank=True, max_length=20)),
                ("new_grader", models.CharField(max_length=100)),
                ("new_failure_mode", models.CharField(blank=True, max_length=500)),
                ("by", models.CharField(max_length=150)),
                ("note", models.TextField(blank=True)),
                ("at", models.DateTimeField()),
            ],
            options={
                "db_table": "outcome_revisions",
                "ordering": ("id",),
            },
        ),
        migrations.CreateModel(
            name="RunEvidence",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("policy", models.CharField(max_length=50)),
                (
                    "rows",
                    models.PositiveIntegerField(help_text="retrievals, withheld ones included"),
                ),
                ("shown", models.PositiveIntegerField()),
                ("followed", models.PositiveIntegerField()),
                ("ignored", models.PositiveIntegerField()),
                ("earned", models.PositiveIntegerField()),
                ("misleading", models.PositiveIntegerField()),
                ("lucky_neighbour", models.PositiveIntegerField()),
                ("bystander", models.PositiveIntegerField()),
                ("credit_n", models.PositiveIntegerField()),
                ("credit_total", models.DecimalField(decimal_places=12, max_digits=30)),
                ("visits", models.PositiveIntegerField()),
                ("visit_total", models.DecimalField(decimal_places=12, max_digits=30)),
                ("visit_squares", models.DecimalField(decimal_places=12, max_digits=30)),
                ("rule_id", models.CharField(max_length=500)),
                ("category", models.CharField(blank=True, max_length=500)),
            ],
            options={
                "verbose_name_plural": "run evidence",
                "db_table": "run_evidence",
            },
        ),
        migrations.CreateModel(
            name="SweepEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "cause",
                    models.CharField(
                        choices=[
                            ("misleading", "followed into failures"),
                            ("lucky_neighbour", "present at successes that it had no part in"),
                            ("dead_weight", "neither followed nor present at success"),
                        ],
                        max_length=20,
                    ),
                ),
                (
                    "mean",
                    models.FloatField(
                        help_text="shrunk mean credit on the policy's scale, [-1, 1]"
                    ),
                ),
                ("low", models.FloatField(help_text="lower end of its 95 % interval")),
                ("high", models.FloatField(help_text="upper end of its 95 % interval")),
                ("visits", models.PositiveIntegerField()),
                ("figures", models.JSONField(help_text="quadrant counts and the like")),
                (
                    "over_cap",
                    models.BooleanField(
                        default=False, help_text="caught, but left for a later sweep"
                    ),
                ),
                (
                    "retired",
                    models.BooleanField(
                        default=False, help_text="by this sweep, when it was applied"
                    ),
                ),
                (
                    "given_back",
                    models.BooleanField(default=False, help_text="when the sweep was undone"),
                ),
            ],
            options={
                "verbose_name_plural": "sweep entries",
                "db_table": "eviction_sweep_entries",
                "ordering": ("id",),
            },
        ),
        migrations.CreateModel(
            name="TipChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("retire", "retired"),
                            ("reactivate", "reactivated"),
                            ("protect", "protected from sweeps"),
                            ("unprotect", "no longer protected from sweeps"),
                            ("exempt", "never withheld by the coin"),
                            ("include", "withheld by the coin like others"),
                        ],
                        max_length=10,
                    ),
                ),
                ("reason", models.TextField()),
                ("by", models.CharField(max_length=150)),
                ("at", models.DateTimeField()),
            ],
            options={
                "db_table": "tip_changes",
                "ordering": ("id",),
            },
        ),
        migrations.CreateModel(
            name="TipEvidence",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("policy", models.CharField(max_length=50)),
                (
                    "rows",
                    models.PositiveIntegerField(help_text="retrievals, withheld ones included"),
                ),
                ("shown", models.PositiveIntegerField()),
                ("followed", models.PositiveIntegerField()),
                ("ignored", models.PositiveIntegerField()),
                ("earned", models.PositiveIntegerField()),
                ("misleading", models.PositiveIntegerField()),
                ("lucky_neighbour", models.PositiveIntegerField()),
                ("bystander", models.PositiveIntegerField()),
                ("credit_n", models.PositiveIntegerField()),
                ("credit_total", models.DecimalField(decimal_places=12, max_digits=30)),
                ("visits", models.PositiveIntegerField()),
                ("visit_total", models.DecimalField(decimal_places=12, max_digits=30)),
                ("visit_squares", models.DecimalField(decimal_places=12, max_digits=30)),
                ("skill", models.CharField(max_length=500)),
                (
                    "level",
                    models.CharField(
                        choices=[
                            ("rule", "tip on a rule"),
                            ("category", "tip in a category"),
                            ("tip", "tip anywhere"),
                            ("skill", "all tips of the skill"),
                        ],
                        max_length=10,
                    ),
                ),
                ("key", models.CharField(blank=True, max_length=500)),
            ],
            options={
                "verbose_name_plural": "tip evidence",
                "db_table": "tip_evidence",
            },
        ),
        migrations.CreateModel(
            name="TipVector",
            fields=[
                (
                    "tip",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="vector",
                        serialize=False,
                        to="memory.tip",
                    ),
                ),
                ("skill", models.CharField(max_length=500)),
                (
                    "encoder",
                    models.CharField(help_text="sha256 of weights and recipe", max_length=64),
                ),
                ("text_sha256", models.CharField(max_length=64)),
                (
                    "values",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=memory.models.revisions.RealField(), size=None
                    ),
                ),
            ],
            options={
                "db_table": "tip_vectors",
            },
        ),
        migrations.RemoveConstraint(
            model_name="run",
            name="run_status_known",
        ),
        migrations.RemoveIndex(
            model_name="tip",
            name="tip_active_by_rule",
        ),
        migrations.AddField(
            model_name="dreampass",
            name="report",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text="what changed since the last pass, see memory/dream.py",
            ),
        ),
        migrations.AddField(
            model_name="retrieval",
            name="canary",
            field=models.BooleanField(
                default=False, help_text="a retired tip, shown again to test it"
            ),
        ),
        migrations.AddField(
            model_name="retrieval",
            name="coin",
            field=models.FloatField(
                blank=True,
                help_text="what was drawn, [0, 1); shown when below propensity",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="retrieval",
            name="ranker",
            field=models.CharField(
                blank=True, help_text="sha256 of the ranker's version and settings", max_length=64
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="dream_number",
            field=models.PositiveIntegerField(default=0, help_text="dream passes begun"),
        ),
        migrations.AddField(
            model_name="tip",
            name="holdout_exempt",
            field=models.BooleanField(default=False, help_text="never withheld by the coin"),
        ),
        migrations.AddField(
            model_name="tip",
            name="protected",
            field=models.BooleanField(default=False, help_text="no sweep retires it"),
        ),
        migrations.AddField(
            model_name="tip",
            name="scope",
            field=models.CharField(
                choices=[
                    ("rule", "rules like the one it came from"),
                    ("environment", "every rule in its environment"),
                ],
                default="rule",
                max_length=20,
            ),
        ),
        migrations.AlterField(
            model_name="dreampass",
            name="number",
            field=models.PositiveIntegerField(help_text="the run's pass that made it, from 1"),
        ),
        migrations.AlterField(
            model_name="dreampass",
            name="summary",
            field=models.JSONField(help_text="per tip and per category, see memory/summary.py"),
        ),
        migrations.AlterField(
            model_name="run",
            name="status",
            field=models.CharField(
                choices=[
                    ("recording", "recording"),
                    ("ingested", "ingested"),
                    ("scoring", "scoring"),
                    ("finalizing", "finalizing"),
                    ("done", "done"),
                ],
                default="ingested",
                max_length=12,
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("coin__isnull", True),
                    models.Q(("coin__gte", 0.0), ("coin__lt", 1.0)),
                    _connector="OR",
                ),
                name="retrieval_coin_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("coin__isnull", True),
                    models.Q(("coin__gte", models.F("propensity")), ("withheld", True)),
                    models.Q(("coin__lt", models.F("propensity")), ("withheld", False)),
                    _connector="OR",
                ),
                name="retrieval_coin_decided",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("status__in", ["recording", "ingested", "scoring", "finalizing", "done"])
                ),
                name="run_status_known",
            ),
        ),
        migrations.AddField(
            model_name="ban",
            name="run",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="bans",
                to="memory.run",
            ),
        ),
        migrations.AddField(
            model_name="dreamstage",
            name="run",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="dream_stages",
                to="memory.run",
            ),
        ),
        migrations.AddField(
            model_name="evictionsweep",
            name="run",
            field=models.ForeignKey(
                blank=True,
                help_text="whose dream pass made it; empty: a person",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="sweeps",
                to="memory.run",
            ),
        ),
        migrations.AddField(
            model_name="tip",
            name="retired_sweep",
            field=models.ForeignKey(
                blank=True,
                help_text="empty while retired: a person did it",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="retired_tips",
                to="memory.evictionsweep",
            ),
        ),
        migrations.AddField(
            model_name="tip",
            name="rule_family",
            field=models.GeneratedField(
                db_persist=True,
                expression=memory.models.families.RuleFamily("source_rule_id"),
                output_field=models.TextField(),
            ),
        ),
        migrations.AddIndex(
            model_name="tip",
            index=models.Index(
                condition=models.Q(("retired_at__isnull", True)),
                fields=["skill", "rule_family"],
                name="tip_active_by_family",
            ),
        ),
        migrations.AddIndex(
            model_name="tip",
            index=models.Index(
                condition=models.Q(("retired_at__isnull", True)),
                fields=["skill", "category"],
                name="tip_active_by_category",
            ),
        ),
        migrations.AddIndex(
            model_name="tip",
            index=models.Index(
                condition=models.Q(("retired_at__isnull", True), ("scope", "environment")),
                fields=["skill", "environment_tag"],
                name="tip_active_of_environment",
            ),
        ),
        migrations.AddIndex(
            model_name="tip",
            index=models.Index(
                condition=models.Q(("retired_at__isnull", False)),
                fields=["skill", "rule_family"],
                name="tip_retired_by_family",
            ),
        ),
        migrations.AddConstraint(
            model_name="tip",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("retired_sweep__isnull", True), ("retired_at__isnull", False), _connector="OR"
                ),
                name="tip_active_has_no_sweep",
            ),
        ),
        migrations.AddConstraint(
            model_name="tip",
            constraint=models.CheckConstraint(
                condition=models.Q(("scope__in", ["rule", "environment"])), name="tip_scope_known"
            ),
        ),
        migrations.AddField(
            model_name="outcomerevision",
            name="attempt",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="outcome_revisions",
                to="memory.attempt",
            ),
        ),
        migrations.AddField(
            model_name="runevidence",
            name="run",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="evidence",
                to="memory.run",
            ),
        ),
        migrations.AddField(
            model_name="runevidence",
            name="tip",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="memory.tip",
            ),
        ),
        migrations.AddField(
            model_name="sweepentry",
            name="sweep",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="entries",
                to="memory.evictionsweep",
            ),
        ),
        migrations.AddField(
            model_name="sweepentry",
            name="tip",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="sweep_entries",
                to="memory.tip",
            ),
        ),
        migrations.AddField(
            model_name="tipchange",
            name="sweep",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="changes",
                to="memory.evictionsweep",
            ),
        ),
        migrations.AddField(
            model_name="tipchange",
            name="tip",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="changes", to="memory.tip"
            ),
        ),
        migrations.AddField(
            model_name="tipevidence",
            name="tip",
            field=models.ForeignKey(
                blank=True,
                help_text="skill: none",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="evidence",
                to="memory.tip",
            ),
        ),
        migrations.AddIndex(
            model_name="tipvector",
            index=models.Index(fields=["skill", "encoder"], name="tip_vector_of_skill"),
        ),
        migrations.AddIndex(
            model_name="ban",
            index=models.Index(fields=["skill", "rule_id", "-id"], name="ban_of_rule"),
        ),
        migrations.AddConstraint(
            model_name="ban",
            constraint=models.UniqueConstraint(
                fields=("run", "rule_id", "pattern"), name="ban_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="ban",
            constraint=models.CheckConstraint(
                condition=models.Q(("pattern", ""), _negated=True), name="ban_says_something"
            ),
        ),
        migrations.AddConstraint(
            model_name="dreamstage",
            constraint=models.UniqueConstraint(fields=("run", "stage"), name="dream_stage_once"),
        ),
        migrations.AddConstraint(
            model_name="dreamstage",
            constraint=models.CheckConstraint(
                condition=models.Q(("stage__in", ["score", "credit", "evict", "report"])),
                name="dream_stage_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="dreamstage",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("finished_at__isnull", True), ("state", "new")),
                    models.Q(("finished_at__isnull", False), ("state__in", ["done", "failed"])),
                    _connector="OR",
                ),
                name="dream_stage_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="dreamstage",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "failed"), _negated=True),
                    models.Q(("error", ""), _negated=True),
                    _connector="OR",
                ),
                name="dream_stage_failed_has_error",
            ),
        ),
        migrations.AddIndex(
            model_name="evictionsweep",
            index=models.Index(fields=["skill", "-id"], name="sweep_of_skill"),
        ),
        migrations.AddConstraint(
            model_name="evictionsweep",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["previewed", "applied", "undone"])),
                name="sweep_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="evictionsweep",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("applied_at__isnull", True), ("state", "previewed")),
                    models.Q(
                        models.Q(("state", "previewed"), _negated=True),
                        ("applied_at__isnull", False),
                        models.Q(("applied_by", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="sweep_applied_has_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="evictionsweep",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "undone"), _negated=True),
                    models.Q(
                        ("undone_at__isnull", False), models.Q(("undone_by", ""), _negated=True)
                    ),
                    _connector="OR",
                ),
                name="sweep_undone_has_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="outcomerevision",
            constraint=models.UniqueConstraint(
                fields=("attempt", "number"), name="outcome_revision_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="outcomerevision",
            constraint=models.CheckConstraint(
                condition=models.Q(("cause__in", ["regrade", "late_outcome", "undo"])),
                name="outcome_revision_cause_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="outcomerevision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("old_value__isnull", True),
                        models.Q(("old_value__gte", -1.0), ("old_value__lte", 1.0)),
                        _connector="OR",
                    ),
                    models.Q(
                        ("new_value__isnull", True),
                        models.Q(("new_value__gte", -1.0), ("new_value__lte", 1.0)),
                        _connector="OR",
                    ),
                    models.Q(
                        ("old_confidence__isnull", True),
                        models.Q(("old_confidence__gte", 0.0), ("old_confidence__lte", 1.0)),
                        _connector="OR",
                    ),
                    models.Q(
                        ("new_confidence__isnull", True),
                        models.Q(("new_confidence__gte", 0.0), ("new_confidence__lte", 1.0)),
                        _connector="OR",
                    ),
                ),
                name="outcome_revision_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="outcomerevision",
            constraint=models.CheckConstraint(
                condition=models.Q(("by", ""), _negated=True), name="outcome_revision_has_author"
            ),
        ),
        migrations.AddConstraint(
            model_name="runevidence",
            constraint=models.UniqueConstraint(
                fields=("run", "tip", "rule_id", "category", "policy"), name="run_evidence_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="runevidence",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("credit_n__lte", models.F("rows")),
                    ("shown__lte", models.F("rows")),
                    ("visits__lte", 1),
                ),
                name="run_evidence_counts",
            ),
        ),
        migrations.AddConstraint(
            model_name="sweepentry",
            constraint=models.UniqueConstraint(fields=("sweep", "tip"), name="sweep_entry_once"),
        ),
        migrations.AddConstraint(
            model_name="sweepentry",
            constraint=models.CheckConstraint(
                condition=models.Q(("cause__in", ["misleading", "lucky_neighbour", "dead_weight"])),
                name="sweep_entry_cause_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="sweepentry",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("high__gte", models.F("mean")),
                    ("low__gte", -1000000000.0),
                    ("low__lte", models.F("mean")),
                    ("high__lte", 1000000000.0),
                ),
                name="sweep_entry_interval",
            ),
        ),
        migrations.AddConstraint(
            model_name="sweepentry",
            constraint=models.CheckConstraint(
                condition=models.Q(("retired", True), ("given_back", False), _connector="OR"),
                name="sweep_entry_gives_back_own",
            ),
        ),
        migrations.AddConstraint(
            model_name="tipchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "action__in",
                        ["retire", "reactivate", "protect", "unprotect", "exempt", "include"],
                    )
                ),
                name="tip_change_action_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="tipchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("reason", ""), _negated=True), models.Q(("by", ""), _negated=True)
                ),
                name="tip_change_has_reason_and_author",
            ),
        ),
        migrations.AddConstraint(
            model_name="tipevidence",
            constraint=models.UniqueConstraint(
                fields=("skill", "policy", "level", "key", "tip"),
                name="tip_evidence_once",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="tipevidence",
            constraint=models.CheckConstraint(
                condition=models.Q(("level__in", ["rule", "category", "tip", "skill"])),
                name="tip_evidence_level_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="tipevidence",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("level", "skill"), ("tip__isnull", True)),
                    models.Q(models.Q(("level", "skill"), _negated=True), ("tip__isnull", False)),
                    _connector="OR",
                ),
                name="tip_evidence_has_tip",
            ),
        ),
        migrations.AddConstraint(
            model_name="tipevidence",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("credit_n__lte", models.F("rows")),
                    ("shown__lte", models.F("rows")),
                    ("visits__lte", models.F("rows")),
                ),
                name="tip_evidence_counts",
            ),
        ),
        # passes were numbered by scoring round; the counter goes on from the last one
        migrations.RunSQL(
            "UPDATE runs SET dream_number = last.number FROM "
            "(SELECT run_id, max(number) AS number FROM dream_passes GROUP BY run_id) AS last "
            "WHERE last.run_id = runs.id",
            migrations.RunSQL.noop,
        ),
        # sums are rewritten in place after every run: room on the page keeps that off the indexes (HOT)
        migrations.RunSQL(
            "ALTER TABLE tip_evidence SET (fillfactor = 70)",
            "ALTER TABLE tip_evidence RESET (fillfactor)",
        ),
        migrations.RunPython(_make_vector_extension, migrations.RunPython.noop),
    ]
