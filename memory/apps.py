"""The memory app: what happened, and what each tip is worth. Owns the graph tables, knows no judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from memory.run_sections import register_section

if TYPE_CHECKING:
    from memory.models import Run
    from memory.run_sections import Section


class MemoryConfig(AppConfig):
    """Label ``memory``; tables keep the ADR's names (``tip_retrievals``)."""

    name = "memory"
    verbose_name = "Memory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have ``show_run`` say how far a run's dream pass has come."""
        register_section("dream", _dream_section)


def _dream_section(run: Run) -> Section:
    # models are not loaded yet when this module is
    from memory.dream_render import section

    return section(run)
