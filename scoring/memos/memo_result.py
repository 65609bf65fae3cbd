"""What a request for a memo gets: the text, the facts, and everything that was found out about it.

Guarantees: gate, completeness, tone and rubric are those of this text on these facts, computed when the
result is made, never read from a table. Pure but for the verdict's class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scoring.memos.completeness import Completeness, completeness
from scoring.memos.rubric import Impersonal, Score, impersonal, score
from scoring.memos.stored import snapshot_as_dict

if TYPE_CHECKING:
    from datetime import datetime

    from scoring.memos.cache import Way
    from scoring.memos.facts import Snapshot
    from scoring.memos.gate_report import GateReport
    from scoring.memos.memo_judge import MemoVerdict


@dataclass(frozen=True, slots=True)
class MemoResult:
    """A memo as it is served.

    ``way``: how it was asked for; ``reason``: why the writer took over from the model, "" if it did
    not. ``verdict``: the judge's, None if no model was asked; where it rejected, ``text`` is the
    writer's and the rejected text stands among ``sides``. ``unmet``: why a high-stakes request has no
    verdict of that tier on its text, "" if it has one or was none. ``cached``: no text was written for
    this request; ``calls``: to a model, for this request. ``row``: primary key of the stored memo, None
    if none was kept.
    """

    text: str
    snapshot: Snapshot
    way: Way
    gate: GateReport
    completeness: Completeness
    tone: Impersonal
    rubric: Score
    verdict: MemoVerdict | None
    sides: tuple[dict[str, str], ...]
    reason: str
    unmet: str
    cached: bool
    calls: int
    row: int | None
    hits: int
    written_at: datetime | None

    @property
    def by_model(self) -> bool:
        """Whether a model wrote the text."""
        return self.way.variant != "writer" and not self.reason

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "text": self.text,
            "snapshot": snapshot_as_dict(self.snapshot),
            "fingerprint": self.snapshot.fingerprint(),
            "mode": self.way.mode,
            "variant": self.way.variant,
            "model": self.way.model,
            "prompt_sha256": self.way.prompt_sha,
            "by_model": self.by_model,
            "reason": self.reason,
            "sides": list(self.sides),
            "gate": {
                "passed": self.gate.passed,
                "figures": self.gate.figures,
                "findings": [finding.message for finding in self.gate.findings],
            },
            "completeness": _completeness(self.completeness),
            "rubric": {
                "composite": str(round(self.rubric.composite, 4)),
                "dimensions": {
                    str(name): str(round(value, 4))
                    for name, value in self.rubric.dimensions.items()
                },
                "notes": list(self.rubric.notes),
            },
            "high_stakes_unmet": self.unmet,
            "verdict": None if self.verdict is None else self.verdict.as_dict(),
            "cached": self.cached,
            "calls": self.calls,
            "hits": self.hits,
            "written_at": self.written_at.isoformat() if self.written_at else None,
        }


def _completeness(told: Completeness) -> dict[str, Any]:
    return {
        "coverage": str(round(told.coverage, 4)),
        "material_coverage": str(round(told.material_coverage, 4)),
        "omitted": [item.id for item in told.omitted],
        "material_omissions": [item.id for item in told.material_omissions],
    }


def result_of(
    text: str, snapshot: Snapshot, way: Way, gate: GateReport, *, verdict: MemoVerdict | None,
    sides: tuple[dict[str, str], ...] = (), reason: str = "", unmet: str = "", cached: bool = False,
    calls: int = 0, row: int | None = None, hits: int = 0, written_at: datetime | None = None,
) -> MemoResult:  # fmt: skip
    """Return the result with what can be computed of text and facts."""
    told, tone = completeness(gate, snapshot), impersonal(text)
    of_judge = verdict is not None and (verdict.accepted or not reason)
    share = verdict.faithfulness if verdict is not None and of_judge else None
    return MemoResult(
        text, snapshot, way, gate, told, tone, score(gate, told, tone, share), verdict, sides, reason,
        unmet, cached, calls, row, hits, written_at,
    )  # fmt: skip
