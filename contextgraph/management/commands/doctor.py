"""``manage.py doctor``: one line per part; exit code 1 when the main job cannot run."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand

from contextgraph import doctor

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Examine and print."""

    help = "Check database, migrations, broker, workers, model, judge and disk; say how to mend."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print the findings; exit 1 on an error."""
        found = doctor.examine()
        broken = [finding for finding in found if finding.state == doctor.ERROR]
        if options["json"]:
            parts = [finding.as_dict() for finding in found]
            self.stdout.write(json.dumps({"ok": not broken, "parts": parts}))
        else:
            style = {
                doctor.OK: self.style.SUCCESS,
                doctor.WARNING: self.style.WARNING,
                doctor.ERROR: self.style.ERROR,
            }
            for finding in found:
                state = style[finding.state](f"{finding.state:<8}")
                mend = f"  -> {finding.mend}" if finding.mend else ""
                self.stdout.write(f"{state} {finding.part:<20} {finding.detail}{mend}")
        if broken:
            sys.exit(1)
