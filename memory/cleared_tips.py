"""Tips that a sweep retired and that the gate would let go now: what canaries, or corrections, showed.

Guarantees: reads only; a tip is listed when it has the evidence that the gate asks for and its credit is
not below it, by the arithmetic that convicted it (``memory.eviction_gate``); age, protection and cap are
not asked. Best first. :func:`cleared` asks the sums alone, :func:`described` reads the tips that are to
be shown, one query each, whatever the number of tips. :func:`cleared_tips` adds the visits since a tip
was retired (with none, a re-grading, a review or another gate cleared it) with one query more, which
reads the tips' retrievals since then: no page does. Brings nothing back: a person does, with the command
that stands beside each tip. Of a tip that a person retired it says nothing.

Shaped by: canaries that were shown for weeks, and a list of what they had shown that did not exist; and
a page that read the history and the texts of all such tips to show some of them.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from memory.eviction_gate import evidence_of, held_against, visits_since, with_policy
from memory.models import Tip
from memory.rates import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from contextgraph.skills import Eviction

REASON: Final = "its evidence clears the gate again"


def cleared(skill: str, gate: Eviction) -> list[dict[str, Any]]:
    """The figures of the swept tips of *skill* that *gate* would not catch, best first.

    Each has ``skill``, ``tip_id``, ``mean`` (plain mean credit per visit, in [-1, 1]) and ``visits``.

    Raises:
        UnknownPolicy: no such credit policy.
    """
    gate = with_policy(gate)
    swept = Tip.objects.filter(skill=skill, retired_sweep__isnull=False, retired_at__isnull=False)
    rows = evidence_of(skill, swept, gate).filter(visits__gte=gate.min_retrievals)
    found = [
        {
            "skill": skill,
            "tip_id": row["tip_id"],
            "mean": rounded(float(row["visit_total"]) / row["visits"]),
            "visits": row["visits"],
        }
        for row in rows
        if held_against(gate, row) is None
    ]
    return sorted(found, key=lambda one: (-one["mean"], one["tip_id"]))


def described(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of :func:`cleared` with what the tips' own rows say, in their order.

    Adds ``tip``, ``type``, ``text``, ``retired_at`` (of the database), ``sweep`` and ``command``. A tip
    that came back meanwhile, or was then retired by a person, is left out.
    """
    columns = ("skill", "external_id", "tip_type", "text", "retired_at", "retired_sweep")
    keys = [one["tip_id"] for one in found]
    swept = Tip.objects.filter(retired_sweep__isnull=False, retired_at__isnull=False)
    tips = swept.only(*columns).in_bulk(keys)
    return [
        one
        | {
            "tip": tip.external_id,
            "type": tip.tip_type,
            "text": tip.text,
            "retired_at": tip.retired_at,
            "sweep": tip.retired_sweep_id,
            "command": f"manage.py reactivate_tip {tip.pk} --reason {shlex.quote(REASON)}",
        }
        for one in found
        if (tip := tips.get(one["tip_id"]))
    ]


def cleared_tips(skill: str, gate: Eviction) -> list[dict[str, Any]]:
    """All of them, described, with ``visits_since``; plain data, ``retired_at`` in ISO 8601.

    Raises:
        UnknownPolicy: no such credit policy.
    """
    tips = described(cleared(skill, gate))
    since = visits_since({tip["tip_id"]: tip["retired_at"] for tip in tips})
    return [
        tip | {"visits_since": since[tip["tip_id"]], "retired_at": tip["retired_at"].isoformat()}
        for tip in tips
    ]
