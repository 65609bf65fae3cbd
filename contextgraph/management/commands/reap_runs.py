"""``manage.py reap_runs``: finish from rows alone what messages did not finish.

Guarantees: one sweep, or sweeps until no run is open; only the first one is impatient, so that workers
who are busy are not sent the same batches once a second. Exit status 1 when a run met an error, or could
not even be looked for, which the log explains; ``--until-done`` does not wait for such a run, and ends
with the first look that fails.

Does not wait for judge calls that are to be repeated later: their runs are final meanwhile.

Shaped by: one run with a fault, before which every sweep stopped; and looks that failed, after which
"Nothing to do" was said of runs that waited.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any, Final

from django.core.management.base import BaseCommand, CommandError

from contextgraph import pipeline
from contextgraph.reaping import Reaped
from memory.models import Run
from scoring.judge import cache

if TYPE_CHECKING:
    from argparse import ArgumentParser

SWEEP_EVERY_S: Final = 1.0


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
            msg = "--no-cache works with --inline; workers obey rescore --no-cache and JUDGE_CACHE=false"
            raise CommandError(msg)
        anew = cache.switched_off() if options["no_cache"] else contextlib.nullcontext()
        with anew:
            total = self._swept(inline=options["inline"], until_done=options["until_done"])
        self._report(total, as_json=options["json"])
        wrong = [f"run {run_id}" for run_id in total["errors"]]
        wrong += [f"every run that waits in {look}" for look in total["failed_looks"]]
        if wrong:
            msg = f"not finished because of an error, which the log explains: {', '.join(wrong)}"
            raise CommandError(msg)

    def _swept(self, *, inline: bool, until_done: bool) -> dict[str, list[Any]]:
        """What one sweep did, or all until nothing is open or a look fails."""
        total = Reaped().as_dict()
        impatient = True
        while True:
            swept = pipeline.reap(inline=inline, impatient=impatient).as_dict()
            # what went wrong once and right afterwards is no error
            total = {name: total[name] + swept[name] for name in total} | {
                "errors": swept["errors"]
            }
            waiting = Run.objects.filter(status__in=Run.OPEN).exclude(pk__in=swept["errors"])
            # whom nobody can look for would be waited for without an end
            if not until_done or swept["failed_looks"] or not waiting.exists():
                return total
            impatient = inline  # nothing is sent twice when nothing is sent
            time.sleep(SWEEP_EVERY_S)

    def _report(self, total: dict[str, list[Any]], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(total))
            return
        parts = [f"{len(ids)} {name.replace('_', ' ')}" for name, ids in total.items() if ids]
        self.stdout.write(", ".join(parts) or "Nothing to do: no run waits.")
