"""Intake: documents in parts, refused messages."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="IncomingDocument",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sha256", models.CharField(max_length=64, unique=True)),
                (
                    "name",
                    models.TextField(blank=True, help_text="file name at the sender, for people"),
                ),
                ("format", models.CharField(default="auto", max_length=50)),
                (
                    "skill",
                    models.CharField(
                        blank=True, help_text="when the log does not name it", max_length=500
                    ),
                ),
                ("revise", models.BooleanField(default=False)),
                ("parts", models.PositiveIntegerField()),
                (
                    "size",
                    models.BigIntegerField(help_text="bytes of the whole, compressed as sent"),
                ),
                ("first_part_at", models.DateTimeField(auto_now_add=True)),
                ("last_part_at", models.DateTimeField()),
                ("assembled_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ("-id",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("assembled_at__isnull", True)),
                        fields=["last_part_at"],
                        name="document_incomplete",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("parts__gte", 1)), name="document_has_parts"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RejectedMessage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("received_at", models.DateTimeField(auto_now_add=True)),
                (
                    "reason",
                    models.CharField(
                        choices=[
                            ("not_json", "not JSON"),
                            ("content_type", "content type is not JSON"),
                            ("too_large", "too large"),
                            ("schema", "does not match the schema"),
                            ("version", "unknown version"),
                            ("digest", "a digest does not match"),
                            ("conflict", "another run is stored under this id"),
                            ("claim", "the claim check cannot be fetched"),
                            ("unreadable", "the run log cannot be read"),
                            ("internal", "an error of ours"),
                        ],
                        max_length=20,
                    ),
                ),
                ("detail", models.TextField()),
                ("content_type", models.CharField(blank=True, max_length=200)),
                ("headers", models.JSONField(blank=True, default=dict)),
                ("body", models.BinaryField(help_text="raw bytes, capped")),
                ("body_size", models.BigIntegerField(help_text="bytes before the cap")),
                ("body_sha256", models.CharField(max_length=64)),
                ("replays", models.PositiveIntegerField(default=0)),
                (
                    "resolved_at",
                    models.DateTimeField(blank=True, help_text="a replay went through", null=True),
                ),
            ],
            options={
                "ordering": ("-id",),
                "permissions": [("replay_message", "Can replay a rejected message")],
                "indexes": [
                    models.Index(
                        condition=models.Q(("resolved_at__isnull", True)),
                        fields=["received_at"],
                        name="rejected_open",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "reason__in",
                                [
                                    "not_json",
                                    "content_type",
                                    "too_large",
                                    "schema",
                                    "version",
                                    "digest",
                                    "conflict",
                                    "claim",
                                    "unreadable",
                                    "internal",
                                ],
                            )
                        ),
                        name="rejected_reason_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="IncomingPart",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField(help_text="1-based")),
                ("sha256", models.CharField(max_length=64)),
                ("body", models.BinaryField()),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="pieces",
                        to="contextgraph.incomingdocument",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("document", "number"), name="part_once_per_document"
                    )
                ],
            },
        ),
    ]
