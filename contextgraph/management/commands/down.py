"""``manage.py down``: stop what this checkout runs, processes first, servers last. Data is kept."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from contextgraph import embedded, supervisor


class Command(BaseCommand):
    """Stop the supervisor and the embedded pair."""

    help = "Stop the processes and the embedded servers of this checkout; data is kept."
    requires_system_checks: list[str] = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Stop and say what was stopped."""
        try:
            stopped = ["processes"] if supervisor.stop(settings.BASE_DIR) else []
            stopped += embedded.stop(settings.BASE_DIR)
        except (supervisor.UnstoppableError, embedded.EmbeddedError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing was running.")
