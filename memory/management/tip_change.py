"""What ``retire_tip`` and ``reactivate_tip`` share: which tip, why, by whom, and what came of it.

Guarantees: one tip, found before anything changes; ``--dry-run`` does it and rolls back; errors end with
exit code 1 and name the tip; what is printed cannot steer the terminal.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from memory.management.arguments import add_author, author_of
from memory.retirement import RetirementError, tip_named
from memory.terminal import visible

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from memory.models import Tip


class TipChangeCommand(BaseCommand):
    """Change whether one tip is in the active pool. ``done``: what it is afterwards."""

    done: str

    @abstractmethod
    def change(self, tip: Tip, *, reason: str, by: str) -> Tip:
        """Do it; returns the tip as it is now. Raises RetirementError."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which tip, and why."""
        parser.add_argument("tip", metavar="SKILL/TIP", help="or the tip's primary key")
        parser.add_argument("--reason", required=True, metavar="TEXT", help="is kept with the tip")
        add_author(parser)
        parser.add_argument("--dry-run", action="store_true", help="change nothing")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Find the tip, change it, say so."""
        by = author_of(options)
        try:
            with transaction.atomic():
                tip = self.change(tip_named(options["tip"]), reason=options["reason"], by=by)
                transaction.set_rollback(options["dry_run"])
        except RetirementError as error:
            raise CommandError(visible(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(self._data(tip, options)))
            return
        would = "would be" if options["dry_run"] else "is"
        name = visible(f"{tip} (primary key {tip.pk})")
        self.stdout.write(f"{name} {would} {self.done}: {visible(tip.text, limit=100)}")

    def _data(self, tip: Tip, options: dict[str, Any]) -> dict[str, Any]:
        return {
            "dry_run": options["dry_run"],
            "tip_id": tip.pk,
            "skill": tip.skill,
            "tip": tip.external_id,
            "retired_at": tip.retired_at.isoformat() if tip.retired_at else None,
            "retired_reason": tip.retired_reason,
        }
