"""The scoring app: the judge's bench. Work units, verdicts, cached embeddings; never imports upward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from memory.encoders import register_encoder
from memory.run_sections import register_section

if TYPE_CHECKING:
    from memory.encoders import TextEncoder
    from memory.models import Run
    from memory.run_sections import Section


class ScoringConfig(AppConfig):
    """Label ``scoring``."""

    name = "scoring"
    verbose_name = "Scoring"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have ``show_run`` say what judging a run has cost, and the ranker search by text."""
        register_section("judge", _judge_section)
        register_encoder(_encoder)


def _encoder() -> TextEncoder:
    # models are not loaded yet when this module is
    from scoring.tip_vectors import ENCODER

    return ENCODER


def _judge_section(run: Run) -> Section:
    # models are not loaded yet when this module is
    from scoring.judge.accounting_text import section

    return section(run)
