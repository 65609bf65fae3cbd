"""Completeness and the rubric: signals over what the gate found."""

from __future__ import annotations

from decimal import Decimal

import pytest

from scoring.memos.completeness import completeness
from scoring.memos.facts import Snapshot, fact
from scoring.memos.gate import check
from scoring.memos.rubric import WEIGHTS, Dimension, impersonal, score
from tests.scoring.memos.snapshots import cited, company

CLEAN = (
    "Revenue was $394.3 billion {Revenue}, net income $99.8 billion {Net income} and the net margin"
    " 25.3% {Net margin}."
)


def scored(text: str, faithfulness: Decimal | None = None):
    snapshot = company()
    report = check(cited(text, snapshot), snapshot)
    return score(report, completeness(report, snapshot), impersonal(text), faithfulness)


def test_a_clean_memo_scores_one_without_a_judge_and_with_a_content_one() -> None:
    assert scored(CLEAN).composite == 1
    assert scored(CLEAN, Decimal(1)).composite == 1
    assert Dimension.FAITHFULNESS not in scored(CLEAN).dimensions
    for found in (scored(CLEAN), scored(CLEAN, Decimal(1))):
        assert abs(sum(found.weights.values()) - 1) < Decimal("1e-20")
    assert sum(WEIGHTS.values()) == 1


def test_half_faithful_costs_fifteen_hundredths() -> None:
    assert scored(CLEAN, Decimal("0.5")).composite == Decimal("0.85")


def test_a_memo_that_the_gate_refuses_scores_nothing_at_all() -> None:
    found = scored(CLEAN + " All of it in 9 days.", Decimal(1))
    assert found.composite == 0
    assert 0 < found.dimensions[Dimension.SOURCING] < 1
    assert found.notes[0].startswith("refused by the gate")


def test_a_material_omission_costs_and_is_named() -> None:
    found = scored("Revenue was $394.3 billion {Revenue}.")
    assert found.dimensions[Dimension.COMPLETENESS] == Decimal(1) / 3
    assert 0 < found.composite < 1
    assert "Net income" in " ".join(found.notes)


@pytest.mark.parametrize("value", ["1.01", "-0.1", "NaN"])
def test_a_faithfulness_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="0 to 1"):
        scored(CLEAN, Decimal(value))


def test_a_citation_without_its_figure_is_a_mention_not_told() -> None:
    snapshot = company()
    text = cited(
        "Revenue was $394.3 billion {Revenue}. See also {Net income}{Net margin}.", snapshot
    )
    told = completeness(check(text, snapshot), snapshot)
    assert [item.label for item in told.told] == ["Revenue"]
    assert {item.label for item in told.mentioned} == {"Net income", "Net margin"}
    assert [item.label for item in told.material_omissions] == ["Net income", "Net margin"]
    assert told.coverage == Decimal(1) / len(snapshot.facts)


def test_a_wrong_figure_tells_nothing() -> None:
    snapshot = company()
    told = completeness(check(cited("Revenue was $1 {Revenue}.", snapshot), snapshot), snapshot)
    assert told.told == ()


def test_names_and_what_is_not_known_are_told_by_citing_them() -> None:
    snapshot = Snapshot(
        "run", "r", None, (fact("worst", "name", "tip 2", material=True), fact("cost", "EUR", None))
    )
    text = cited("The worst is `tip 2` {worst}; the cost is not known {cost}.", snapshot)
    told = completeness(check(text, snapshot), snapshot)
    assert len(told.told) == 2
    assert told.material_coverage == 1


def test_no_facts_leave_nothing_out() -> None:
    empty = Snapshot("run", "r", None, ())
    report = check("Nothing came of it.", empty)
    assert report.passed
    assert completeness(report, empty).coverage == 1


@pytest.mark.parametrize(
    "text",
    [
        "You should know.",
        "Reviewers must look at it.",
        "Retire the tip.",
        "- Remove `tip 1` now",
        "We think so.",
        "It is recommended to wait.",
        "The operator failed again.",
        "It was broken by the developer.",
        "A human error, it seems.",
        "She forgot.",
        "Do not use it.",
        "Please wait.",
        "The blame lies: fault of Bob.",
        "Consider a retry.",
        "The team neglected it.",
        "It suggests that one wait.",
        "Always avoid the tip.",
        "Never use this tip again.",
        "First, retire the tip.",
        "Just retire the tip.",
        "Better retire the tip.",
        "Finally, run the sweep.",
        "Never again use it.",
        "- Then, replace the tip.",
        "Retire `tip 1`.",
        "Remove stale tips.",
        "Remove tips that failed.",
        "Monitor closely.",
        "Staff, retire it.",
        "It would be wise to retire the tip.",
        "It is time to retire the tip.",
        "It is worth retiring.",
        "The tip deserves retirement.",
        "The tip is to be avoided.",
        "The operator did not apply the tip.",
        "The operators never checked it.",
        "The user has failed.",
        "The operator's carelessness shows.",
        "The admin is the cause of it.",
        "It was overlooked by the staff.",
        "I think so.",
    ],
)
def test_instruction_and_blame_of_a_person_are_personal(text: str) -> None:
    assert not impersonal(text).passed


@pytest.mark.parametrize(
    "text",
    [
        CLEAN,
        "The tip misleads: attempts that followed it failed.",
        "Use of the tip fell.",
        "The script failed.",
        "The tip `you should set umask` was followed.",
        "US revenue was flat.",
        "The set of tips is small.",
        "The users file was changed by the script.",
        "Reviews disagree with the judge.",
        "The share is high, i.e. 71.6%.",
        "Human review found 5 failed attempts.",
        "5 failed attempts were found by human review.",
        "The user account rule failed 3 times.",
        "Rules of the category users failed more often.",
        "Check marks are green.",
        "Watch rules stayed open.",
        "Stop words are ignored.",
        "Start times were late.",
        "Test attempts failed.",
        "Run `x` counts 40 attempts.",
        "Change in the share: 3 points [F1].",
        "- Hold period: 5 days [F1]",
        "Use of cash: $5 [F1].",
        "It was better known.",
        "The tip that people followed failed 5 times.",
        "The tip was never followed.",
        "Data mine of tips.",
    ],
)
def test_tips_and_scripts_may_be_blamed(text: str) -> None:
    assert impersonal(text).passed, impersonal(text).faults


def test_a_personal_memo_loses_its_tenth() -> None:
    found = scored(CLEAN + " You should buy.")
    assert found.dimensions[Dimension.IMPERSONAL] == 0
    assert found.composite < 1
