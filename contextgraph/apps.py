"""The front door: intake tables, the pipeline, the admin site; registers the system checks."""

from __future__ import annotations

from django.apps import AppConfig


class ContextgraphConfig(AppConfig):
    """Label ``contextgraph``; importing the checks registers them."""

    name = "contextgraph"
    verbose_name = "Intake"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and make our Celery app the one that `.delay` uses."""
        from contextgraph import celery, checks  # noqa: F401 - importing registers them
