"""What people say about retrievals; and a trigger, because a CHECK cannot forbid an UPDATE."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

APPEND_ONLY = """
    CREATE FUNCTION scoring_review_stays() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'review_append_only: review % is never changed; append one that supersedes it',
            OLD.id USING ERRCODE = 'restrict_violation';
    END $$;
    CREATE TRIGGER review_append_only BEFORE UPDATE OR DELETE ON scoring_review
        FOR EACH ROW EXECUTE FUNCTION scoring_review_stays();
"""
NOT_ANY_MORE = """
    DROP TRIGGER review_append_only ON scoring_review;
    DROP FUNCTION scoring_review_stays();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0005_evidence_and_sweeps"),
        ("scoring", "0003_judge_calls"),
    ]

    operations = [
        migrations.CreateModel(
            name="Review",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "followed",
                    models.BooleanField(
                        blank=True,
                        help_text="empty: cannot be told, or what stood before is withdrawn",
                        null=True,
                    ),
                ),
                ("by", models.CharField(help_text="user name of the reviewer", max_length=150)),
                ("note", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "retrieval",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reviews",
                        to="memory.retrieval",
                    ),
                ),
                (
                    "supersedes",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="superseded_by",
                        to="scoring.review",
                    ),
                ),
            ],
            options={
                "ordering": ("id",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("supersedes__isnull", True)),
                        fields=("retrieval",),
                        name="review_first_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("supersedes__isnull", True),
                            ("supersedes__lt", models.F("id")),
                            _connector="OR",
                        ),
                        name="review_supersedes_earlier",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("by", ""), _negated=True), name="review_has_author"
                    ),
                ],
            },
        ),
        migrations.RunSQL(APPEND_ONLY, NOT_ANY_MORE),
    ]
