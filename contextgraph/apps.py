"""The front door: intake tables, the pipeline, the admin site; registers checks, roles and listeners."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from memory.events import run_recorded


class ContextgraphConfig(AppConfig):
    """Label ``contextgraph``; importing the checks registers them."""

    name = "contextgraph"
    verbose_name = "Intake"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register checks, roles and listeners, and make our Celery app the one that `.delay` uses."""
        from contextgraph import celery, checks  # noqa: F401 - importing registers them
        from contextgraph.roles import make_roles

        post_migrate.connect(make_roles, dispatch_uid="contextgraph.roles")
        run_recorded.connect(_dispatch_recorded, dispatch_uid="contextgraph.run_recorded")


def _dispatch_recorded(*, run_id: int, **_: Any) -> None:
    # models are not loaded yet when this module is
    from contextgraph.agent import announce_recorded

    announce_recorded(run_id)
