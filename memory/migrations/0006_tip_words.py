"""A digest of each tip's words, by which ``save_tip`` finds a tip that says the same; a new kind of change.

Reads the texts of all tips once, a few thousand at a time.
"""

from __future__ import annotations

from django.db import migrations, models

from memory.duplicates import words_sha256

AT_ONCE = 2000


def _fill_words(apps, editor):
    """Every text that is there already."""
    tips = apps.get_model("memory", "Tip").objects.using(editor.connection.alias)
    last = 0
    while part := list(
        tips.exclude(text="").filter(pk__gt=last).order_by("pk").only("pk", "text")[:AT_ONCE]
    ):
        last = part[-1].pk
        for tip in part:
            tip.words_sha256 = words_sha256(tip.text)
        tips.bulk_update(part, ["words_sha256"])


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0005_evidence_and_sweeps"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="tipchange",
            name="tip_change_action_known",
        ),
        migrations.RemoveIndex(
            model_name="tipvector",
            name="tip_vector_of_skill",
        ),
        migrations.AddField(
            model_name="tip",
            name="words_sha256",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="of the words alone: equal where a text says the same in nearly these words",
                max_length=64,
            ),
        ),
        migrations.AlterField(
            model_name="tipchange",
            name="action",
            field=models.CharField(
                choices=[
                    ("retire", "retired"),
                    ("reactivate", "reactivated"),
                    ("protect", "protected from sweeps"),
                    ("unprotect", "no longer protected from sweeps"),
                    ("exempt", "never withheld by the coin"),
                    ("include", "withheld by the coin like others"),
                    ("propose", "learned again while retired"),
                ],
                max_length=10,
            ),
        ),
        migrations.AddIndex(
            model_name="tip",
            index=models.Index(
                condition=models.Q(("words_sha256", ""), _negated=True),
                fields=["skill", "words_sha256"],
                name="tip_by_words",
            ),
        ),
        migrations.AddIndex(
            model_name="tip",
            index=models.Index(
                condition=models.Q(("retired_at__isnull", False)),
                fields=["skill", "category"],
                name="tip_retired_by_category",
            ),
        ),
        migrations.AddIndex(
            model_name="tip",
            index=models.Index(
                condition=models.Q(("retired_at__isnull", False), ("scope", "environment")),
                fields=["skill", "environment_tag"],
                name="tip_retired_of_environment",
            ),
        ),
        migrations.AddIndex(
            model_name="tipvector",
            index=models.Index(fields=["skill", "encoder", "tip"], name="tip_vector_latest"),
        ),
        migrations.AddConstraint(
            model_name="tipchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "action__in",
                        [
                            "retire",
                            "reactivate",
                            "protect",
                            "unprotect",
                            "exempt",
                            "include",
                            "propose",
                        ],
                    )
                ),
                name="tip_change_action_known",
            ),
        ),
        migrations.RunPython(_fill_words, migrations.RunPython.noop, elidable=True),
    ]
