"""``manage.py replay_rejected [ID…]``: put rejected messages through intake again.

Guarantees: the same handling as in the consumer; a message that goes through is marked resolved, one
that fails again keeps its bytes and gets the new reason. ``--dry-run`` does all of it and rolls back.
Exit status 1 when a message still fails.

Does not delete anything.

Shaped by: refused runs that were good ones, sent before their skill's settings were mended.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from contextgraph.consumer import announce_dispatch
from contextgraph.models import RejectedMessage
from contextgraph.rejected import Replay, replay, waiting
from memory.terminal import visible

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """See the module's description."""

    help = "Put rejected messages through intake again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare which messages."""
        parser.add_argument("ids", nargs="*", type=int, metavar="ID", help="default: all that wait")
        parser.add_argument("--reason", choices=RejectedMessage.Reason.values, default="")
        parser.add_argument("--dry-run", action="store_true", help="try, store nothing")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Replay, oldest first."""
        rows = waiting(ids=options["ids"], reason=options["reason"])
        missing = set(options["ids"]) - set(rows.values_list("pk", flat=True))
        if missing:
            named = ", ".join(map(str, sorted(missing)))
            msg = f"no such message waits: {named} (resolved already, or another reason)"
            raise CommandError(msg)
        outcomes: list[Replay] = []
        for outcome in replay(rows, dry_run=options["dry_run"], announce=announce_dispatch):
            outcomes.append(outcome)
            if not options["json"]:
                self._print(outcome, dry_run=options["dry_run"])
        failed = sum(not outcome.ok for outcome in outcomes)
        if options["json"]:
            self.stdout.write(
                json.dumps(
                    {
                        "dry_run": options["dry_run"],
                        "messages": [asdict(outcome) for outcome in outcomes],
                    }
                )
            )
        else:
            self.stdout.write(f"{len(outcomes) - failed} of {len(outcomes)} messages went through")
        if failed:
            msg = f"{failed} of {len(outcomes)} messages still fail"
            raise CommandError(msg)

    def _print(self, outcome: Replay, *, dry_run: bool) -> None:
        if not outcome.ok:
            detail = visible(outcome.detail, limit=500)
            self.stdout.write(self.style.ERROR(f"{outcome.id}: {outcome.reason}: {detail}"))
            return
        runs = ", ".join(map(str, outcome.run_ids)) or "no run yet"
        verb = "would go through" if dry_run else "went through"
        self.stdout.write(self.style.SUCCESS(f"{outcome.id}: {verb} (runs: {runs})"))
