"""Memos; and calls to a model that are not about a run's tips."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

WITHOUT_MEMOS = """
    SET CONSTRAINTS ALL IMMEDIATE;
    DELETE FROM scoring_judgecall WHERE purpose <> 'verdict';
"""
# on the way back: the older table demands a run of each call


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0005_evidence_and_sweeps"),
        ("scoring", "0004_reviews"),
    ]

    operations = [
        migrations.CreateModel(
            name="Memo",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "key",
                    models.CharField(help_text="sha256, see scoring/memos/cache.py", max_length=64),
                ),
                ("product", models.CharField(max_length=20)),
                ("identifier", models.TextField()),
                (
                    "mode",
                    models.CharField(
                        choices=[
                            ("human", "prose for a reviewer"),
                            ("agent", "a line for each fact"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "variant",
                    models.CharField(
                        choices=[
                            ("writer", "without a model"),
                            ("single", "by a model in one pass"),
                            ("debate", "by a model after a debate"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "model",
                    models.CharField(blank=True, help_text="asked; empty: none", max_length=200),
                ),
                ("prompt_sha256", models.CharField(blank=True, max_length=64)),
                ("gate_version", models.CharField(max_length=20)),
                (
                    "fingerprint",
                    models.CharField(help_text="of the facts it was written from", max_length=64),
                ),
                ("facts", models.JSONField(help_text="the snapshot, see scoring/memos/stored.py")),
                ("text", models.TextField()),
                ("text_sha256", models.CharField(max_length=64)),
                (
                    "sides",
                    models.JSONField(
                        blank=True,
                        default=list,
                        help_text="both sides of a debate; a text that was rejected",
                    ),
                ),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        help_text="why the writer took over; empty: it did not",
                        max_length=500,
                    ),
                ),
                (
                    "calls",
                    models.PositiveIntegerField(
                        default=0, help_text="calls to a model that it took"
                    ),
                ),
                (
                    "verdict",
                    models.JSONField(
                        blank=True, help_text="the judge's checklist; empty: not judged", null=True
                    ),
                ),
                ("verdict_tier", models.CharField(blank=True, max_length=20)),
                (
                    "accepted",
                    models.BooleanField(
                        blank=True, help_text="by the judge; empty: not judged", null=True
                    ),
                ),
                ("written_at", models.DateTimeField()),
                ("judged_at", models.DateTimeField(blank=True, null=True)),
                (
                    "served_at",
                    models.DateTimeField(
                        blank=True, help_text="last time without writing", null=True
                    ),
                ),
                (
                    "hits",
                    models.PositiveIntegerField(
                        default=0, help_text="times it was served without writing"
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
            },
        ),
        migrations.AddField(
            model_name="judgecall",
            name="purpose",
            field=models.CharField(
                db_default="verdict",
                default="verdict",
                help_text="verdict, or memo_ and the prompt's name",
                max_length=20,
            ),
        ),
        migrations.AlterField(
            model_name="judgecall",
            name="run",
            field=models.ForeignKey(
                blank=True,
                help_text="empty: a memo that is not about one run",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="judge_calls",
                to="memory.run",
            ),
        ),
        migrations.AlterField(
            model_name="judgecall",
            name="tips",
            field=models.PositiveSmallIntegerField(help_text="tips asked about; of a memo 0"),
        ),
        migrations.AddConstraint(
            model_name="judgecall",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("purpose", "verdict"), ("run__isnull", False)),
                    ("purpose__startswith", "memo_"),
                    _connector="OR",
                ),
                name="judge_call_has_purpose",
            ),
        ),
        migrations.AddConstraint(
            model_name="memo",
            constraint=models.UniqueConstraint(fields=("key",), name="memo_once_per_key"),
        ),
        migrations.AddConstraint(
            model_name="memo",
            constraint=models.CheckConstraint(
                condition=models.Q(("mode__in", ["human", "agent"])), name="memo_mode_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="memo",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("model", ""), ("variant", "writer")),
                    models.Q(
                        ("variant__in", ["single", "debate"]),
                        models.Q(("model", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="memo_variant_names_its_model",
            ),
        ),
        migrations.AddConstraint(
            model_name="memo",
            constraint=models.CheckConstraint(
                condition=models.Q(("text", ""), _negated=True), name="memo_has_text"
            ),
        ),
        migrations.AddConstraint(
            model_name="memo",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("accepted__isnull", True),
                        ("judged_at__isnull", True),
                        ("verdict__isnull", True),
                        ("verdict_tier", ""),
                    ),
                    models.Q(
                        ("accepted__isnull", False),
                        ("judged_at__isnull", False),
                        ("verdict__isnull", False),
                        models.Q(("verdict_tier", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="memo_verdict_whole",
            ),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, WITHOUT_MEMOS),
    ]
