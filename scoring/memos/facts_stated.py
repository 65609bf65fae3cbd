"""Whether a memo can state a fact at all.

Guarantees: a fact passes whose plainest statement ("label: figure [F1]") the gate lets pass when it
stands alone. It says nothing about a whole memo, in which the labels of other facts stand too.

Shaped by files that were read and whose facts no memo ever told: a Greek letter, markup or a currency
sign in a label.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scoring.memos.gate import check
from scoring.memos.render import rendered

if TYPE_CHECKING:
    from scoring.memos.facts import Fact, Snapshot


def unstatable(item: Fact, snapshot: Snapshot) -> str:
    """Return what the gate finds in the plainest statement of ``item``, "" if it lets it pass."""
    plain = replace(item, derived_from=(), formula=None)
    alone = replace(snapshot, facts=(plain,))
    report = check(f"- {item.label}: {rendered(item) or 'unknown'} [F1]", alone)
    return report.findings[0].message if report.findings else ""
