"""The attempt being read: what its events said so far, and the entry it becomes when it is closed.

Guarantees: the number of an attempt is unique per run and rule; an evaluator that failed gives no
outcome; a verdict that is put off gives none yet; whatever the log leaves open is a hazard of the
attempt. The evaluator's data is kept whole.

Does not guarantee: that the evaluation is right. Contradictions inside the log are marked, not resolved.

Shaped by: evaluation events that name neither rule nor attempt, attempts counted from 1 again when a rule
is taken up a second time, and SSH errors graded as "the tip broke the system".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from contextgraph.envelope import AttemptEntry, RetrievalEntry, validate
from contextgraph.runlogs.fields import MAX_COUNT, Fields
from contextgraph.runlogs.hazards import Hazard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from contextgraph.runlogs.exposure import PromptEvent
    from contextgraph.runlogs.scripts import LoggedScript

EVALUATOR_CRASH = "eval tool error"
"""How the summary of an evaluation begins when the evaluator raised."""

_WORDS = re.compile(r"\w+")


class AttemptNumbers:
    """Gives each attempt of a run a number of its own within its rule."""

    def __init__(self) -> None:
        self._used: dict[str, set[int]] = {}
        self._base: dict[str, int] = {}

    def reselect(self, rule_id: str) -> bool:
        """Count on from the highest number used. True when there was one."""
        used = self._used.get(rule_id)
        if used:
            self._base[rule_id] = max(used)
        return bool(used)

    def take(self, rule_id: str, sender_number: int | None) -> tuple[int, bool]:
        """Return the number for an attempt, and whether the sender's own was already taken."""
        used = self._used.setdefault(rule_id, set())
        following = max(used, default=0) + 1
        wanted = self._base.get(rule_id, 0) + sender_number if sender_number else following
        repeated = wanted in used
        number = following if repeated or wanted > MAX_COUNT else wanted
        used.add(number)
        return number, repeated


@dataclass(slots=True)
class AttemptDraft:
    """An open attempt.

    ``sender_number`` is the log's own, None when the log gave none; ``line`` is where the attempt begins;
    ``scripted`` says whether the last tool call held a script.
    """

    rule_id: str
    number: int
    sender_number: int | None
    category: str
    title: str
    started_at: datetime | None
    line: int
    hazards: set[Hazard] = field(default_factory=set)
    prompt: PromptEvent | None = None
    script: LoggedScript | None = None
    calls: int = 0
    scripted: bool = False
    result_seen: bool = False
    apply_failed: bool = False
    narrative: str = ""
    agent_error: str = ""
    evaluation: dict[str, Any] | None = None
    evaluated_at: datetime | None = None
    evaluator_error: str = ""
    verdict: str = ""
    post_mortem: dict[str, Any] | None = None
    deferred: bool = False
    repaired: bool = False

    @property
    def untouched(self) -> bool:
        """True while nothing but its start has been read."""
        return (
            self.prompt is None
            and not self.calls
            and not self.judged
            and not (self.narrative or self.agent_error or self.evaluator_error)
        )

    @property
    def judged(self) -> bool:
        """True when an evaluation or a verdict has been read: the agent's turn is over."""
        return self.evaluation is not None or bool(self.verdict)

    def matches(self, rule_id: str, sender_number: int | None) -> bool:
        """True unless a given part of the identity differs."""
        if rule_id and rule_id != self.rule_id:
            return False
        return None in (sender_number, self.sender_number) or sender_number == self.sender_number

    def entry(
        self,
        retrievals: Iterable[RetrievalEntry],
        script: str | None,
        note: Callable[[Hazard], None],
    ) -> AttemptEntry:
        """Close the attempt. *script* overrides the logged one when a side file has it whole."""
        self._note_gaps(script, note)
        whole = script is not None
        raw = self._evaluator_raw()
        outcome = _outcome(self, note)
        entry: dict[str, Any] = {
            "rule_id": self.rule_id,
            "number": self.number,
            "sender_number": None if self.sender_number == self.number else self.sender_number,
            "category": self.category,
            "title": self.title,
            "started_at": self.started_at,
            "ended_at": self.evaluated_at,
            "script": script if whole else (self.script.text if self.script else None),
            "script_truncated": not whole and self.script is not None and self.script.truncated,
            "narrative": self.narrative,
            "evaluator_raw": raw,
            "evaluator_error": self.evaluator_error,
            "apply_failed": self.apply_failed,
            "deferred": self.deferred,
            "hazards": tuple(sorted(str(hazard) for hazard in self.hazards)),
            "retrievals": tuple(retrievals),
        }
        said = {"verdict_event": self.verdict, "agent_error": self.agent_error}
        entry |= {name: value for name, value in said.items() if value} | outcome
        if self.repaired:
            entry["text_repaired"] = True
        return validate(AttemptEntry, entry)

    def _note_gaps(self, script: str | None, note: Callable[[Hazard], None]) -> None:
        if self.prompt is None:
            note(Hazard.PROMPT_NOT_LOGGED)
        if self.script is None and script is None:
            note(Hazard.ATTEMPT_WITHOUT_SCRIPT)
        elif script is None and self.script is not None and self.script.truncated:
            note(Hazard.SCRIPT_CUT)
        if self.scripted and not self.result_seen:
            note(Hazard.CALL_WITHOUT_RESULT)
        if self.evaluation is None and not self.evaluator_error:
            note(Hazard.ATTEMPT_NOT_EVALUATED)

    def _evaluator_raw(self) -> dict[str, Any] | None:
        if self.post_mortem is None:
            return self.evaluation
        return (self.evaluation or {}) | {"post_mortem": self.post_mortem}


def _outcome(draft: AttemptDraft, note: Callable[[Hazard], None]) -> dict[str, Any]:
    """Fields that say how the attempt went. Empty when nothing was decided yet, or ever."""
    if draft.evaluation is None:
        if draft.evaluator_error:
            note(Hazard.EVALUATOR_EXCEPTION)
        return {}
    if crashed := _crash(draft.evaluation):
        draft.evaluator_error = draft.evaluator_error or crashed
    if draft.evaluator_error:
        note(Hazard.EVALUATOR_EXCEPTION)
        return {"evaluator_error": draft.evaluator_error}
    _compare(draft, note)
    graded = verdict_fields(draft.evaluation, note)
    if graded["passed"] is None:
        note(Hazard.ATTEMPT_NOT_EVALUATED)
    if draft.deferred:
        # The verdict of a deferred attempt is still to come; what stands here is the need for a reboot.
        return {"failure_mode": graded["failure_mode"]}
    return graded


def _crash(evaluation: dict[str, Any]) -> str:
    summary = evaluation.get("summary")
    crashed = isinstance(summary, str) and summary.lower().startswith(EVALUATOR_CRASH)
    return summary if crashed and isinstance(summary, str) else ""


def verdict_fields(data: dict[str, Any], note: Callable[[Hazard], None]) -> dict[str, Any]:
    """``passed``, ``failure_mode`` and the sender's grade, as far as they are usable.

    A passed evaluation has no failure mode: the upstream default there is a filler.
    """
    fields = Fields(data, note)
    passed = fields.flag("passed")
    graded = Fields(fields.inner("outcome_signal"), note)
    mode = fields.word("failure_mode")
    return {
        "passed": passed,
        "failure_mode": "" if passed else mode,
        "grade_value": graded.real("value", low=-1.0, high=1.0),
        "grade_confidence": graded.real("confidence", low=0.0, high=1.0),
    }


def _compare(draft: AttemptDraft, note: Callable[[Hazard], None]) -> None:
    """Mark what contradicts the evaluation inside the same log."""
    evaluation, post_mortem = draft.evaluation or {}, draft.post_mortem or {}
    passed = evaluation.get("passed")
    if (draft.verdict == "remediated" and passed is False) or (
        draft.verdict == "revert" and passed is True
    ):
        note(Hazard.OUTCOME_CONTRADICTED)
    if evaluation.get("health_ok") is True and (
        post_mortem.get("mission_healthy") is False or "unhealthy" in _words(evaluation, "health")
    ):
        note(Hazard.HEALTH_MISREAD)
    result = _words(evaluation, "rule_check")
    if evaluation.get("rule_ok") is True and "fail" in result and "pass" not in result:
        note(Hazard.RULE_MISREAD)


def _words(data: dict[str, Any], name: str) -> set[str]:
    """Whole words, lower case: UNHEALTHY is not healthy, a rule named ..._password has not passed."""
    value = data.get(name)
    return set(_WORDS.findall(value.lower())) if isinstance(value, str) else set()
