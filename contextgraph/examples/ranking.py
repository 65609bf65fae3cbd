"""The ranker that chose the tips of the example runs: the old one, which credits every tip present.

Guarantees: deterministic; the five best tips of the rule's category, best first, by rule name, category,
past outcomes on the same rule and outcome at source. Tips born in the current run count half.

Does not guarantee: good advice. It believes each outcome of each tip that was in the prompt, followed or
not; that is the fault ADR-0019 describes, and the runs need it. The product's ranker is in ``memory``.

Shaped by: two tips that were ignored in a lucky attempt and led the list a month later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from contextgraph.examples.story import Rule, Tip

TOP = 5
"""Tips per attempt."""

CATEGORY_BONUS, HIT_WEIGHT, SOURCE_PRIOR, SAME_RUN = 0.30, 0.50, 0.15, 0.5


@dataclass(frozen=True, slots=True)
class KnownTip:
    """A tip in memory: where it was learnt, and how well that attempt had gone."""

    tip: Tip
    run_id: str
    value: float


@dataclass(slots=True)
class OutcomeOnlyMemory:
    """All tips learnt so far, and every outcome that stood beside one of them."""

    tips: dict[int, KnownTip] = field(default_factory=dict)
    outcomes: dict[tuple[int, str], list[float]] = field(default_factory=dict)

    def learn(self, tip: Tip, *, run_id: str, value: float) -> None:
        """Add a tip. *value* is the outcome of the attempt that taught it."""
        self.tips[tip.id] = KnownTip(tip, run_id, value)

    def credit(self, tips: Iterable[int], *, rule: str, value: float) -> None:
        """Give the outcome to every tip that was in the prompt."""
        for tip in tips:
            self.outcomes.setdefault((tip, rule), []).append(value)

    def best(self, rule: Rule, *, run_id: str) -> list[tuple[KnownTip, float]]:
        """At most :data:`TOP` tips with their composite score, best first, ties by id."""
        scored = [
            (known, self._score(known, rule, run_id=run_id))
            for known in self.tips.values()
            if known.tip.category == rule.category
        ]
        scored.sort(key=lambda pair: (-pair[1], pair[0].tip.id))
        return scored[:TOP]

    def _score(self, known: KnownTip, rule: Rule, *, run_id: str) -> float:
        seen = self.outcomes.get((known.tip.id, rule.id), [])
        hit_rate = sum(seen) / len(seen) if seen else 0.0
        score = (
            _shared_prefix(known.tip.rule, rule.id)
            + CATEGORY_BONUS
            + HIT_WEIGHT * hit_rate
            + SOURCE_PRIOR * known.value
        )
        return round(score * (SAME_RUN if known.run_id == run_id else 1.0), 4)


def _shared_prefix(one: str, other: str) -> float:
    """Leading words that two rule ids share, over the words of the longer one."""
    left, right = one.split("_"), other.split("_")
    shared = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        shared += 1
    return shared / max(len(left), len(right))
