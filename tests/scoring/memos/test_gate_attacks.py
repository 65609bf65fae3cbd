"""Lies written by hand against the gate, and true memos in the phrasings that might be taken for one.

One memo a line in the files beside this one, with backslash escapes (a line break is ``\\n``) and the
label of a fact in braces for its citation. Each lie that ever passed is in them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scoring.memos.gate_report import FindingKind as Kind
from tests.scoring.memos.snapshots import (
    category,
    checked,
    company,
    graded_run,
    growth,
    kinds,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scoring.memos.facts import Snapshot

HERE = Path(__file__).resolve().parent
SUBJECTS: dict[str, Callable[[], Snapshot]] = {
    "company": company, "run": run, "graded_run": graded_run, "category": category, "growth": growth,
}  # fmt: skip


def lines(kind: str) -> list[tuple[str, str]]:
    found = []
    for subject in SUBJECTS:
        text = (HERE / f"{kind}_about_the_{subject}.txt").read_text(encoding="ascii")
        found += [(subject, line.encode().decode("unicode_escape")) for line in text.splitlines()]
    return found


@pytest.mark.parametrize(("subject", "text"), lines("lies"))
def test_a_lie_is_refused(subject: str, text: str) -> None:
    report = checked(text, SUBJECTS[subject]())
    assert not report.passed, text


@pytest.mark.parametrize(("subject", "text"), lines("truths"))
def test_a_truth_passes(subject: str, text: str) -> None:
    report = checked(text, SUBJECTS[subject]())
    assert report.passed, report.feedback()


def test_the_files_are_not_read_as_empty() -> None:
    assert len(lines("lies")) > 500
    assert len(lines("truths")) > 130


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("The share moved by 8.6 points {change in the share followed}.", Kind.WRONG_SIGN),
        ("The share rose by 8.6 points {change in the share followed}.", Kind.WRONG_DIRECTION),
        ("The share fell by 8.6% {change in the share followed}.", Kind.PERCENT_FOR_POINTS),
        ("Retrievals rose to 40 {retrievals}.", Kind.UNPROVEN_DIRECTION),
        ("Attempts, 27 {attempts}, outnumber retrievals, 40 {retrievals}.", Kind.WRONG_DIRECTION),
        ("More than 40 retrievals {retrievals}.", Kind.WRONG_BOUND),
        ("Dozens of retrievals, 40 {retrievals}.", Kind.VAGUE),
        ("Most retrievals, 40 {retrievals}.", Kind.VAGUE),
        ("No retrievals came of 12 tips {tips}.", Kind.UNBOUND_WORD),
        ("There were not 40 retrievals {retrievals}.", Kind.NEGATED),
        ("`tip 2` was followed 5 times {times `tip 1` was followed}.", Kind.WRONG_NAME),
        ("`tip 1` was seen 40 times {retrievals}.", Kind.WRONG_NAME),
        ("The most misleading tip is `tip 1` {most misleading tip}.", Kind.WRONG_NAME),
        ("It cost \u20ac5 {cost}.", Kind.UNKNOWN_VALUE),
        ("40 retrievals {retrievals}{tips}.", Kind.SPARE_CITATION),
        ("40 retrievals per hour {retrievals}.", Kind.WRONG_UNIT),
        ("The median of 40 retrievals {retrievals}.", Kind.WRONG_LABEL),
        ("As of 3 January 2026, 40 retrievals {retrievals}.", Kind.MISSING_CITATION),
        ("40 retrievals {retrievals}, fi-ve of them good.", Kind.UNREADABLE),
        ("40 retrievals {retrievals}, fiveforty of them good.", Kind.UNREADABLE),
    ],
)
def test_a_lie_is_refused_for_its_own_reason(text: str, kind: Kind) -> None:
    assert kind in kinds(checked(text, run()))


def test_a_list_may_be_numbered_only_from_one_and_in_steps_of_one() -> None:
    items = ["12 tips {tips}", "40 retrievals {retrievals}"]
    numbered = "\n".join(f"{number}. {item}" for number, item in enumerate(items, start=1))
    assert checked(f"Two findings:\n{numbered}".replace("Two", "The"), run()).passed
    assert not checked(f"The findings:\n{numbered}".replace("2.", "3."), run()).passed
    assert not checked(f"The findings:\n1. {items[0]}", run()).passed


def test_the_day_of_the_snapshot_needs_no_source_where_it_is_said_to_be_that() -> None:
    assert checked("As of 2 January 2026, retrievals stand at 40 {retrievals}.", run()).passed
    assert not checked("On 2 January 2026 there were 40 retrievals {retrievals}.", run()).passed


def test_sourced_figures_have_their_place_and_fact() -> None:
    snapshot = run()
    report = checked("There were 40 retrievals {retrievals}, with 12 tips {tips}.", snapshot)
    labels = [snapshot.by_id[one.fact_id].label for one in report.sourced]
    assert labels == ["retrievals", "tips"]
    assert [(one.start, one.end) for one in report.sourced] == [(11, 13), (37, 39)]
    assert report.coverage == 1
    assert report.feedback() == ""


def test_coverage_is_the_share_of_figures_that_are_sourced() -> None:
    report = checked("There were 40 retrievals {retrievals} and 9 ideas.", run())
    assert report.coverage == report.coverage.__class__("0.5")
