"""``retire_tip SKILL/TIP --reason TEXT``: take one tip out of the active pool by hand.

Guarantees: the change is written down with its reason and author; a tip that there is not, or that is
retired already, is an error with exit code 1 and nothing is changed. The tip and its rows stay, and
``reactivate_tip`` brings it back. A protected tip can be retired: protection is from sweeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory.management.tip_change import TipChangeCommand
from memory.retirement import retire

if TYPE_CHECKING:
    from memory.models import Tip


class Command(TipChangeCommand):
    """Retire one tip."""

    help = "Retire one tip by hand, with a reason."
    done = "retired"

    def change(self, tip: Tip, *, reason: str, by: str) -> Tip:
        """Through the one door."""
        return retire(tip.pk, reason=reason, by=by)
