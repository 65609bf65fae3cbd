"""``manage.py keep_servers``: start the embedded servers again whenever one of them dies.

A process of ``up``: without it a Postgres that was killed would stay down until the next command.
"""

from __future__ import annotations

import time
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand

from contextgraph import embedded

LOOK_EVERY_S: Final = 2.0


class Command(BaseCommand):
    """Look, start what is down, sleep; until told to stop."""

    help = "Keep the embedded Postgres and Valkey running (a process of `up`)."
    requires_system_checks: list[str] = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Never returns by itself."""
        while True:
            before = embedded.status(settings.BASE_DIR)
            if not before.up:
                down = [
                    server.name for server in (before.postgres, before.valkey) if not server.answers
                ]
                self.stderr.write(f"{' and '.join(down)} does not answer: starting it again")
                try:
                    embedded.ensure_started(settings.BASE_DIR)
                except embedded.EmbeddedError as error:
                    self.stderr.write(str(error))
            time.sleep(LOOK_EVERY_S)
