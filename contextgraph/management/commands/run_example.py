"""``manage.py run_example``: the main job, end to end, on the two bundled runs (`make run`).

Posts through the real queue, waits for the real workers, prints the audit. A second call finds both
runs stored and changes nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from kombu import Connection

from contextgraph import supervisor
from contextgraph.client import intake_queue

STARTED_S = 30.0
CONSUMER_START_S = 60.0
STOP_S = 45.0
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
            self._until_up(started)
            call_command("post_run", *files, follow=True, timeout=600.0)
            _until_consumed()
        finally:
            if started is not None:
                _stop(started)
        call_command("audit_memory", skill="stig")
        self.stdout.write(
            "\nLook closer: .venv/bin/python manage.py show_run harbor-run-02\n"
            "Keep it running, with the admin: make up      Stop the servers: make down"
        )

    def _until_up(self, started: subprocess.Popen[bytes] | None) -> None:
        """Wait for the supervisor; one that ends at once would leave the progress bar standing."""
        end = time.monotonic() + STARTED_S
        while started is not None and time.monotonic() < end:
            if started.poll() is not None:
                msg = (
                    f"the processes ended with exit code {started.returncode}: see the lines above"
                )
                raise CommandError(msg)
            if (up := supervisor.running(settings.BASE_DIR)) and up.alive:
                return
            time.sleep(0.1)

    def _start_processes(self) -> subprocess.Popen[bytes]:
        """The same processes as `up`, without the admin; their output goes to .contextgraph/logs."""
        manage = str(settings.BASE_DIR / "manage.py")
        return subprocess.Popen([sys.executable, manage, "up", "--quiet", "--no-web"])


def _until_consumed() -> None:
    """Wait until the intake queue is empty: runs that were stored before are final at once."""
    end = time.monotonic() + CONSUMER_START_S
    with Connection(settings.CELERY_BROKER_URL) as connection:
        queue = intake_queue(settings.INTAKE_QUEUE)(connection.default_channel)
        while time.monotonic() < end:
            if queue.queue_declare().message_count == 0:
                return
            time.sleep(0.2)


def _stop(started: subprocess.Popen[bytes]) -> None:
    """End the processes that this command started; they may still be starting."""
    started.terminate()
    try:
        started.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        supervisor.stop(settings.BASE_DIR)
        started.wait()
