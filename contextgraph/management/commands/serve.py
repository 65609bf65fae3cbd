"""``manage.py serve``: the admin behind gunicorn, on loopback unless told otherwise."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """Replace this process with gunicorn."""

    help = "Serve the admin (gunicorn) on CONTEXTGRAPH_WEB_HOST:CONTEXTGRAPH_WEB_PORT."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Never returns."""
        address = f"{settings.WEB_HOST}:{settings.WEB_PORT}"
        argv = [
            sys.executable, "-m", "gunicorn", "contextgraph.wsgi:application", "--bind", address,
            "--workers", "1", "--threads", "4", "--chdir", str(settings.BASE_DIR),
            "--log-level", "warning", "--no-control-socket",
        ]  # fmt: skip
        os.execv(sys.executable, argv)  # noqa: S606 - our own interpreter, no shell
