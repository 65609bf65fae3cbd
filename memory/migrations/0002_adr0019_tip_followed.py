"""The three columns of ADR-0019, with their constraints and the index of unscored rows.

A migration of its own: ``migrate memory 0001`` takes back these columns and nothing else.
"""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0001_graph")]

    operations = [
        migrations.AddField(
            model_name="retrieval",
            name="tip_followed_llm",
            field=models.BooleanField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="retrieval",
            name="tip_followed_emb",
            field=models.FloatField(blank=True, help_text="cosine, [-1, 1]", null=True),
        ),
        migrations.AddField(
            model_name="retrieval",
            name="tip_followed_computed_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="retrieval",
            index=models.Index(
                condition=models.Q(
                    ("outcome_value__isnull", False), ("tip_followed_computed_at__isnull", True)
                ),
                fields=["run"],
                name="retrieval_unscored_followed",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tip_followed_emb__isnull", True),
                    models.Q(("tip_followed_emb__gte", -1.0), ("tip_followed_emb__lte", 1.0)),
                    _connector="OR",
                ),
                name="retrieval_emb_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tip_followed_llm__isnull", True), ("llm_reason", ""), _connector="OR"
                ),
                name="retrieval_error_has_no_label",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tip_followed_llm__isnull", True),
                    models.Q(
                        models.Q(("llm_source", ""), _negated=True),
                        ("tip_followed_computed_at__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="retrieval_followed_needs_source",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tip_followed_emb__isnull", True),
                    models.Q(("emb_reason", ""), ("tip_followed_computed_at__isnull", False)),
                    _connector="OR",
                ),
                name="retrieval_emb_has_no_error",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tip_followed_emb__isnull", True),
                    models.Q(("emb_source", ""), _negated=True),
                    _connector="OR",
                ),
                name="retrieval_emb_has_source",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("shown", True),
                    models.Q(
                        ("tip_followed_emb__isnull", True), ("tip_followed_llm__isnull", True)
                    ),
                    _connector="OR",
                ),
                name="retrieval_unshown_has_no_label",
            ),
        ),
    ]
