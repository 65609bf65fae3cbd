"""``manage.py judge_resume``: ask a paused judge again now, after its key, model or bill was mended.

Guarantees: every open pause is cleared, with a mark of who did it, and the rows that waited for the
judge are due at once, with those that it had refused since its last answer before the pause; the next
sweep of the reaper asks about them. Says what it did; with nothing to do it says that and exits with 0.

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
        done = pause.resume(by=f"judge_resume of {_who()}")
        if options["json"]:
            said = {"resumed": done.tiers, "rows_due": done.due, "of_them_refused": done.refused}
            self.stdout.write(json.dumps(said))
            return
        began = f"Resumed: {', '.join(done.tiers)}" if done.tiers else "No judge is paused"
        refused = f", {done.refused} of them refused before" if done.refused else ""
        self.stdout.write(f"{began}; {done.due} rows are due{refused}.")


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return "somebody"
