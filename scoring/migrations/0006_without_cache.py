"""A batch of the judge may be worked on without the cache of verdicts."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scoring", "0005_memos")]

    operations = [
        migrations.AddField(
            model_name="scorebatch",
            name="without_cache",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="the judge is asked anew, whatever is cached",
            ),
        ),
    ]
