"""The scoring app: the judge's bench. Work units, verdicts, cached embeddings; never imports upward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from memory.encoders import register_encoder
from memory.provenance import register_standing
from memory.run_sections import register_section

if TYPE_CHECKING:
    from memory.encoders import TextEncoder
    from memory.models import Run
    from memory.provenance import Standing
    from memory.run_sections import Section


class ScoringConfig(AppConfig):
    """Label ``scoring``."""

    name = "scoring"
    verbose_name = "Scoring"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have reports say what judging cost and which judges are calibrated; the ranker find texts."""
        register_section("judge", _judge_section)
        register_section("judgements", _judgements_section, only_when_asked=True)
        register_standing(_standing)
        register_encoder(_encoder)


def _encoder() -> TextEncoder:
    # models are not loaded yet when this module is
    from scoring.tip_vectors import ENCODER

    return ENCODER


def _standing(sources: frozenset[str]) -> Standing:
    # models are not loaded yet when this module is
    from scoring.calibrated import standing

    return standing(sources)


def _judge_section(run: Run) -> Section:
    # models are not loaded yet when this module is
    from scoring.judge.accounting_text import section

    return section(run)


def _judgements_section(run: Run) -> Section:
    # models are not loaded yet when this module is
    from scoring.judge.judgement_text import section

    return section(run)
