"""What signals are worth against labels, and the coefficients fitted to them."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scoring", "0001_bench")]

    operations = [
        migrations.CreateModel(
            name="Calibration",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "signal",
                    models.CharField(
                        help_text="trace, embedding, judge or combined", max_length=20
                    ),
                ),
                (
                    "model",
                    models.CharField(
                        blank=True, help_text="judge model, as requested", max_length=200
                    ),
                ),
                ("prompt_sha256", models.CharField(blank=True, max_length=64)),
                (
                    "version",
                    models.CharField(help_text="of the signal's rules or numbers", max_length=64),
                ),
                (
                    "labels",
                    models.CharField(
                        choices=[
                            ("pairs", "a file of labelled pairs"),
                            ("human", "reviews in the database"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "pairs_sha256",
                    models.CharField(help_text="of the labels that were compared", max_length=64),
                ),
                ("n", models.PositiveIntegerField(help_text="labelled pairs")),
                (
                    "decided",
                    models.PositiveIntegerField(help_text="those that the signal answered"),
                ),
                ("report", models.JSONField()),
                (
                    "coefficients",
                    models.JSONField(blank=True, help_text="combined: the fit", null=True),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("id",),
                "indexes": [
                    models.Index(
                        fields=["signal", "model", "prompt_sha256"], name="calibration_of_judge"
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("labels__in", ["", "pairs", "human"])),
                        name="calibration_labels_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("signal", "judge"), _negated=True),
                            models.Q(
                                models.Q(("model", ""), _negated=True),
                                models.Q(("prompt_sha256", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="calibration_judge_is_named",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("decided__lte", models.F("n"))),
                        name="calibration_decided_of_n",
                    ),
                ],
            },
        ),
    ]
