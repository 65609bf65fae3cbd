"""What people decide about a tip beside retiring it: protected from sweeps, exempt from the hold-out.

Guarantees: the tip is locked while it changes; each change is appended to TipChange with its reason and
author; asking for what is already so is an error, so that nobody believes to have changed it. Retires
nothing: ``memory.retirement`` does.

Shaped by: columns that only SQL could set, without a word on who had set them (issue 4, items 3 and 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.db import transaction
from django.utils import timezone

from memory.locks import held
from memory.models import Tip, TipChange
from memory.retirement import RetirementError, UnknownTip, checked_author, checked_reason

if TYPE_CHECKING:
    from collections.abc import Mapping

Action = TipChange.Action

COLUMN: Final[Mapping[Action, tuple[str, bool]]] = {
    Action.PROTECT: ("protected", True),
    Action.UNPROTECT: ("protected", False),
    Action.EXEMPT: ("holdout_exempt", True),
    Action.INCLUDE: ("holdout_exempt", False),
}


class AlreadyMarked(RetirementError):
    """The tip has this standing before; names it."""


def mark(tip_id: int, action: Action, *, reason: str, by: str) -> Tip:
    """Give the tip another standing; returns it as it is now.

    Raises:
        UnknownTip, AlreadyMarked: nothing was changed.
        RetirementError: the reason or the author is empty, too long, or cannot be stored.
        KeyError: *action* is not one of COLUMN.
    """
    column, value = COLUMN[action]
    by, reason = checked_author(by), checked_reason(reason)
    with transaction.atomic():
        tip = held(Tip.objects.filter(pk=tip_id)).first()
        if tip is None:
            msg = f"no tip has the primary key {tip_id}"
            raise UnknownTip(msg)
        if getattr(tip, column) is value:
            msg = f"tip {tip} (primary key {tip.pk}) is {action.label} already"
            raise AlreadyMarked(msg)
        Tip.objects.filter(pk=tip_id).update(**{column: value})
        TipChange.objects.create(tip=tip, action=action, reason=reason, by=by, at=timezone.now())
        setattr(tip, column, value)
    return tip
