"""The live suite: one pass against a debate, on the same frozen snapshots, written and judged by a model.

Guarantees: no cache is read or written; both arms see the very same facts, turn and turn about; a text
that did not come (the writer had to step in) counts 0 in every dimension, never as the writer's good
grade; where the server was away, or the judge gave no checklist, that is an error: it is counted, and
left out of every mean, share and pair. Differences are per snapshot, with 95 % percentile intervals of
a seeded bootstrap over whole snapshots; below MIN_SNAPSHOTS pairs there is no interval.

It does not say that the judge is right; judge and writer may be one model. Source: issue 5 (item 8); the
original measured its two arms on data fetched twice.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from scoring.memos.eval_suites import COMPOSITE, PLACES, grades, scored
from scoring.memos.memo_judge import judge_memo
from scoring.memos.rubric import Dimension
from scoring.memos.synthesis import synthesise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scoring.judge.bench import Bench
    from scoring.memos.drafting import Draft, Variant
    from scoring.memos.eval_data import EvalData
    from scoring.memos.facts import Snapshot
    from scoring.memos.memo_judge import MemoVerdict

ARMS: Final[tuple[Variant, ...]] = ("single", "debate")
MEASURES: Final = (*(str(name) for name in Dimension), COMPOSITE)
MIN_SNAPSHOTS: Final = 5
RESAMPLES: Final = 2_000
SEED: Final = 19


@dataclass(frozen=True, slots=True)
class LiveCase:
    """One memo by one arm. ``grades`` are empty after an error; ``own``: the model wrote it."""

    snapshot: str
    arm: str
    repeat: int
    own: bool
    accepted: bool
    reason: str
    grades: Mapping[str, float] = field(default_factory=dict)
    calls: int = 0
    tokens_in: int | None = 0
    tokens_out: int | None = 0
    seconds: float = 0.0


def live(
    data: EvalData,
    *,
    bench: Bench,
    judge: Bench,
    repeats: int,
    advance: Callable[[], None] = lambda: None,
) -> list[LiveCase]:
    """Write and judge every snapshot in both arms, ``repeats`` times."""
    found = []
    for repeat in range(repeats):
        for name, snapshot in data.snapshots.items():
            for arm in ARMS if repeat % 2 == 0 else ARMS[::-1]:
                found.append(_one(name, snapshot, arm, repeat, bench=bench, judge=judge))
                advance()
    return found


def _one(
    name: str, snapshot: Snapshot, arm: Variant, repeat: int, *, bench: Bench, judge: Bench
) -> LiveCase:
    started = time.monotonic()
    draft = synthesise(snapshot, mode="human", variant=arm, bench=bench)
    own = draft.variant == arm
    verdict = judge_memo(draft.text, snapshot, tier=judge.tier, bench=judge) if own else None
    return LiveCase(
        snapshot=name, arm=arm, repeat=repeat, own=own,
        accepted=verdict is not None and verdict.accepted,
        reason=draft.reason or (verdict.reason if verdict else ""),
        grades=_grades(draft, verdict, snapshot, own=own),
        calls=draft.calls + (verdict.calls if verdict else 0),
        tokens_in=draft.tokens_in, tokens_out=draft.tokens_out,
        seconds=round(time.monotonic() - started, 3),
    )  # fmt: skip


def _grades(
    draft: Draft, verdict: MemoVerdict | None, snapshot: Snapshot, *, own: bool
) -> dict[str, float]:
    if draft.unavailable:
        return {}
    if not own:
        return dict.fromkeys(MEASURES, 0.0)
    if verdict is None or verdict.faithfulness is None:
        return {}
    return grades(scored(draft.text, snapshot, verdict.faithfulness))


def arms_of(cases: Sequence[LiveCase]) -> dict[str, dict[str, Any]]:
    """Sum up each arm over the memos without an error: means, shares, calls, tokens and seconds."""
    return {arm: _arm([case for case in cases if case.arm == arm]) for arm in ARMS}


def _arm(cases: Sequence[LiveCase]) -> dict[str, Any]:
    graded = [case for case in cases if case.grades]
    tokens = [(case.tokens_in, case.tokens_out) for case in graded]
    known = [a + b for a, b in tokens if a is not None and b is not None]
    return {
        "memos": len(cases),
        "graded": len(graded),
        "errors": len(cases) - len(graded),
        "own": _mean([float(case.own) for case in graded]),
        "accepted": _mean([float(case.accepted) for case in graded]),
        "calls": _mean([float(case.calls) for case in graded]),
        "writing_tokens": _mean([float(count) for count in known])
        if len(known) == len(graded)
        else None,
        "seconds": _mean([case.seconds for case in graded]),
        "means": {name: _mean([case.grades[name] for case in graded]) for name in MEASURES},
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), PLACES) if values else None


def lift_of(cases: Sequence[LiveCase]) -> dict[str, dict[str, Any]]:
    """Debate less single pass, per dimension: mean over snapshots, 95 % interval, number of snapshots."""
    names = sorted({case.snapshot for case in cases})
    return {measure: _lift([*_differences(cases, names, measure)]) for measure in MEASURES}


def _differences(cases: Sequence[LiveCase], names: Sequence[str], measure: str) -> Iterator[float]:
    """One difference per snapshot: the mean over the repeats in which both arms were graded."""
    by_key = {(case.snapshot, case.arm, case.repeat): case for case in cases}
    repeats = sorted({case.repeat for case in cases})
    for name in names:
        pairs = [[by_key[name, arm, repeat] for arm in ARMS] for repeat in repeats]
        parts = [
            debate.grades[measure] - single.grades[measure]
            for single, debate in pairs
            if single.grades and debate.grades
        ]
        if parts:
            yield float(np.mean(parts))


def _lift(differences: Sequence[float]) -> dict[str, Any]:
    if not differences:
        return {"mean": None, "low": None, "high": None, "snapshots": 0}
    low = high = None
    if len(differences) >= MIN_SNAPSHOTS:
        dice = np.random.default_rng(SEED)
        drawn = dice.choice(np.array(differences), size=(RESAMPLES, len(differences)))
        low, high = (
            round(float(x), PLACES) for x in np.percentile(drawn.mean(axis=1), [2.5, 97.5])
        )
    mean = round(float(np.mean(differences)), PLACES)
    return {"mean": mean, "low": low, "high": high, "snapshots": len(differences)}
