"""``manage.py agreement_report``: how often embedding and trace agree with the judge, and what the
judge is still needed for (ADR-0019's exit criterion).

Guarantees: reads only; says in words whether the criterion is met, per skill; JSON is complete and
ASCII. The exit code is 0 whatever the answer is: a criterion that is not met is no failure. A skill
without a row, a date or a threshold that make no sense are errors that name it.

Does not drop the judge: a person decides that.

Shaped by an exit criterion that nobody could check.
"""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from memory.models import Retrieval
from memory.terminal import print_all
from scoring.exit_criterion import THRESHOLD, exit_report
from scoring.exit_criterion_text import render

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Print agreement by skill and month, and the cost of dropping the judge."""

    help = "Agreement of embedding and trace with the judge, and what dropping it would cost."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which rows, which threshold, which form."""
        parser.add_argument("--skill", help="only rows of this skill")
        parser.add_argument(
            "--since", type=day, metavar="YYYY-MM-DD", help="only retrievals from this day on (UTC)"
        )
        parser.add_argument(
            "--threshold",
            type=share,
            default=THRESHOLD,
            help="agreement that the criterion asks for (default: %(default)s)",
        )
        parser.add_argument("--json", action="store_true", help="the whole report as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compute and print."""
        skill = options["skill"]
        if skill is not None and not Retrieval.objects.filter(skill=skill).exists():
            raise CommandError(f"no retrieval has the skill {skill!r}")
        report = exit_report(skill=skill, since=options["since"], threshold=options["threshold"])
        if options["json"]:
            self.stdout.write(json.dumps(report.as_dict(), indent=2))
        else:
            print_all(self.stdout, render(report))


def day(text: str) -> datetime:
    """Midnight (UTC) of an ISO date."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no date like 2026-03-01") from None


def share(text: str) -> float:
    """A number from 0 up to, but not including, 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < 1.0:
        raise ArgumentTypeError(f"{text!r} is no share like 0.95")
    return number
