"""Tips that a sweep retired and that the gate would let go now: what canaries, or corrections, showed.

Guarantees: reads only; a tip is listed when it has the evidence that the gate asks for and its credit is
not below it, by the arithmetic that convicted it (``memory.eviction_gate``); age, protection and cap are
not asked. Best first. Each comes with the visits since it was retired: with none, a re-grading, a review
or another gate cleared it. Three queries, whatever the number of tips. Brings nothing back: a person
does, with the command that stands beside each tip. Of a tip that a person retired it says nothing.

Shaped by: canaries that were shown for weeks, and a list of what they had shown that did not exist.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from memory.eviction_gate import evidence_of, held_against, visits_since, with_policy
from memory.models import Tip
from memory.rates import rounded

if TYPE_CHECKING:
    from contextgraph.skills import Eviction

REASON = "its evidence clears the gate again"


def cleared_tips(skill: str, gate: Eviction) -> list[dict[str, Any]]:
    """The swept tips of *skill* that *gate* would not catch, as plain data.

    Each has ``tip_id``, ``tip``, ``type``, ``text``, ``mean`` (plain mean credit per visit, in [-1, 1]),
    ``visits``, ``visits_since``, ``retired_at`` (ISO 8601), ``sweep`` and ``command``.

    Raises:
        UnknownPolicy: no such credit policy.
    """
    gate = with_policy(gate)
    swept = Tip.objects.filter(skill=skill, retired_sweep__isnull=False, retired_at__isnull=False)
    rows = evidence_of(skill, swept, gate).filter(visits__gte=gate.min_retrievals)
    cleared = {row["tip_id"]: row for row in rows if held_against(gate, row) is None}
    if not cleared:
        return []
    columns = ("skill", "external_id", "tip_type", "text", "retired_at", "retired_sweep")
    tips = Tip.objects.only(*columns).in_bulk(list(cleared))
    since = visits_since({tip.pk: tip.retired_at for tip in tips.values() if tip.retired_at})
    found = [
        {
            "tip_id": tip.pk,
            "tip": tip.external_id,
            "type": tip.tip_type,
            "text": tip.text,
            "mean": rounded(float(cleared[tip.pk]["visit_total"]) / cleared[tip.pk]["visits"]),
            "visits": cleared[tip.pk]["visits"],
            "visits_since": since[tip.pk],
            "retired_at": tip.retired_at.isoformat() if tip.retired_at else None,
            "sweep": tip.retired_sweep_id,
            "command": f"manage.py reactivate_tip {tip.pk} --reason {shlex.quote(REASON)}",
        }
        for tip in tips.values()
    ]
    return sorted(found, key=lambda one: (-one["mean"], one["tip_id"]))
