"""The memory app: what happened, and what each tip is worth. Owns the graph tables, knows no judge."""

from __future__ import annotations

from django.apps import AppConfig


class MemoryConfig(AppConfig):
    """Label ``memory``; tables keep the ADR's names (``tip_retrievals``)."""

    name = "memory"
    verbose_name = "Memory"
    default_auto_field = "django.db.models.BigAutoField"
