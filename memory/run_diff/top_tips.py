"""The first k tips of each rule in a run, and what changed between two such lists.

Guarantees: the tips of the FIRST attempt of a rule, by rank, whether they were shown or not; retries
repeat them, so that counting all attempts would only weigh hard rules more. At most k tips per rule are
kept in memory whatever a sender logged. "Moved" compares the ranks as stored.

One query per run, served by the index on (run, id); reads no text.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory.models import Retrieval, Tip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from memory.models import Run
    from memory.run_diff.results import Results


class TipChange(enum.StrEnum):
    """What became of a tip between the top k of A and that of B."""

    SAME = "same"
    MOVED = "moved"
    NEW = "new"
    GONE = "gone"


TopTips = dict[int, int]
"""The tips of one attempt: rank by primary key, best first."""


def top_tips(run: Run, results: Results, *, k: int) -> dict[str, TopTips]:
    """Per rule of *run* the first *k* tips of its first attempt; a rule without any is absent."""
    rule_of = {rule.attempt_ids[0]: rule.rule_id for rule in results.values()}
    rows = (
        Retrieval.objects.filter(run=run)
        .order_by("attempt_id", "rank", "pk")
        .values_list("attempt_id", "tip_id", "rank")
    )
    found: dict[str, TopTips] = {}
    for attempt_id, tip_id, rank in rows.iterator():
        if attempt_id in rule_of:
            kept = found.setdefault(rule_of[attempt_id], {})
            if len(kept) < k:
                kept[tip_id] = rank
    return found


def tip_changes(a: Mapping[int, int], b: Mapping[int, int]) -> dict[int, TipChange]:
    """Every tip of either list: those of B by rank, then those that are gone, by their rank in A."""
    changes = {}
    for tip_id, rank in b.items():
        if tip_id not in a:
            changes[tip_id] = TipChange.NEW
        else:
            changes[tip_id] = TipChange.SAME if a[tip_id] == rank else TipChange.MOVED
    gone = {tip_id: TipChange.GONE for tip_id in a if tip_id not in b}
    return changes | gone


@dataclass(frozen=True, kw_only=True, slots=True)
class TipTurnover:
    """Top k of A against top k of B, over the rules of both.

    The first three count rules. ``moved``, ``new`` and ``gone`` count (rule, tip) pairs;
    ``a_tips`` and ``b_tips`` are different tips, ``retired`` those of A that are retired now.
    """

    rules: int
    same_list: int
    same_tips_reordered: int
    moved: int
    new: int
    gone: int
    a_tips: int
    b_tips: int
    retired: int


def turnover(
    a: Mapping[str, TopTips], b: Mapping[str, TopTips], rules: Iterable[str]
) -> TipTurnover:
    """Sum up the changes of *rules*; one query, for the tips of A that are retired."""
    counts = dict.fromkeys(TipChange, 0)
    compared = same_list = reordered = 0
    tips_a: set[int] = set()
    tips_b: set[int] = set()
    for rule_id in rules:
        one, two = a.get(rule_id, {}), b.get(rule_id, {})
        changes = list(tip_changes(one, two).values())
        compared += 1
        same_list += set(changes) <= {TipChange.SAME}
        reordered += one.keys() == two.keys() and TipChange.MOVED in changes
        for change in changes:
            counts[change] += 1
        tips_a |= one.keys()
        tips_b |= two.keys()
    return TipTurnover(
        rules=compared,
        same_list=same_list,
        same_tips_reordered=reordered,
        moved=counts[TipChange.MOVED],
        new=counts[TipChange.NEW],
        gone=counts[TipChange.GONE],
        a_tips=len(tips_a),
        b_tips=len(tips_b),
        retired=Tip.objects.filter(pk__in=tips_a, retired_at__isnull=False).count(),
    )
