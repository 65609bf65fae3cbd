"""Evaluator result -> graded outcome (ADR-0019, DEF-26). Pure: the same input gives the same grade.

Guarantees: a grade in [-1, 1] with a confidence in [0, 1], or none with a reason; an evaluator that
failed is no outcome, never a health failure; raw output is read by whole tokens, never by substring.
The version of the ladder is part of the result, so that the past can be graded again.

Shaped by: a health check that found "HEALTHY" inside "UNHEALTHY", and a scanner whose output counted
as a pass because the rule id contained "password".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from contextgraph.skills import Grading, RawField, Skill

NO_OUTCOME = "no_outcome"
WORD = re.compile(r"\w+")
RESULT_LINE = re.compile(
    r"^[ \t]*result[ \t]*[:=\t ][ \t]*(\w+)[ \t]*$", re.IGNORECASE | re.MULTILINE
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What is known of one attempt's evaluation. ``number`` is the sender's attempt number, 1-based."""

    number: int
    passed: bool | None
    failure_mode: str = ""
    raw: Mapping[str, Any] | None = None
    error: str = ""
    deferred: bool = False
    sender_value: float | None = None
    sender_confidence: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """``value`` in [-1, 1] and ``confidence`` in [0, 1], or both None with ``reason``."""

    value: float | None
    confidence: float | None
    reason: str
    grader: str
    failure_mode: str = ""


def grade(evaluation: Evaluation, skill: Skill) -> Outcome:
    """Grade one attempt by the ladder of its skill."""
    grading = skill.grading
    grader = f"{skill.name}@{grading.version}"
    if _evaluator_failed(evaluation, grading) or evaluation.passed is None:
        return Outcome(value=None, confidence=None, reason=NO_OUTCOME, grader=grader)
    mode = "" if evaluation.passed else evaluation.failure_mode
    if mode in grading.pending_modes:
        return Outcome(value=None, confidence=None, reason=NO_OUTCOME, grader=grader)
    contradiction = _raw_verdict(evaluation.raw or {}, grading)
    if contradiction is not None:
        mode = (
            contradiction if evaluation.passed or contradiction in grading.failure_modes else mode
        )
    passed = evaluation.passed and contradiction is None
    value = _value(evaluation, grading, passed=passed, mode=mode)
    confidence = evaluation.sender_confidence
    return Outcome(
        value=value,
        confidence=grading.confidence if confidence is None else confidence,
        reason="",
        grader=grader,
        failure_mode=mode,
    )


def _evaluator_failed(evaluation: Evaluation, grading: Grading) -> bool:
    if evaluation.error or evaluation.failure_mode in grading.error_modes:
        return True
    summary = str((evaluation.raw or {}).get("summary", "")).strip().lower()
    return any(summary.startswith(prefix.lower()) for prefix in grading.error_prefixes)


def _value(evaluation: Evaluation, grading: Grading, *, passed: bool, mode: str) -> float:
    if grading.kind == "sender" and evaluation.sender_value is not None:
        return evaluation.sender_value
    if not passed:
        return grading.failure_modes.get(mode, grading.failed)
    value = grading.passed
    for rung in grading.ladder:
        if evaluation.number >= rung.from_attempt:
            value = rung.value
    return value


def _raw_verdict(raw: Mapping[str, Any], grading: Grading) -> str | None:
    """The failure mode that the raw output proves, or None. The first rule of the file wins."""
    for rule in grading.raw:
        token = _token(raw.get(rule.field), rule)
        if token is not None and token.upper() in {bad.upper() for bad in rule.bad}:
            return rule.failure_mode
    return None


def _token(text: object, rule: RawField) -> str | None:
    if not isinstance(text, str):
        return None
    words = WORD.findall(text)
    if rule.position == "first":
        return words[0] if words else None
    results = RESULT_LINE.findall(text)
    if results:
        return str(results[-1])
    return words[0] if len(words) == 1 else None
