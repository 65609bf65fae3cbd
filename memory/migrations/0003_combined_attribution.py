"""The judge's label, and p(followed) from all machine signals with its coefficients' version."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0002_adr0019_tip_followed")]

    operations = [
        migrations.AddField(
            model_name="retrieval",
            name="llm_label",
            field=models.CharField(
                blank=True,
                default="",
                help_text="the judge's label, of which the boolean is derived",
                max_length=20,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="retrieval",
            name="tip_followed_p",
            field=models.FloatField(
                blank=True, help_text="p(followed) from all machine signals, [0, 1]", null=True
            ),
        ),
        migrations.AddField(
            model_name="retrieval",
            name="tip_followed_p_version",
            field=models.CharField(
                blank=True, default="", help_text="of the coefficients that gave it", max_length=40
            ),
            preserve_default=False,
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tip_followed_p__isnull", True),
                    models.Q(("tip_followed_p__gte", 0.0), ("tip_followed_p__lte", 1.0)),
                    _connector="OR",
                ),
                name="retrieval_p_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tip_followed_p__isnull", True),
                    models.Q(
                        ("shown", True), models.Q(("tip_followed_p_version", ""), _negated=True)
                    ),
                    _connector="OR",
                ),
                name="retrieval_p_has_version",
            ),
        ),
    ]
