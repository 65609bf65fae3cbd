"""Which facts a memo leaves out.

Guarantees: what counts as told is a figure that the gate has found right, or a name; a citation with no
figure is only a mention, so that a list of citations at the end tells nothing. What is material is
data on the fact, never a list of labels. It is a signal: nothing here refuses a memo.

Source: ADR-0006; its original counted a fact as covered when its id stood anywhere in the memo.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from scoring.memos.units import Measure

if TYPE_CHECKING:
    from scoring.memos.facts import Fact, Snapshot
    from scoring.memos.gate_report import GateReport


@dataclass(frozen=True, slots=True)
class Completeness:
    """What a memo tells of its facts. Shares are 0 to 1, and 1 of nothing.

    ``told``: stated with a right figure; ``mentioned``: cited without one; ``omitted``: neither.
    ``material_omissions`` are the material facts that are not told. All in the order of citations.
    """

    told: tuple[Fact, ...]
    mentioned: tuple[Fact, ...]
    omitted: tuple[Fact, ...]
    material_omissions: tuple[Fact, ...]
    coverage: Decimal
    material_coverage: Decimal


def completeness(report: GateReport, snapshot: Snapshot) -> Completeness:
    """Return what the memo of ``report`` leaves out of ``snapshot``, the snapshot it was checked with.

    A fact whose value is not known, and a fact that is a name, are told when they are cited.
    """
    stated = {sourced.fact_id for sourced in report.sourced}
    told, mentioned, omitted = [], [], []
    for item in snapshot.by_citation.values():
        no_figure = item.value is None or item.measure is Measure.NAME
        if item.id in stated or (no_figure and item.id in report.cited):
            told.append(item)
        elif item.id in report.cited:
            mentioned.append(item)
        else:
            omitted.append(item)
    material = [item for item in snapshot.by_citation.values() if item.is_material]
    missing = tuple(item for item in material if item not in told)
    return Completeness(
        tuple(told), tuple(mentioned), tuple(omitted), missing,
        _share(len(told), len(snapshot.facts)), _share(len(material) - len(missing), len(material)),
    )  # fmt: skip


def _share(part: int, whole: int) -> Decimal:
    return Decimal(part) / whole if whole else Decimal(1)
