"""Evaluator result -> graded outcome (ADR-0019, DEF-26). Pure: the same input gives the same grade.

Guarantees: a grade in [-1, 1] with a confidence in [0, 1], or none with a reason; an evaluator that
failed is no outcome, never a health failure; raw output is read by whole tokens, never by substring,
and as a terminal shows it: without the sequences that colour it. Failure modes are compared without
regard to case. The version of the ladder is part of the result, so that the past can be graded again.

Shaped by: a health check that found "HEALTHY" inside "UNHEALTHY", and a scanner whose output counted
as a pass because the rule id contained "password".
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from contextgraph.skills import Grading, RawField, Skill

NO_OUTCOME = "no_outcome"
FIRST_WORD = re.compile(r"[^\w]*(\w+)")
VERDICT_SIGN = re.compile(r"[:=\t]")
TERMINAL_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles, links
    r"|\x1b[ -/]*[0-~]"  # all others, such as the choice of a character set
)
"""Orders to a terminal (ECMA-48), which tools print around a word when they believe to be on one. None
can hold the beginning of another, so that hostile output is read in linear time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What is known of one attempt's evaluation. ``number`` is the sender's attempt number, 1-based."""

    number: int
    passed: bool | None
    failure_mode: str = ""
    raw: Mapping[str, Any] | None = None
    error: str = ""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Finding:
    """What the raw output proves: a failure mode, or (None) that nothing was checked."""

    failure_mode: str | None


def grade(evaluation: Evaluation, skill: Skill) -> Outcome:
    """Grade one attempt by the ladder of its skill.

    In order: a failed evaluator has graded nothing; raw output that proves a failure outranks what
    the sender read in it; a verdict that is still to come is none; then the ladder decides.

    Raises:
        ValueError: a sender's grade or confidence is out of range.
    """
    grading = skill.grading
    _check_range("sender_value", evaluation.sender_value, low=-1.0)
    _check_range("sender_confidence", evaluation.sender_confidence, low=0.0)
    if _evaluator_failed(evaluation, grading) or not _has_verdict(evaluation, grading):
        return _no_outcome(skill)
    found = _raw_finding(evaluation.raw or {}, grading)
    if found is not None and found.failure_mode is None:
        return _no_outcome(skill)
    if found is not None and _overrules(found, evaluation, grading):
        mode, confidence = found.failure_mode or "", None
        value = _value_of_mode(mode, grading)
    else:
        mode = "" if evaluation.passed else evaluation.failure_mode
        if _is_among(mode, grading.pending_modes):
            return _no_outcome(skill)
        value, confidence = _value(evaluation, grading, mode), evaluation.sender_confidence
    return Outcome(
        value=value,
        confidence=grading.confidence if confidence is None else confidence,
        reason="",
        grader=grader_name(skill),
        failure_mode=mode,
    )


def _overrules(found: _Finding, evaluation: Evaluation, grading: Grading) -> bool:
    """Whether the raw output says worse than the sender did."""
    proven = found.failure_mode or ""
    has_own_grade = _is_among(proven, grading.failure_modes)
    return evaluation.passed is not False or (
        has_own_grade and not _is_among(proven, (evaluation.failure_mode,))
    )


def _is_among(mode: str, modes: Iterable[str]) -> bool:
    return _folded(mode) in map(_folded, modes)


def _folded(mode: str) -> str:
    return mode.strip().casefold()


def grader_name(skill: Skill) -> str:
    """``name@version`` of the ladder that serves *skill*; stands beside every grade it gave."""
    return f"{skill.name}@{skill.grading.version}"


def _no_outcome(skill: Skill) -> Outcome:
    return Outcome(value=None, confidence=None, reason=NO_OUTCOME, grader=grader_name(skill))


def _check_range(name: str, number: float | None, *, low: float) -> None:
    if number is not None and not low <= number <= 1.0:
        msg = f"{name} is {number!r}; it must lie in [{low}, 1]"
        raise ValueError(msg)


def _evaluator_failed(evaluation: Evaluation, grading: Grading) -> bool:
    if evaluation.error or _is_among(evaluation.failure_mode, grading.error_modes):
        return True
    summary = _seen(str((evaluation.raw or {}).get("summary", ""))).strip().lower()
    return any(summary.startswith(prefix.lower()) for prefix in grading.error_prefixes)


def _has_verdict(evaluation: Evaluation, grading: Grading) -> bool:
    graded_by_sender = grading.kind == "sender" and evaluation.sender_value is not None
    return evaluation.passed is not None or graded_by_sender


def _value(evaluation: Evaluation, grading: Grading, mode: str) -> float:
    if grading.kind == "sender" and evaluation.sender_value is not None:
        return evaluation.sender_value
    if not evaluation.passed:
        return _value_of_mode(mode, grading)
    value = grading.passed
    for rung in grading.ladder:
        if evaluation.number >= rung.from_attempt:
            value = rung.value
    return value


def _value_of_mode(mode: str, grading: Grading) -> float:
    """The failure's own grade, or that of any failure."""
    known = {_folded(name): value for name, value in grading.failure_modes.items()}
    return known.get(_folded(mode), grading.failed)


def _raw_finding(raw: Mapping[str, Any], grading: Grading) -> _Finding | None:
    """What the raw output proves; the first rule of the file that finds anything wins."""
    for rule in grading.raw:
        words = _verdict_words(raw.get(rule.field), rule)
        if not words.isdisjoint(_upper(rule.bad)):
            return _Finding(failure_mode=rule.failure_mode)
        if words.isdisjoint(_upper(rule.good)) and not words.isdisjoint(_upper(rule.undecided)):
            return _Finding(failure_mode=None)
    return None


def _verdict_words(text: object, rule: RawField) -> set[str]:
    """The whole words of *text*, upper case, that stand where a verdict stands. Linear in *text*."""
    if not isinstance(text, str):
        return set()
    lines = [line.strip().upper() for line in _seen(text).splitlines()]
    if rule.position == "first":
        known = _upper((*rule.good, *rule.bad, *rule.undecided))
        leading = (found[1] for line in lines if (found := FIRST_WORD.match(line)))
        return set(itertools.islice((word for word in leading if word in known), 1))
    if results := [word for line in lines if (word := _result_of(line))]:
        return {results[-1]}
    edges = (part.strip() for line in lines for part in _edges(line))
    return {word for word in edges if word.isidentifier()}


def _seen(text: str) -> str:
    """*text* as a terminal shows it."""
    return TERMINAL_SEQUENCE.sub("", text)


def _result_of(line: str) -> str:
    """The word of a line such as ``Result  fail`` or ``result: pass``; empty for any other line."""
    words = VERDICT_SIGN.sub(" ", line).split()
    return words[1] if len(words) == 2 and words[0] == "RESULT" else ""


def _edges(line: str) -> tuple[str, str]:
    """What stands before the first colon, and after the last sign; the whole line when there is none."""
    return line.split(":", 1)[0], VERDICT_SIGN.split(line)[-1]


def _upper(words: tuple[str, ...]) -> set[str]:
    return {word.upper() for word in words}
