"""Each fact of each product equals what stands where its source says, and is labelled as what it is."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from contextgraph import pipeline
from memory.models import DreamPass, Retrieval, TipEvidence
from scoring.memos.naming import clean
from scoring.memos.products import snapshot_of
from tests.factories import make_attempt, make_retrieval, make_run, make_tip
from tests.scoring.memos.stored_values import stored
from tests.scoring.memos.worlds import make_memo_world, values_of

if TYPE_CHECKING:
    from pathlib import Path

    from scoring.memos.facts import Fact, Snapshot
    from tests.scoring.memos.worlds import World

pytestmark = pytest.mark.django_db

SUBJECTS = (
    ("run", "run-a"), ("run", "run-b"), ("tip", "tip-bad"), ("tip", "tip-good"), ("tip", "tip-lucky"),
    ("category", "ssh"), ("category", "audit"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _settings(settings: Any) -> None:
    settings.MEMOS, settings.SIGNALS = "off", ["trace"]


@pytest.fixture
def world() -> World:
    """Two runs; the second dreamed again after a reviewer spoke, so that it has changes to tell."""
    world = make_memo_world()
    rows = Retrieval.objects.filter(run=world.second, tip=world.bad, category="ssh")
    rows.update(tip_followed_review=False, tip_followed_review_by="ann")
    assert pipeline.recount(world.second.pk)
    return world


def compared(snapshot: Snapshot) -> list[str]:
    """The labels of the facts that stand somewhere, each of which equals what stands there."""
    found = []
    for item in snapshot.facts:
        values = [value for source in item.provenance if (value := stored(source)) is not None]
        if values:
            assert is_as(item, values), (item.label, item.value, item.provenance, values)
            found.append(item.label)
    return found


def is_as(item: Fact, values: list[Any]) -> bool:
    """Whether a fact has the value that is stored; of several to one fact the sum is meant."""
    if item.number is None:
        return all(item.value in {value, clean(str(value))} for value in values)
    total = sum(Decimal(repr(value)) for value in values)
    return item.number == round(total, 6)


@pytest.mark.parametrize(("product", "name"), SUBJECTS)
def test_every_fact_stands_where_its_source_says(world: World, product: str, name: str) -> None:
    snapshot = snapshot_of(product, name, skill="stig")
    found = compared(snapshot)
    assert len(found) >= {"run": 20, "tip": 8, "category": 10}[product], found
    if (product, name) == ("run", "run-b"):
        assert "tips called otherwise than at the last pass" in found


@pytest.mark.parametrize("category", ["a.b c/d", "100% [x]", "*", "é.%2E", "totals", ""])
def test_odd_names_of_categories_are_found_too(category: str) -> None:
    make_memo_world(category=category)
    assert len(compared(snapshot_of("category", category, skill="stig"))) >= 10
    assert len(compared(snapshot_of("run", "run-b"))) >= 20


# --- A part is not the whole --------------------------------------------------------------------------


def test_no_label_of_a_category_is_one_of_the_run_or_of_the_tip(world: World) -> None:
    here = values_of(snapshot_of("category", "ssh"))
    for product, name in (("run", "run-a"), ("run", "run-b"), ("tip", "tip-bad")):
        whole = values_of(snapshot_of(product, name))
        same = {label for label in here.keys() & whole.keys() if here[label] != whole[label]}
        assert not same
    figures = [label for label, value in here.items() if isinstance(value, Decimal)]
    assert figures
    assert all("in `ssh`" in label for label in figures)


def test_a_category_has_its_own_figures_and_the_run_has_the_runs(world: World) -> None:
    here = snapshot_of("category", "ssh")
    kept = DreamPass.objects.filter(run=world.second).order_by("-number")[0]
    sources = {item.label: item.provenance for item in here.facts}
    label = "misleading retrievals in `ssh` in `run-b`"
    assert sources[label] == (
        f"dream_passes:{kept.pk}#summary.categories.ssh.quadrants.misleading",
    )
    run = values_of(snapshot_of("run", "run-b"))
    assert values_of(here)[label] != run["misleading retrievals"]


def test_a_tip_in_a_category_has_the_figures_of_the_category() -> None:
    world = make_memo_world()
    values = values_of(snapshot_of("category", "audit"))
    row = TipEvidence.objects.get(tip=world.bad, level="category", key="audit", policy="quadrant")
    assert values["times `tip-bad` was followed into a failure in `audit`"] == row.misleading
    whole = values_of(snapshot_of("tip", "tip-bad"))
    assert whole["times `stig/tip-bad` was followed into a failure"] > row.misleading


# --- Credit -------------------------------------------------------------------------------------------


def test_the_credit_of_all_tips_is_called_what_it_is_and_the_policy_is_named(world: World) -> None:
    values = values_of(snapshot_of("tip", "tip-bad"))
    row = TipEvidence.objects.get(skill="stig", level="skill", policy="quadrant")
    plain = round(Decimal(row.visit_total) / row.visits, 6)
    assert values["unshrunk credit of all tips in the skill"] == plain
    assert not [label for label in values if label.startswith("shrunk") and "all tips" in label]
    assert values["credit policy"] == "quadrant"


@pytest.mark.parametrize("unit", ["visit", "retrieval"])
def test_the_credit_of_a_tip_is_of_what_the_skills_ranking_counts(
    unit: str, settings: Any, tmp_path: Path
) -> None:
    """Ten attempts at one rule are one visit; one success of another tip is as much."""
    (tmp_path / "stig").mkdir()
    (tmp_path / "stig" / "skill.toml").write_text(
        f'[grading]\nversion = "1"\nkind = "binary"\n[ranking]\nunit = "{unit}"\n'
    )
    settings.PROMPTS_DIR = tmp_path
    tip, other = make_tip(external_id="tip-one"), make_tip(external_id="tip-other")
    run = make_run(status="finalizing")
    for number in range(1, 11):
        attempt = make_attempt(run=run, rule_id="rule_a", number=number, outcome=0.0)
        make_retrieval(attempt=attempt, tip=tip, trace="followed")
    attempt = make_attempt(run=run, rule_id="rule_b", outcome=1.0)
    make_retrieval(attempt=attempt, tip=other, trace="followed")
    assert pipeline.finish(run.pk)
    snapshot = snapshot_of("tip", "tip-one")
    assert "visits behind the credit of `stig/tip-one`" in compared(snapshot) or unit != "visit"
    values = values_of(snapshot)
    counted = {label: value for label, value in values.items() if label.startswith("visits")}
    assert values["graded times `stig/tip-one` was followed"] == 10
    everything = values["unshrunk credit of all tips in the skill"]
    if unit == "visit":
        assert counted == {"visits behind the credit of `stig/tip-one`": 1}
        assert everything == 0
    else:
        assert counted == {}, "the credit is not of visits"
        assert everything == round(Decimal(-9) / 11, 6)


def test_a_tip_without_evidence_names_the_policy_too() -> None:
    world = make_memo_world()
    TipEvidence.objects.filter(tip=world.lucky).delete()
    assert values_of(snapshot_of("tip", "tip-lucky"))["credit policy"] == "quadrant"


def test_signals_of_two_policies_are_not_subtracted(world: World) -> None:
    label = "change in the signal in `ssh`"
    values = values_of(snapshot_of("category", "ssh"))
    assert values["credit policy in `run-a`"] == values["credit policy in `run-b`"] == "adr0019"
    assert label in values
    DreamPass.objects.filter(run=world.first).update(policy="quadrant")
    values = values_of(snapshot_of("category", "ssh"))
    assert values["credit policy in `run-a`"] == "quadrant"
    assert label not in values
