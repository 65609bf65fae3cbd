"""Facts from rows: the figures are those of the rows, the sources name them, nobody else's are told."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from contextgraph import pipeline
from memory.models import DreamPass, Retrieval
from scoring.memos.facts import MAX_FACTS
from scoring.memos.products import UnknownProduct, UnknownSubject, snapshot_of
from tests.factories import make_attempt, make_retrieval, make_run, make_tip
from tests.scoring.memos.worlds import make_memo_world, values_of

if TYPE_CHECKING:
    from tests.scoring.memos.worlds import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(settings: Any) -> World:
    settings.MEMOS = "off"
    settings.SIGNALS = ["trace"]
    return make_memo_world()


def test_a_run_is_told_by_its_attempts_rules_and_retrievals(world: World) -> None:
    snapshot = snapshot_of("run", "run-b")
    values = values_of(snapshot)
    assert (snapshot.product, snapshot.identifier) == ("run", "stig/run-b")
    assert values["attempts"] == 9
    assert (values["successful attempts"], values["failed attempts"]) == (2, 6)
    assert values["ungraded attempts"] == 1
    assert (values["remediated rules"], values["graded rules"]) == (2, 8)
    assert values["share of graded rules remediated"] == 25
    assert values["retrievals"] == 16
    assert values["misleading retrievals"] == 6
    assert values["earned retrievals"] == 2
    assert values["lucky neighbour retrievals"] == 2
    assert values["bystander retrievals"] == 6
    assert values["share of answered retrievals that were followed"] == 50
    assert values["share of graded followed retrievals that failed"] == 75


def test_a_run_names_the_tip_that_misled_and_where(world: World) -> None:
    values = values_of(snapshot_of("run", "run-b"))
    assert values["tip that misled most"] == "tip-bad"
    assert values["misleading tips"] == 1
    assert values["times `tip-bad` was followed into a failure"] == 6
    assert values["times `tip-bad` was followed into a failure on `rule_0`"] == 1
    assert values["text of `tip-bad`"] == "Do it the bad way, 5 times"
    assert "times `tip-good` was followed" not in values


def test_a_run_is_held_against_the_run_before_it(world: World) -> None:
    values = values_of(snapshot_of("run", "run-b"))
    assert values["share of graded rules remediated in `run-a`"] == Decimal("87.5")
    assert values["change in the share of graded rules remediated"] == Decimal("-62.5")
    assert values["change in misleading retrievals"] == 5
    first = values_of(snapshot_of("run", "run-a"))
    assert not [label for label in first if label.startswith("change in")]


def test_what_was_answered_is_sourced_by_both_of_its_parts(world: World) -> None:
    sources = {item.label: item.provenance for item in snapshot_of("run", "run-b").facts}
    kept = [one.split("#")[1] for one in sources["answered retrievals in `run-a`"]]
    assert kept == ["summary.totals.followed", "summary.totals.ignored"]


def test_a_tip_is_told_by_its_sums(world: World) -> None:
    values = values_of(snapshot_of("tip", "tip-bad"))
    name = "`stig/tip-bad`"
    assert values[f"times {name} was retrieved"] == 7
    assert values[f"times {name} was followed into a failure"] == 7
    assert values[f"times {name} was followed into a success"] == 0
    assert values[f"share of graded times {name} was followed that failed"] == 100
    assert values[f"word for {name}"] == "misleading"
    assert values[f"shrunk credit of {name}"] < 0
    assert values[f"times {name} was followed into a failure on `rule_0`"] == 2


def test_a_tip_that_was_never_retrieved_has_zeros_and_no_shares() -> None:
    make_tip(external_id="new")
    values = values_of(snapshot_of("tip", "new"))
    assert values["times `stig/new` was retrieved"] == 0
    assert not [label for label in values if label.startswith(("share", "shrunk"))]
    assert values["word for `stig/new`"] == "untested"


def test_a_category_is_its_last_run_against_the_one_before(world: World) -> None:
    snapshot = snapshot_of("category", "ssh", skill="stig")
    values = values_of(snapshot)
    assert snapshot.identifier == "stig/ssh"
    assert values["share of graded rules remediated in `ssh` in `run-b`"] == 25
    assert values["share of graded rules remediated in `ssh` in `run-a`"] == 100
    assert values["change in the share of graded rules remediated in `ssh`"] == -75
    assert values["misleading retrievals in `ssh` in `run-b`"] == 3
    assert values["times `tip-bad` was followed into a failure in `ssh`"] == 3


def test_every_figure_names_its_source_and_counted_rows_are_those(world: World) -> None:
    for product, name in (("run", "run-b"), ("tip", "tip-bad"), ("category", "ssh")):
        for item in snapshot_of(product, name).facts:
            assert item.provenance or item.derived_from, item.label
    snapshot = snapshot_of("run", "run-b")
    source = {item.label: item.provenance for item in snapshot.facts}
    kept = DreamPass.objects.get(run=world.second)
    assert source["misleading retrievals"] == (
        f"dream_passes:{kept.pk}#summary.totals.quadrants.misleading",
        f"tip_retrievals?run_id={world.second.pk}&quadrant=misleading",
    )


@pytest.mark.parametrize("product", ["run", "tip", "category"])
def test_facts_of_unchanged_rows_have_one_fingerprint(world: World, product: str) -> None:
    name = {"run": "run-b", "tip": "tip-bad", "category": "ssh"}[product]
    assert snapshot_of(product, name).fingerprint() == snapshot_of(product, name).fingerprint()


def test_a_reviewer_changes_the_fingerprint_once_the_run_is_recounted(world: World) -> None:
    before = {
        (product, name): snapshot_of(product, name).fingerprint()
        for product, name in (("run", "run-b"), ("tip", "tip-bad"), ("category", "ssh"))
    }
    rows = Retrieval.objects.filter(run=world.second, tip=world.bad, category="ssh")
    rows.update(tip_followed_review=False, tip_followed_review_by="ann")
    assert pipeline.recount(world.second.pk)
    for (product, name), old in before.items():
        assert snapshot_of(product, name).fingerprint() != old
    assert (
        values_of(snapshot_of("run", "run-b"))["tips called otherwise than at the last pass"] == 1
    )


def test_a_run_without_a_pass_is_recounted_on_the_spot() -> None:
    attempt = make_attempt(outcome=0.0)
    make_retrieval(attempt=attempt, trace="followed")
    snapshot = snapshot_of("run", str(attempt.run_id))
    values = values_of(snapshot)
    assert snapshot.as_of is None
    assert (values["retrievals"], values["misleading retrievals"]) == (1, 1)
    assert not [one for item in snapshot.facts for one in item.provenance if "dream_passes" in one]


def test_a_run_without_rows_is_told_as_such() -> None:
    values = values_of(snapshot_of("run", make_run().external_id))
    assert (values["attempts"], values["retrievals"]) == (0, 0)
    assert "share of graded rules remediated" not in values


# --- Names ------------------------------------------------------------------------------------------


def test_a_subject_is_found_by_name_key_or_skill_and_name(world: World) -> None:
    ways = ("run-b", str(world.second.pk), "stig/run-b")
    assert {snapshot_of("run", way).identifier for way in ways} == {"stig/run-b"}
    ways = ("tip-bad", str(world.bad.pk), "stig/tip-bad")
    assert {snapshot_of("tip", way).identifier for way in ways} == {"stig/tip-bad"}
    for way, skill in (("ssh", None), ("stig/ssh", None), ("ssh", "stig")):
        assert snapshot_of("category", way, skill=skill).identifier == "stig/ssh"


def test_what_is_not_there_is_an_error_that_names_it(world: World) -> None:
    for product, name, skill in (
        ("run", "nosuch", None), ("run", "run-b", "other"), ("run", "", None), ("run", "/", None),
        ("tip", "nosuch", None), ("tip", "tip-bad", "other"), ("tip", str(world.bad.pk), "other"),
        ("tip", "a/b", None), ("category", "nosuch", None), ("category", "ssh", "other"),
        ("category", "", None), ("run", "\0", None), ("tip", "\ud800/x", None), ("category", "\0", "s"),
    ):  # fmt: skip
        with pytest.raises(UnknownSubject):
            snapshot_of(product, name, skill=skill)
    with pytest.raises(UnknownProduct, match="run, tip, category"):
        snapshot_of("company", "acme")


def test_a_name_that_two_skills_use_needs_the_skill(world: World) -> None:
    make_memo_world("cve")
    for product, name in (("run", "run-b"), ("tip", "tip-bad"), ("category", "ssh")):
        with pytest.raises(UnknownSubject):
            snapshot_of(product, name)
        assert snapshot_of(product, name, skill="cve").identifier.startswith("cve/")
        assert snapshot_of(product, f"cve/{name}").identifier.startswith("cve/")


def test_a_name_that_can_be_read_in_two_ways_is_nobodys(world: World) -> None:
    make_run(skill="stig", external_id="x/run-b")
    make_run(skill="stig/x", external_id="run-b")
    for way in ("stig/x/run-b", "run-b"):
        with pytest.raises(UnknownSubject, match="several"):
            snapshot_of("run", way)
    assert snapshot_of("run", "x/run-b", skill="stig").identifier == "stig/x/run-b"
    assert snapshot_of("run", "stig/run-b").identifier == "stig/run-b"
    with pytest.raises(UnknownSubject, match="several categories"):
        for skill, category in (("two", "a/b"), ("two/a", "b")):
            run = make_run(skill=skill, external_id="r", status="finalizing")
            make_attempt(run=run, rule_id="r", category=category, outcome=1.0)
            assert pipeline.finish(run.pk)
        snapshot_of("category", "two/a/b")


def test_an_older_revision_is_another_subject(world: World) -> None:
    old = make_run(external_id="run-b", superseded_at=world.first.started_at, revision=2)
    assert snapshot_of("run", str(old.pk)).identifier == "stig/run-b revision 2"


# --- Bounds -----------------------------------------------------------------------------------------


def test_the_facts_stay_few_whatever_the_run_holds(settings: Any) -> None:
    settings.MEMOS = "off"
    run = make_run(status="finalizing", external_id="large")
    for number in range(40):
        attempt = make_attempt(run=run, rule_id=f"r{number}", category=f"c{number}", outcome=0.0)
        make_retrieval(attempt=attempt, trace="followed")
    assert pipeline.finish(run.pk)
    assert len(snapshot_of("run", "large").facts) < MAX_FACTS / 4


def test_as_many_queries_for_a_long_history_as_for_a_short_one(world: World, settings: Any) -> None:
    subjects = (("run", "run-b"), ("tip", "tip-bad"), ("category", "ssh"))
    counts = []
    for _ in range(2):
        counts.append([queries_of(*subject) for subject in subjects])
        for number in range(4):
            make_more(world, number + 10 * len(counts))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("product", ["run", "tip", "category"])
def test_an_unknown_name_costs_a_few_queries_whatever_it_is(world: World, product: str) -> None:
    slashes = ("a/" * 400)[:-1]
    for name, most in ((slashes, 5), (f"stig/{slashes}", 9), ("a/" * 3_000, 0), ("a" * 1_002, 0)):
        with CaptureQueriesContext(connection) as queries, pytest.raises(UnknownSubject):
            snapshot_of(product, name)
        assert len(queries) <= most, (name[:20], len(queries))
    with CaptureQueriesContext(connection) as queries, pytest.raises(UnknownSubject) as caught:
        snapshot_of(product, "a", skill="s" * 501)
    assert len(queries) == 0
    assert len(str(caught.value)) < 400


def queries_of(product: str, name: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        snapshot_of(product, name)
    return len(queries)


def make_more(world: World, number: int) -> None:
    """An older run, in which all tips were retrieved again."""
    run = make_run(
        external_id=f"old-{number}", status="finalizing",
        started_at=world.first.started_at.replace(year=2020, day=number % 28 + 1),
    )  # fmt: skip
    attempt = make_attempt(run=run, rule_id="rule_0", category="ssh", outcome=0.0)
    make_retrieval(attempt=attempt, tip=world.bad, trace="followed")
    assert pipeline.finish(run.pk)
