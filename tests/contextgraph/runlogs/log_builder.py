"""Writes small event logs for the reader's tests, one event per call, in the upstream layout.

Guarantees: a log built with ``start``, ``rule``, ``whole_attempt`` and ``end`` is free of hazards, so
each test adds exactly the one thing that it is about.

Does not guarantee: that a log is sensible; tests of hazards write nonsense on purpose.

Shaped by: the need to see at one glance what is odd about a log.
"""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from contextgraph.envelope import AttemptEntry, OutcomeCorrection, Record, RunFooter, TipEntry
from contextgraph.runlogs import RunLogReader, open_run_log

if TYPE_CHECKING:
    from collections.abc import Iterable

RULE = "login_banner_present"
SCRIPT = "printf 'Authorised use only\\n' > /etc/issue"
TIP = "Write the banner to /etc/issue."
LONG_TIP = "Set the idle limit in a drop-in file, because the main file is rewritten. " * 4
"""Longer than the 150 characters that the prompt shows."""


class Log:
    """An event log under construction. Each event is half a second after the one before."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._at = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)

    def event(self, kind: str, *, agent: str = "harness", **data: Any) -> Self:
        """Append one event."""
        self._at += timedelta(seconds=0.5)
        event = {
            "timestamp": self._at.isoformat(),
            "elapsed_s": 0.5,
            "event_type": kind,
            "agent": agent,
            "iteration": 0,
            "data": data,
        }
        return self.raw(json.dumps(event).encode() + b"\n")

    def raw(self, line: bytes) -> Self:
        """Append bytes as they are."""
        self.lines.append(line)
        return self

    def start(
        self, run_id: str | None = "20270301-080000", skill: str | None = "hardening"
    ) -> Self:
        """Begin a run and name its skill."""
        self.event("run_start", agent="system", **({"run_id": run_id} if run_id else {}))
        return self.event("skill_manifest", agent="system", skill_name=skill) if skill else self

    def rule(self, rule_id: str = RULE) -> Self:
        """Take up a rule."""
        return self.event(
            "rule_selected", agent="architect", rule_id=rule_id, title="Banner", category="access"
        )

    def tip(self, tip_id: int | str = 7, text: str = TIP, **data: Any) -> Self:
        """Record a tip."""
        return self.event("tip_added", agent="reflector", tip_id=tip_id, text=text, **data)

    def attempt(self, number: int = 1, rule_id: str = RULE) -> Self:
        """Start an attempt."""
        return self.event("attempt_start", rule_id=rule_id, category="access", attempt=number)

    def prompt(
        self, number: int = 1, tips: Iterable[Any] = (), rule_id: str = RULE, **data: Any
    ) -> Self:
        """Assemble the worker's prompt; *tips* are ids or whole entries."""
        loaded = [
            tip
            if isinstance(tip, dict)
            else {"tip_id": tip, "rank": rank, "similarity_score": 1.25, "tip_type": "strategy"}
            for rank, tip in enumerate(tips, start=1)
        ]
        return self.event(
            "prompt_assembled",
            agent="worker",
            phase="apply_fix",
            rule_id=rule_id,
            attempt=number,
            **({"v2_tips_loaded": loaded} | data),
        )

    def call(self, script: str = SCRIPT, **args: Any) -> Self:
        """Let the worker run a script."""
        return self.tool("apply_fix", fix_script=script, **args)

    def tool(self, tool: str, **args: Any) -> Self:
        """Let the worker call any tool."""
        return self.event("tool_call", agent="worker", tool=tool, args=args)

    def result(self, text: str = "{'result': 'APPLIED: banner\\nOutput: '}") -> Self:
        """Log what the call printed."""
        return self.event("tool_result", agent="worker", tool="apply_fix", result=text)

    def evaluate(self, passed: bool | None = True, value: float = 1.0, **data: Any) -> Self:
        """Log an evaluation, which names neither rule nor attempt."""
        graded = {
            "passed": passed,
            "failure_mode": "clean_failure",
            "summary": "health=True",
            "outcome_signal": {"value": value, "confidence": 1.0},
        }
        return self.event("evaluation", **(graded | data))

    def verdict(self, kind: str = "remediated", number: int = 1, rule_id: str = RULE) -> Self:
        """Log what the harness did after the evaluation."""
        return self.event(kind, rule_id=rule_id, attempt=number)

    def whole_attempt(
        self,
        number: int = 1,
        *,
        rule_id: str = RULE,
        passed: bool = True,
        script: str = SCRIPT,
        tips: Iterable[Any] = (),
    ) -> Self:
        """An attempt with everything that belongs to it."""
        self.attempt(number, rule_id).prompt(number, tips, rule_id).call(script).result()
        self.evaluate(passed, 1.0 if passed else 0.0)
        return self.verdict("remediated" if passed else "revert", number, rule_id)

    def end(self) -> Self:
        """Close the run."""
        self.event(
            "consolidation_complete",
            agent="system",
            run_id="c0ffee00-123",
            dream={"status": "completed", "environment_tag": "baseline-7"},
        )
        return self.event("run_complete", agent="system", iterations=1)

    def data(self) -> bytes:
        """The file's bytes."""
        return b"".join(self.lines)


class Read:
    """Everything that a reader yields for a log, sorted by kind."""

    def __init__(self, log: Log | bytes, **options: Any) -> None:
        content = log if isinstance(log, bytes) else log.data()
        side = options.pop("side_file", None)
        self.reader: RunLogReader = open_run_log(
            io.BytesIO(content), side_file=io.BytesIO(side) if side is not None else None, **options
        )
        self.records: list[Record] = list(self.reader.records())

    def _of(self, kind: type[Any]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]

    @property
    def attempts(self) -> list[AttemptEntry]:
        """All attempts, in order."""
        return self._of(AttemptEntry)

    @property
    def attempt(self) -> AttemptEntry:
        """The only attempt."""
        (only,) = self.attempts
        return only

    @property
    def tips(self) -> list[TipEntry]:
        """All tips, in order."""
        return self._of(TipEntry)

    @property
    def corrections(self) -> list[OutcomeCorrection]:
        """All late verdicts."""
        return self._of(OutcomeCorrection)

    @property
    def footers(self) -> list[RunFooter]:
        """One per run."""
        return self._of(RunFooter)

    @property
    def hazards(self) -> dict[str, int]:
        """Counts by code over all runs."""
        total: dict[str, int] = {}
        for footer in self.footers:
            for code, count in footer.hazards.items():
                total[code] = total.get(code, 0) + count
        return total


def one_attempt(**options: Any) -> Log:
    """A whole, clean log of one attempt."""
    return Log().start().rule().whole_attempt(**options).end()
