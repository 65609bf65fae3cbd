"""What a calibrated judge answered as and how it was asked, and which fit is in use."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models.functions import Coalesce

IN_USE_SO_FAR = "UPDATE scoring_calibration SET adopted = true WHERE coefficients IS NOT NULL"


class Migration(migrations.Migration):
    dependencies = [("scoring", "0006_without_cache")]

    operations = [
        migrations.AddField(
            model_name="calibration",
            name="served",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text="what the server said it was: model, fingerprint, pairs decided",
            ),
        ),
        migrations.AddField(
            model_name="calibration",
            name="asked",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text="mode, tips of a question, sampling parameters; empty: not known",
            ),
        ),
        migrations.AddField(
            model_name="calibration",
            name="adopted",
            field=models.BooleanField(
                default=False,
                help_text="combined: p(followed) is computed with the latest of these",
            ),
        ),
        # the latest fit was in use, whoever stored it
        migrations.RunSQL(IN_USE_SO_FAR, migrations.RunSQL.noop, elidable=True),
        migrations.AddConstraint(
            model_name="calibration",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("adopted", False), ("coefficients__isnull", False), _connector="OR"
                ),
                name="calibration_adopted_is_a_fit",
            ),
        ),
        migrations.AddIndex(
            model_name="judgement",
            index=models.Index(
                models.F("requested_model"),
                models.F("prompt_sha256"),
                models.F("served_model"),
                models.F("system_fingerprint"),
                Coalesce("position", 0),
                condition=models.Q(
                    models.Q(("label", ""), _negated=True),
                    ("followed__isnull", False),
                    _connector="OR",
                ),
                name="judgement_answered_as",
            ),
        ),
    ]
