"""The report of an evaluation, and whether it is worse than a baseline.

Guarantees: a report says under which configuration it was made; two reports are compared only if theirs
is the same (gate, writer, weights, snapshots, cases, prompts, and for a live run models, tier, repeats);
offline, any lower number and any case that fails is a regression; live numbers may fall by the
allowances below, never more. What cannot be compared is an error, a live run without one graded memo
among it: a server that is away is no worse model.

It does not average offline and live numbers. Source: issue 5 (item 8); the original compared runs of
different models without a word, and passed where its baseline was missing.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from scoring.memos.eval_live import arms_of, lift_of
from scoring.memos.eval_shape import check_report
from scoring.memos.eval_suites import COMPOSITE, PLACES
from scoring.memos.gate import GATE_VERSION
from scoring.memos.prompt_files import PARTS
from scoring.memos.rubric import WEIGHTS
from scoring.memos.writer import WRITER_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from scoring.memos.eval_data import EvalData
    from scoring.memos.eval_live import LiveCase
    from scoring.memos.eval_suites import CaseResult
    from scoring.memos.prompt_files import MemoPrompts

SCHEMA: Final = 1
EQUAL: Final = 1e-9
RUBRIC_DROP: Final = 0.02
SHARE_DROP: Final = 0.05
TOKENS_RISE: Final = 0.25


class BaselineError(ValueError):
    """The baseline cannot be compared with; the message says why, and what to do."""


def report_of(
    data: EvalData,
    results: Sequence[CaseResult],
    prompts: MemoPrompts,
    *,
    made_at: str,
    live: Sequence[LiveCase] = (),
    live_config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a report as plain data. ``made_at`` is an ISO 8601 time. Raises PromptError."""
    return {
        "schema": SCHEMA,
        "made_at": made_at,
        "config": _config(data, prompts, live_config),
        "suites": _suites(results),
        "rubric": _rubric(results),
        "cases": [asdict(result) for result in results],
        "live": _live(live) if live_config is not None else None,
    }


def _config(data: EvalData, prompts: MemoPrompts, live: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "gate": GATE_VERSION,
        "writer": WRITER_VERSION,
        "weights": {str(name): str(weight) for name, weight in WEIGHTS.items()},
        "snapshots": {name: item.fingerprint() for name, item in sorted(data.snapshots.items())},
        "cases": data.digest,
        "prompts": {name: prompts.sha256(name) for name in sorted(PARTS)},
        "live": dict(live) if live is not None else None,
    }


def _suites(results: Sequence[CaseResult]) -> dict[str, dict[str, int]]:
    all_: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for result in results:
        all_[result.suite] += 1
        passed[result.suite] += int(result.passed)
    return {suite: {"cases": all_[suite], "passed": passed[suite]} for suite in all_}


def _rubric(results: Sequence[CaseResult]) -> dict[str, Any]:
    graded = [result.grades for result in results if result.grades]
    names = sorted({name for grades in graded for name in grades})
    means = {name: round(float(np.mean([g[name] for g in graded])), PLACES) for name in names}
    return {"memos": len(graded), "means": means}


def _live(cases: Sequence[LiveCase]) -> dict[str, Any]:
    return {
        "arms": arms_of(cases),
        "lift": lift_of(cases),
        "cases": [asdict(case) for case in cases],
    }


def read_baseline(path: Path) -> dict[str, Any]:
    """Read a report that was kept; raises BaselineError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        check_report(found, SCHEMA)
    except OSError as error:
        raise BaselineError(f"{path}: {error.strerror}: name a report that was kept") from error
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path} is no report: {error}; make it anew with --out") from error
    kept: dict[str, Any] = found
    return kept


def regressions(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return in what ``now`` is worse than ``before``; raises BaselineError if they do not compare.

    A live part is compared only if ``now`` has one; then the baseline needs one too.
    """
    for name, value in now["config"].items():
        other = before["config"].get(name)
        if name == "live" and value is None:
            continue
        if other != value:
            raise BaselineError(
                f"another configuration: {name} is {_short(value)}, in the baseline {_short(other)}; "
                "make a new baseline with --out"
            )
    worse = [*_failing(now), *_worse_means(now["rubric"], before["rubric"])]
    if now["live"] is not None:
        if before["live"] is None:
            raise BaselineError("the baseline has no live part; make a new one with --live --out")
        for arm, numbers in now["live"]["arms"].items():
            worse += _worse_arm(arm, numbers, before["live"]["arms"][arm])
    return worse


def _short(value: object) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 120 else shown[:117] + "…"


def _failing(now: Mapping[str, Any]) -> list[str]:
    return [
        f"{case['suite']} / {case['name']} fails" for case in now["cases"] if not case["passed"]
    ]


def _worse_means(now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    for name, old in before["means"].items():
        new = now["means"].get(name)
        if new is None or new < old - EQUAL:
            yield f"rubric {name} fell from {old} to {new}"


def _worse_arm(arm: str, now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    for which, numbers in (("this run", now), ("the baseline", before)):
        if not numbers["graded"]:
            raise BaselineError(f"{arm}: no memo of {which} was graded: nothing to compare")
    checks = [
        ("own", now["own"], before["own"], SHARE_DROP),
        ("accepted", now["accepted"], before["accepted"], SHARE_DROP),
        (COMPOSITE, now["means"][COMPOSITE], before["means"][COMPOSITE], RUBRIC_DROP),
    ]
    for name, new, old, allowed in checks:
        if old is not None and (new is None or new < old - allowed - EQUAL):
            yield f"{arm}: {name} fell from {old} to {new}"
    new, old = now["writing_tokens"], before["writing_tokens"]
    if new is not None and old and new > old * (1 + TOKENS_RISE):
        yield f"{arm}: tokens per memo rose from {old} to {new}"
