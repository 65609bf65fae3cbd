"""The scoring app: the judge's bench. Work units, verdicts, cached embeddings; never imports upward."""

from __future__ import annotations

from django.apps import AppConfig


class ScoringConfig(AppConfig):
    """Label ``scoring``."""

    name = "scoring"
    verbose_name = "Scoring"
    default_auto_field = "django.db.models.BigAutoField"
