"""The offline suite: what gate, guards, rubric, writer and the paths around a model do on known cases.

Guarantees: needs no model, no network and no database, and gives the same result each time; a case
passes only if what is found is what it expects, so that a gate that refuses everything fails as one
that refuses nothing does. It says nothing about how well a model writes (``eval_live`` does).
Source: issue 5 (item 8), after the suites of ADR-0006's harness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from scoring.memos.completeness import completeness
from scoring.memos.eval_data import cited
from scoring.memos.eval_script import MODEL, Script
from scoring.memos.gate import check
from scoring.memos.memo_judge import audited
from scoring.memos.question import MODES
from scoring.memos.rubric import Score, impersonal, score
from scoring.memos.synthesis import compose
from scoring.memos.writer import write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from decimal import Decimal

    from scoring.memos.drafting import Draft
    from scoring.memos.eval_data import EvalData
    from scoring.memos.facts import Snapshot
    from scoring.memos.memo_judge import MemoVerdict
    from scoring.memos.prompt_files import MemoPrompts

ANY: Final = "*"
"""In place of kinds of findings: refused, for whatever reason."""
WRITER: Final = "writer"
"""The suite in which the deterministic writer tells every snapshot, in every mode."""
COMPOSITE: Final = "composite"
PLACES: Final = 6


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case. ``grades``: name of a dimension, or "composite" -> 0 to 1; empty where none is given."""

    suite: str
    name: str
    passed: bool
    detail: str = ""
    grades: Mapping[str, float] = field(default_factory=dict)


def offline(data: EvalData, prompts: MemoPrompts) -> list[CaseResult]:
    """Run every offline case; raises EvalDataError on one that cannot be run."""
    return [
        *(_gate(case, data) for case in data.cases["gate"]),
        *(_guard(case, data) for case in data.cases["guards"]),
        *(_memo(case, data) for case in data.cases["memos"]),
        *(_scenario(case, data, prompts) for case in data.cases["scenarios"]),
        *_written(data),
    ]


def _gate(case: Mapping[str, Any], data: EvalData) -> CaseResult:
    snapshot = data.snapshot(case)
    report = check(cited(case["text"], snapshot), snapshot)
    found, wanted = {str(finding.kind) for finding in report.findings}, set(case["expect"])
    right = bool(found) if wanted == {ANY} else wanted <= found and bool(found) == bool(wanted)
    return CaseResult("gate", case["name"], right, "" if right else f"found {sorted(found)}")


def _guard(case: Mapping[str, Any], data: EvalData) -> CaseResult:
    if "impersonal" in case:
        found = {reason for reason, _ in impersonal(case["text"]).faults}
        right = found == set(case["impersonal"])
    else:
        snapshot = data.snapshot(case)
        report = check(cited(case["text"], snapshot), snapshot)
        found = {item.label for item in completeness(report, snapshot).material_omissions}
        right = found == set(case["omits"]) and report.passed
    return CaseResult("guards", case["name"], right, "" if right else f"found {sorted(found)}")


def _memo(case: Mapping[str, Any], data: EvalData) -> CaseResult:
    snapshot = data.snapshot(case)
    return graded("memos", case["name"], cited(case["text"], snapshot), snapshot)


def _written(data: EvalData) -> Iterator[CaseResult]:
    for name, snapshot in data.snapshots.items():
        for mode in MODES:
            yield graded(WRITER, f"{name}, {mode}", write(snapshot, mode=mode), snapshot)


def graded(suite: str, name: str, text: str, snapshot: Snapshot) -> CaseResult:
    """Grade a memo without a judge; it passes if the gate lets it and nothing material is left out."""
    found = scored(text, snapshot)
    passed = found.composite == 1
    return CaseResult(suite, name, passed, "" if passed else "; ".join(found.notes), grades(found))


def scored(text: str, snapshot: Snapshot, faithfulness: Decimal | None = None) -> Score:
    """Grade a memo by the rubric."""
    report = check(text, snapshot)
    return score(report, completeness(report, snapshot), impersonal(text), faithfulness)


def grades(found: Score) -> dict[str, float]:
    """Return a score as numbers for JSON."""
    named = {str(name): round(float(value), PLACES) for name, value in found.dimensions.items()}
    return named | {COMPOSITE: round(float(found.composite), PLACES)}


def _scenario(case: Mapping[str, Any], data: EvalData, prompts: MemoPrompts) -> CaseResult:
    snapshot = data.snapshot(case)
    script = Script(snapshot, case["replies"])
    draft = compose(script, prompts, snapshot, mode="human", variant=case["variant"], model=MODEL)
    wanted = case["expect"]
    verdict = None
    if "accepted" in wanted:
        verdict = audited(script, prompts, draft.text, snapshot, tier="default", model=MODEL)
    wrong = [*_draft_faults(wanted, draft, snapshot), *_verdict_faults(wanted, verdict)]
    wrong += [f"{script.left} replies were not asked for"] if script.left else []
    return CaseResult("scenarios", case["name"], not wrong, "; ".join(wrong))


def _draft_faults(wanted: Mapping[str, Any], draft: Draft, snapshot: Snapshot) -> Iterator[str]:
    if draft.variant != wanted["variant"]:
        yield f"written by {draft.variant}"
    if not check(draft.text, snapshot).passed:
        yield "the gate refuses what came out"
    if not draft.reason.startswith(wanted.get("reason", "")) or (
        bool(draft.reason) != (draft.variant == WRITER)
    ):
        yield f"the reason is {draft.reason!r}"
    if wanted.get("calls", draft.calls) != draft.calls:
        yield f"{draft.calls} calls"
    if [side.name for side in draft.sides] != wanted.get("sides", []):
        yield f"sides {[side.name for side in draft.sides]}"


def _verdict_faults(wanted: Mapping[str, Any], verdict: MemoVerdict | None) -> Iterator[str]:
    if verdict is None:
        return
    if verdict.accepted != wanted["accepted"]:
        yield f"accepted: {verdict.accepted}"
    if not verdict.reason.startswith(wanted.get("verdict", "")):
        yield f"the verdict is {verdict.reason!r}"
