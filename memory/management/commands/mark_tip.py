"""``mark_tip SKILL/TIP --protect|--unprotect|--exempt|--include --reason TEXT``.

Guarantees: the change is written down with its reason and author (``memory.standing``); an unknown tip,
or one that has this standing already, is an error with exit code 1. Protected: no sweep retires it, a
person may. Exempt: the hold-out's coin never withholds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory.management.tip_change import TipChangeCommand
from memory.standing import COLUMN, Action, mark

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from memory.models import Tip


class Command(TipChangeCommand):
    """Give one tip another standing."""

    help = "Protect a tip from sweeps, or exempt it from the hold-out, with a reason."
    done = "marked"
    action: Action

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One standing, beside what every change of a tip needs."""
        super().add_arguments(parser)
        one = parser.add_mutually_exclusive_group(required=True)
        for action in COLUMN:
            one.add_argument(
                f"--{action}", dest="action", action="store_const", const=action, help=action.label
            )

    def handle(self, *args: Any, **options: Any) -> None:
        """Remember which standing, then as any change of a tip."""
        self.action = options["action"]
        self.done = str(self.action.label)
        super().handle(*args, **options)

    def change(self, tip: Tip, *, reason: str, by: str) -> Tip:
        """Through the one door."""
        return mark(tip.pk, self.action, reason=reason, by=by)
