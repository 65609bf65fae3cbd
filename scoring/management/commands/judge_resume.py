"""``manage.py judge_resume``: ask a paused judge again now, after its key, model or bill was mended.

Guarantees: every open pause is cleared, with a mark of who did it, and the rows that waited for the
judge are due at once; the next sweep of the reaper asks about them. Says what it did; with nothing to
do it says that and exits with 0.

Does not ask the judge: ``doctor`` does. If nothing was mended the next call begins a new pause.
"""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand

from scoring.judge import pause

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Clear the pauses of the judges."""

    help = "End the pauses of the judges now, and make the rows that waited for them due."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The form of the answer."""
        parser.add_argument("--json", action="store_true", help="print what was done as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Clear and report."""
        tiers, rows = pause.resume(by=f"judge_resume of {_who()}")
        if options["json"]:
            self.stdout.write(json.dumps({"resumed": tiers, "rows_due": rows}))
        elif tiers:
            self.stdout.write(f"Resumed: {', '.join(tiers)}; {rows} rows are due.")
        else:
            self.stdout.write(f"No judge is paused; {rows} rows are due.")


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return "somebody"
