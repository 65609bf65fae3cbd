"""``manage.py run_example``: the main job, end to end, on the two bundled runs (`make run`).

Posts through the real queue, waits for the real workers, prints the audit. A second call finds both
runs stored and changes nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from contextgraph import supervisor

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Command(BaseCommand):
    """Start what is down, post, wait, audit, stop what was started."""

    help = (
        "Post the two bundled example runs through the queue, wait until scored, print the audit."
    )

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Run the whole story."""
        call_command("migrate", verbosity=0, interactive=False)
        files = sorted(str(path) for path in EXAMPLES.glob("harbor-run-*.jsonl"))
        up = supervisor.running(settings.BASE_DIR)
        started = None if up and up.alive else self._start_processes()
        try:
            call_command("post_run", *files, follow=True, timeout=600.0)
        finally:
            if started is not None:
                supervisor.stop(settings.BASE_DIR)
                started.wait()
        call_command("audit_memory", skill="stig")
        self.stdout.write(
            "\nLook closer: .venv/bin/python manage.py show_run harbor-run-02\n"
            "Keep it running, with the admin: make up      Stop the servers: make down"
        )

    def _start_processes(self) -> subprocess.Popen[bytes]:
        """The same processes as `up`, without the admin; their output goes to .contextgraph/logs."""
        manage = str(settings.BASE_DIR / "manage.py")
        return subprocess.Popen([sys.executable, manage, "up", "--quiet", "--no-web"])
