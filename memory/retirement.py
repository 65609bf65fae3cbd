"""The one door through which a tip leaves the active pool, and the one through which it comes back.

Guarantees: tips are locked (``memory.locks``) before they are looked at, so that of two callers
one retires a tip and the other learns that it is retired already; every change of a tip is appended to
TipChange in the same transaction, with reason, author and sweep; a tip that comes back has the columns
of one that never left. The lock lets retrievals of the tip be written meanwhile. Does not delete, and
does not touch evidence: a tip that comes back ranks as its rows say.

Shaped by: an undo typed by hand as ``UPDATE tips SET retired_at = NULL WHERE retired_at > …``, which
gave back tips that other people had retired that evening.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from memory.locks import held
from memory.models import Tip, TipChange
from memory.querysets import can_be_stored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from memory.models import EvictionSweep
    from memory.querysets import TipQuerySet

AUTHOR_LENGTH: Final = 150
BATCH: Final = 500
"""Rows per INSERT."""

_RETIRE: Final = """
    UPDATE tips SET retired_at = %s, retired_sweep_id = %s, retired_reason = said.reason
    FROM unnest(%s::bigint[], %s::text[]) AS said (tip_id, reason) WHERE tips.id = said.tip_id"""
"""One statement for thousands of tips, each with a reason of its own; the ORM's takes half a minute."""


class RetirementError(Exception):
    """A tip cannot be retired or brought back; names the tip and the cause."""


class UnknownTip(RetirementError):
    """No tip has this key. Never answered with another tip."""


class AlreadyRetired(RetirementError):
    """The tip has left the pool before; says since when and why."""


class NotRetired(RetirementError):
    """The tip is in the active pool."""


def tip_named(key: str) -> Tip:
    """The tip whose ``skill/external id`` or primary key is *key*; either part may hold slashes.

    Raises:
        UnknownTip: there is none, or more than one.
    """
    cuts = [at for at, char in enumerate(key) if char == "/"]
    found: list[Tip] = []
    if cuts and can_be_stored(key):
        names = Q(pk__in=[])
        for at in cuts:
            names |= Q(skill=key[:at], external_id=key[at + 1 :])
        found = list(Tip.objects.filter(names)[:2])
    elif key.isascii() and key.isdigit() and len(key) < 19:
        found = list(Tip.objects.filter(pk=int(key)))
    if len(found) > 1:
        msg = f"{key!r} names more than one tip: give the primary key"
        raise UnknownTip(msg)
    if not found:
        msg = f"no tip {key!r}: it is named SKILL/TIP or by its primary key"
        raise UnknownTip(msg)
    return found[0]


def retire(tip_id: int, *, reason: str, by: str, sweep: EvictionSweep | None = None) -> Tip:
    """Retire one tip; returns it as it is now.

    A person may retire a protected tip: protection is from sweeps.

    Raises:
        UnknownTip, AlreadyRetired: nothing was changed.
        RetirementError: the reason or the author is empty, too long, or cannot be stored.
    """
    with transaction.atomic():
        if not retire_all({tip_id: reason}, by=by, at=timezone.now(), sweep=sweep):
            tip = _existing(tip_id)
            msg = (
                f"tip {tip} (primary key {tip.pk}) is retired since {tip.retired_at}: "
                f"{tip.retired_reason}"
            )
            raise AlreadyRetired(msg)
        return _existing(tip_id)


def reactivate(tip_id: int, *, reason: str, by: str) -> Tip:
    """Bring one tip back, whoever retired it; returns it as it is now.

    Raises:
        UnknownTip, NotRetired: nothing was changed.
        RetirementError: the reason or the author is empty, too long, or cannot be stored.
    """
    retired = Tip.objects.filter(pk=tip_id, retired_at__isnull=False)
    with transaction.atomic():
        if not reactivate_all(retired, reason=reason, by=by, at=timezone.now()):
            tip = _existing(tip_id)
            msg = f"tip {tip} (primary key {tip.pk}) is not retired"
            raise NotRetired(msg)
        return _existing(tip_id)


def retire_all(
    reasons: Mapping[int, str],
    *,
    by: str,
    at: datetime,
    sweep: EvictionSweep | None = None,
    among: Callable[[TipQuerySet], TipQuerySet] | None = None,
) -> list[int]:
    """Retire those of the tips (primary key -> reason) that are active; returns their keys, ascending.

    ``among`` narrows the choice further; it is asked again of the locked rows.

    Raises:
        RetirementError: a reason or the author is empty, too long, or cannot be stored.
    """
    by = checked_author(by)
    reasons = {tip_id: checked_reason(reason) for tip_id, reason in reasons.items()}
    with transaction.atomic():
        wanted = Tip.objects.active().filter(pk__in=list(reasons))
        found = [tip.pk for tip in held((among(wanted) if among else wanted).only("pk"))]
        changed = {tip_id: reasons[tip_id] for tip_id in found}
        with connection.cursor() as cursor:
            cursor.execute(
                _RETIRE, [at, sweep.pk if sweep else None, found, list(changed.values())]
            )
        _append(changed, action=TipChange.Action.RETIRE, by=by, at=at, sweep=sweep)
    return found


def reactivate_all(
    retired: TipQuerySet,
    *,
    reason: str,
    by: str,
    at: datetime,
    sweep: EvictionSweep | None = None,
) -> list[int]:
    """Bring back those of *retired* that are still so under the lock; returns their keys, ascending.

    ``sweep``: the one that is being undone.

    Raises:
        RetirementError: the reason or the author is empty, too long, or cannot be stored.
    """
    by, reason = checked_author(by), checked_reason(reason)
    with transaction.atomic():
        found = [tip.pk for tip in held(retired.filter(retired_at__isnull=False).only("pk"))]
        Tip.objects.filter(pk__in=found).update(
            retired_at=None, retired_reason="", retired_sweep=None
        )
        changed = dict.fromkeys(found, reason)
        _append(changed, action=TipChange.Action.REACTIVATE, by=by, at=at, sweep=sweep)
    return found


def checked_author(by: str) -> str:
    """*by* without surrounding blanks. Raises RetirementError when nobody, or not to be stored."""
    name = by.strip()
    if not name or len(name) > AUTHOR_LENGTH or not can_be_stored(name):
        msg = f"{by!r} names nobody: give an author of 1 to {AUTHOR_LENGTH} characters"
        raise RetirementError(msg)
    return name


def checked_reason(reason: str) -> str:
    """*reason* without surrounding blanks. Raises RetirementError when empty or not to be stored."""
    text = reason.strip()
    if not text or not can_be_stored(text):
        msg = f"{reason!r} is no reason: say in words why"
        raise RetirementError(msg)
    return text


def _existing(tip_id: int) -> Tip:
    tip = Tip.objects.filter(pk=tip_id).first()
    if tip is None:
        msg = f"no tip has the primary key {tip_id}"
        raise UnknownTip(msg)
    return tip


def _append(
    changed: Mapping[int, str],
    *,
    action: TipChange.Action,
    by: str,
    at: datetime,
    sweep: EvictionSweep | None,
) -> None:
    TipChange.objects.bulk_create(
        (
            TipChange(tip_id=tip_id, action=action, reason=reason, by=by, at=at, sweep=sweep)
            for tip_id, reason in changed.items()
        ),
        batch_size=BATCH,
    )
