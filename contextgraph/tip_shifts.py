"""What changed outcomes make of the tips: whose flag turned, whose credit changed its sign.

Guarantees: a run's sums are read before and after in the transaction that changed it, so that a dry run
and the real one tell the same; figures of a tip are those of all its runs, as in its record
(``memory.tip_record``). One query per run and side, memory for the tips that moved.

Does not see what the judge will say about rows that became judgeable.

Shaped by: a grader that was mended without anybody knowing which tips had lived off its mistake.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Sum

from memory.evidence_sql import SUMS
from memory.flags import Quadrants, flag_of
from memory.models import RunEvidence, Tip, TipEvidence
from memory.rates import rounded
from memory.tip_record import POLICY, PRESENT_POLICY

if TYPE_CHECKING:
    from decimal import Decimal

Key = tuple[int, str]
"""Tip and policy."""
Sums = dict[str, "Decimal | int"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Flip:
    """A tip that reads otherwise now. Credit: mean per visit under CREDIT_POLICY, None of no visit."""

    tip_id: int
    tip: str
    flag_before: str
    flag_after: str
    credit_before: float | None
    credit_after: float | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class TipShifts:
    """Collects the differences run by run."""

    def __init__(self) -> None:
        self._shift: defaultdict[Key, defaultdict[str, Any]] = defaultdict(lambda: defaultdict(int))

    def note(self, before: dict[Key, Sums], after: dict[Key, Sums]) -> None:
        """Of one run, as :func:`sums_of` gave them."""
        for key in before.keys() | after.keys():
            old, new = before.get(key, {}), after.get(key, {})
            for name in SUMS:
                if moved := new.get(name, 0) - old.get(name, 0):
                    self._shift[key][name] += moved

    @property
    def moved(self) -> int:
        """Tips with any sum that is another one."""
        return len({tip for tip, _ in self._shift})

    def under(self, policy: str) -> dict[int, Sums]:
        """The shift of each tip that moved, under one policy (``memory.eviction_gate.judge``)."""
        return {tip: dict(sums) for (tip, of), sums in self._shift.items() if of == policy}

    def flips(self, skill: str, *, stored: bool) -> list[Flip]:
        """The tips whose flag or sign of credit changed, largest change first.

        Args:
            stored: the changes are in TipEvidence already; False after a dry run.
        """
        tips = sorted({tip for tip, _ in self._shift})
        stored_rows = TipEvidence.objects.filter(
            skill=skill, level=TipEvidence.Level.TIP, key="", tip__in=tips
        )
        standing: dict[Key, Sums] = {
            (tip, policy): dict(zip(SUMS, sums, strict=True))
            for tip, policy, *sums in stored_rows.values_list("tip_id", "policy", *SUMS)
        }
        names = dict(Tip.objects.filter(pk__in=tips).values_list("pk", "external_id"))
        found = []
        for tip in tips:
            one = self._flip(tip, names[tip], standing, stored=stored)
            turned = _sign(one.credit_before) != _sign(one.credit_after)
            if turned or one.flag_before != one.flag_after:
                found.append(one)
        return sorted(found, key=lambda one: (-_distance(one), one.tip_id))

    def _side(self, tip: int, standing: dict[Key, Sums], steps: int) -> dict[str, Sums]:
        """The tip's sums per policy, that many shifts from what is stored."""
        side: dict[str, Sums] = {}
        for policy in _policies():
            stored = standing.get((tip, policy), {})
            shift: Sums = self._shift.get((tip, policy), {})
            side[policy] = {name: stored.get(name, 0) + steps * shift.get(name, 0) for name in SUMS}
        return side

    def _flip(self, tip: int, name: str, standing: dict[Key, Sums], *, stored: bool) -> Flip:
        # what is stored lies on one side, and the shift leads to the other
        before, after = (self._side(tip, standing, step - int(stored)) for step in (0, 1))
        return Flip(
            tip_id=tip,
            tip=name,
            flag_before=_flag(before),
            flag_after=_flag(after),
            credit_before=_credit(before),
            credit_after=_credit(after),
        )


def sums_of(run_id: int) -> dict[Key, Sums]:
    """The run's evidence per tip and policy, as it is stored now."""
    rows = RunEvidence.objects.filter(run_id=run_id)
    grouped = rows.order_by().values("tip_id", "policy")
    names = [f"sum_{name}" for name in SUMS]
    totals = grouped.annotate(**{f"sum_{name}": Sum(name) for name in SUMS})
    return {
        (tip, policy): dict(zip(SUMS, sums, strict=True))
        for tip, policy, *sums in totals.values_list("tip_id", "policy", *names)
    }


def _policies() -> set[str]:
    return {POLICY, PRESENT_POLICY, settings.CREDIT_POLICY}


def _flag(side: dict[str, Sums]) -> str:
    own = side[POLICY]
    counts = Quadrants(**{name: int(own[name]) for name in Quadrants._fields})
    visits, followed = int(side[PRESENT_POLICY]["visits"]), int(own["visits"])
    return str(flag_of(counts, visits=visits, followed_visits=followed))


def _credit(side: dict[str, Sums]) -> float | None:
    sums = side[settings.CREDIT_POLICY]
    return rounded(float(sums["visit_total"] / sums["visits"])) if sums["visits"] else None


def _sign(credit: float | None) -> int | None:
    return None if credit is None else (credit > 0) - (credit < 0)


def _distance(flip: Flip) -> float:
    return abs((flip.credit_after or 0.0) - (flip.credit_before or 0.0))
