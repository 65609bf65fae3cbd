"""Two dreamed-of runs of one skill, by the real pipeline, about which memos can be written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contextgraph import pipeline
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from memory.models import Run, Tip

GOOD, BAD = 1.0, 0.0


@dataclass(frozen=True)
class World:
    """``bad`` was followed into failures, ``good`` into successes, ``lucky`` was never followed."""

    first: Run
    second: Run
    good: Tip
    bad: Tip
    lucky: Tip


def make_memo_world(skill: str = "stig", **names: str) -> World:
    """In the second run ``bad`` misleads at six rules of two categories; in the first at one."""
    tips = {
        kind: make_tip(
            skill=skill,
            external_id=names.get(kind, f"tip-{kind}"),
            text=f"Do it the {kind} way, 5 times",
        )
        for kind in ("good", "bad", "lucky")
    }
    first = make_run(skill=skill, external_id=names.get("first", "run-a"), status="finalizing")
    second = make_run(skill=skill, external_id=names.get("second", "run-b"), status="finalizing")
    for run, failures in ((first, 1), (second, 6)):
        for number in range(8):
            rule = f"rule_{number}"
            category = names.get("category", "ssh") if number % 2 else "audit"
            outcome = BAD if number < failures else GOOD
            attempt = make_attempt(run=run, rule_id=rule, category=category, outcome=outcome)
            followed = tips["bad"] if outcome == BAD else tips["good"]
            make_retrieval(attempt=attempt, tip=followed, rank=1, trace="followed")
            make_retrieval(attempt=attempt, tip=tips["lucky"], rank=2, trace="not_followed")
        make_attempt(run=run, rule_id="rule_x", category="audit", outcome=None)
        assert pipeline.finish(run.pk)
    return World(first, second, tips["good"], tips["bad"], tips["lucky"])


def values_of(snapshot: Any) -> dict[str, Any]:
    """The values of a snapshot by their labels."""
    return {item.label: item.value for item in snapshot.facts}
