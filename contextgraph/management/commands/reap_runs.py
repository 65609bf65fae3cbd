"""``manage.py reap_runs``: finish from rows alone what messages did not finish."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from contextgraph import pipeline
from memory.models import Run
from scoring.judge import cache

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """One sweep, or sweeps until nothing is open."""

    help = "Finish runs whose messages were lost: not dispatched, lost chords, due retries."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument(
            "--inline", action="store_true", help="score in this process, no broker needed"
        )
        parser.add_argument(
            "--until-done", action="store_true", help="sweep again until no run is open"
        )
        parser.add_argument(
            "--no-cache",
            action="store_true",
            help="with --inline: ask the judge anew, whatever the verdict cache holds",
        )
        parser.add_argument("--json", action="store_true", help="print what was done as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Sweep and report."""
        if options["no_cache"] and not options["inline"]:
            msg = "--no-cache works with --inline; for the workers set JUDGE_CACHE=false"
            raise CommandError(msg)
        anew = cache.switched_off() if options["no_cache"] else contextlib.nullcontext()
        with anew:
            total = self._swept(options)
        if options["json"]:
            self.stdout.write(json.dumps(total))
            return
        parts = [f"{len(ids)} {name}" for name, ids in total.items() if ids]
        self.stdout.write(", ".join(parts) or "Nothing to do: no run waits.")

    def _swept(self, options: dict[str, Any]) -> dict[str, list[int]]:
        """What one sweep did, or all until nothing is open."""
        total: dict[str, list[int]] = pipeline.Reaped().as_dict()
        while True:
            swept = pipeline.reap(inline=options["inline"], impatient=True).as_dict()
            total = {key: total[key] + swept[key] for key in total}
            if not (options["until_done"] and Run.objects.open().exists()):
                break
            time.sleep(0.05 if any(swept.values()) else 1.0)
        return total
