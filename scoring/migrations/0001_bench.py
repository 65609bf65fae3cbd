"""The bench: score batches, judgements, text embeddings."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("memory", "0001_graph"),
    ]

    operations = [
        migrations.CreateModel(
            name="TextEmbedding",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("text_sha256", models.CharField(max_length=64)),
                (
                    "encoder_sha256",
                    models.CharField(help_text="of weights and chunking recipe", max_length=64),
                ),
                ("vector", models.BinaryField(help_text="float32 little endian, 384")),
                (
                    "chunks",
                    models.BinaryField(
                        help_text="float32 little endian, n x 384; empty: same as vector"
                    ),
                ),
                ("tokens", models.PositiveIntegerField()),
                ("truncated", models.BooleanField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("text_sha256", "encoder_sha256"), name="text_embedding_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Judgement",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("followed", models.BooleanField(blank=True, null=True)),
                ("reasoning", models.TextField(blank=True)),
                (
                    "reason",
                    models.CharField(
                        blank=True, help_text="why there is no verdict", max_length=20
                    ),
                ),
                ("error", models.CharField(blank=True, max_length=500)),
                ("requested_model", models.CharField(max_length=200)),
                ("served_model", models.CharField(blank=True, max_length=200)),
                ("system_fingerprint", models.CharField(blank=True, max_length=200)),
                ("prompt_sha256", models.CharField(max_length=64)),
                ("tier", models.CharField(default="default", max_length=20)),
                ("prompt_tokens", models.PositiveIntegerField(blank=True, null=True)),
                ("completion_tokens", models.PositiveIntegerField(blank=True, null=True)),
                ("latency_s", models.FloatField(blank=True, null=True)),
                ("http_tries", models.PositiveSmallIntegerField(default=0)),
                ("raw_reply", models.TextField(blank=True, help_text="capped")),
                (
                    "evidence",
                    models.JSONField(
                        blank=True, default=list, help_text="spans of the script quoted"
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "retrieval",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="judgements",
                        to="memory.retrieval",
                    ),
                ),
            ],
            options={
                "ordering": ("id",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("followed__isnull", False), ("reason", "")),
                            models.Q(
                                ("followed__isnull", True), models.Q(("reason", ""), _negated=True)
                            ),
                            _connector="OR",
                        ),
                        name="judgement_label_or_reason",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "reason__in",
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
                            )
                        ),
                        name="judgement_reason_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ScoreBatch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "round",
                    models.PositiveIntegerField(help_text="the run's scoring round that made it"),
                ),
                (
                    "signal",
                    models.CharField(
                        choices=[
                            ("judge", "LLM judge"),
                            ("embed", "embedding"),
                            ("trace", "action trace"),
                        ],
                        max_length=10,
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("first_id", models.BigIntegerField(help_text="first retrieval, inclusive")),
                ("last_id", models.BigIntegerField(help_text="last retrieval, inclusive")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("new", "new"),
                            ("leased", "leased"),
                            ("done", "done"),
                            ("failed", "failed"),
                        ],
                        default="new",
                        max_length=10,
                    ),
                ),
                (
                    "tries",
                    models.PositiveSmallIntegerField(
                        default=0, help_text="counted before the work"
                    ),
                ),
                ("leased_until", models.DateTimeField(blank=True, null=True)),
                (
                    "lease_token",
                    models.CharField(blank=True, help_text="who holds the lease", max_length=36),
                ),
                ("sent_at", models.DateTimeField(blank=True, null=True)),
                ("changed_at", models.DateTimeField()),
                ("reason", models.CharField(blank=True, max_length=200)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="score_batches",
                        to="memory.run",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "score batches",
                "ordering": ("run", "round", "signal", "number"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["new", "leased"])),
                        fields=["run", "state"],
                        name="score_batch_open",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("run", "round", "signal", "number"), name="score_batch_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("signal__in", ["judge", "embed", "trace"])),
                        name="score_batch_signal_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["new", "leased", "done", "failed"])),
                        name="score_batch_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "leased"), _negated=True),
                            ("leased_until__isnull", False),
                            _connector="OR",
                        ),
                        name="score_batch_lease_ends",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "failed"), _negated=True),
                            models.Q(("reason", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="score_batch_failed_has_reason",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("first_id__lte", models.F("last_id"))),
                        name="score_batch_range",
                    ),
                ],
            },
        ),
    ]
