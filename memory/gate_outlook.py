"""Whom a skill's gate would catch now: told after work that moved the evidence and itself retires nobody.

Guarantees: reads only; what is named is what ``manage.py sweep SKILL`` would find, worst first, those
over the cap included; with a shift it is what that command would find once the shift had happened, so
that a dry run can tell. A gate that cannot be used is told and never raised: the work that is reported on
is done.

Shaped by: a re-grading that was to change figures, and retired fifteen tips without a word.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from django.utils import timezone

from contextgraph.skills import SkillError
from memory.audit.scope import ScopeError
from memory.credit import UnknownPolicy
from memory.eviction_gate import GateError, gate_of, judge
from memory.models import Tip
from memory.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory.eviction_gate import Shift

NAMED: Final = 10
"""Tips that the line for people names; the plain data has all."""


def gate_outlook(skill: str, *, shift: Callable[[str], Shift] | None = None) -> dict[str, Any]:
    """Who would be caught, as plain data.

    Args:
        skill: whose tips and gate.
        shift: of a policy, the sums that a change would move; None where they are as stored.

    Returns:
        ``skill``, ``caught`` and ``over_cap`` (numbers of tips), ``tips`` (each with its key, ``cause``,
        shrunk ``mean``, ``visits`` and ``over_cap``), and ``error``, why there is nothing of these.
    """
    told = {"skill": skill, "caught": 0, "over_cap": 0, "tips": [], "error": ""}
    try:
        gate = gate_of(skill)
        moved = shift(gate.policy) if shift else None
        caught = judge(skill, gate, now=timezone.now(), shift=moved).caught
    except (GateError, UnknownPolicy, SkillError, ScopeError) as error:
        return told | {"error": str(error)}
    names = Tip.objects.only("external_id").in_bulk([one.tip_id for one in caught])
    return told | {
        "caught": len(caught),
        "over_cap": sum(one.over_cap for one in caught),
        "tips": [
            {
                "tip_id": one.tip_id,
                "tip": names[one.tip_id].external_id,
                "cause": one.cause,
                "mean": one.mean,
                "visits": one.visits,
                "over_cap": one.over_cap,
            }
            for one in caught
        ],
    }


def outlook_line(told: dict[str, Any]) -> str:
    """The same in a sentence for people, safe to print; empty when nobody would be caught."""
    if told["error"]:
        return visible(f"the gate of {told['skill']} cannot be used: {told['error']}", limit=500)
    if not told["caught"]:
        return ""
    skill, tips = told["skill"], "1 tip" if told["caught"] == 1 else f"{told['caught']} tips"
    over = f" ({told['over_cap']} over the cap)" if told["over_cap"] else ""
    names = ", ".join(visible(one["tip"], limit=60) for one in told["tips"][:NAMED])
    more = f" and {told['caught'] - NAMED} more" if told["caught"] > NAMED else ""
    return (
        f"{tips} of {visible(skill, limit=200)} would be caught{over}: {names}{more}. "
        f"To look and decide: manage.py sweep {visible(shlex.quote(skill), limit=200)}"
    )
