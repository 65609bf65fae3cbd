"""``reactivate_tip SKILL/TIP --reason TEXT``: bring one retired tip back, whoever retired it.

Guarantees: the change is written down with its reason and author; a tip that there is not, or that is
active, is an error with exit code 1 and nothing is changed. Its evidence is as it was: an automatic
sweep leaves it alone until it has been tested again, a sweep that a person asks for does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory.management.tip_change import TipChangeCommand
from memory.retirement import reactivate

if TYPE_CHECKING:
    from memory.models import Tip


class Command(TipChangeCommand):
    """Bring one tip back."""

    help = "Bring a retired tip back, with a reason."
    done = "active again"

    def change(self, tip: Tip, *, reason: str, by: str) -> Tip:
        """Through the one door."""
        return reactivate(tip.pk, reason=reason, by=by)
