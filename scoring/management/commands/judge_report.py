"""``manage.py judge_report [--skill S] [--since DAY] [--json]``: what judging cost and brought.

Guarantees: reads only; sums what ``show_run`` shows per run; models without a price are named, and
their cost is unknown, not zero. JSON is complete and ASCII. A skill without a run, or a date that is
none, is an error that names it.

Does not say whether the judge is right: ``calibrate_judge`` does.

Shaped by a bill that nobody could trace to a model or a month.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from memory.models import Run
from memory.terminal import plain, print_all
from scoring.judge.accounting import totals
from scoring.judge.accounting_text import lines
from scoring.management.commands.agreement_report import day

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Print the account of the judges."""

    help = (
        "Calls, tokens, seconds, cache hits, escalations, retries, errors and cost of the judges."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which calls, in which form."""
        parser.add_argument("--skill", help="only runs of this skill")
        parser.add_argument(
            "--since", type=day, metavar="YYYY-MM-DD", help="only calls from this day on (UTC)"
        )
        parser.add_argument("--json", action="store_true", help="everything, as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Count and print."""
        skill = options["skill"]
        if skill is not None and not Run.objects.filter(skill=skill).exists():
            raise CommandError(f"no run has the skill {skill!r}")
        found = totals(skill=skill, since=options["since"])
        if options["json"]:
            self.stdout.write(json.dumps(found.as_dict() | {"unpriced": found.unpriced}, indent=2))
            return
        shown = list(lines(found))
        if found.unpriced:
            shown.append(f"without a price in JUDGE_PRICES: {', '.join(found.unpriced)}")
        print_all(self.stdout, [plain(line, limit=1_000) for line in shown])
