"""Places beside the k: tips of a whole environment, and canaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.models import Tip
from memory.retrieval import RankRequest, rank
from memory.snapshot import one_moment
from tests.factories import make_tip
from tests.memory.ranking_rows import (
    RULE,
    UPSTREAM,
    history,
    rule_tip,
    skill_files,
    swept,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import SettingsWrapper

    from memory import retrieval

pytestmark = pytest.mark.django_db

REQUEST = RankRequest("stig", RULE, category="audit", environment_tag="env-a")
BORN_WELL = {"outcome_at_source_value": 1.0, "outcome_at_source_confidence": 1.0}
PLAIN = UPSTREAM.model_copy(update={"environment_slots": 3})


def ids(ranking: retrieval.Ranking) -> list[int]:
    return [tip.tip_id for tip in ranking.tips]


# --- Environments ---------------------------------------------------------------------------------


def test_tips_of_the_environment_have_slots_of_their_own() -> None:
    own = [rule_tip() for _ in range(3)]
    here = make_tip(scope="environment", environment_tag="env-a")
    everywhere = make_tip(scope="environment", source_rule_id=RULE)
    make_tip(scope="environment", environment_tag="env-b", source_rule_id=RULE)
    ranking = rank(RankRequest("stig", RULE, environment_tag="env-a", k=3), weights=PLAIN)
    assert ids(ranking) == [*(tip.pk for tip in own), everywhere.pk, here.pk]
    assert [tip.environment for tip in ranking.tips] == [False, False, False, True, True]
    assert [tip.rank for tip in ranking.tips] == [1, 2, 3, 4, 5]
    one = rank(REQUEST, weights=PLAIN.model_copy(update={"environment_slots": 1}))
    assert [tip.tip_id for tip in one.tips if tip.environment] == [everywhere.pk]
    assert not [tip for tip in rank(REQUEST, weights=UPSTREAM).tips if tip.environment]


def test_a_tip_of_the_environment_that_harms_is_not_shown() -> None:
    harmful = make_tip(scope="environment")
    history(harmful, {"outcome": -0.2, "llm": True})
    assert rank(REQUEST, weights=PLAIN).tips == ()


# --- Canaries -------------------------------------------------------------------------------------


@pytest.fixture
def canaries(tmp_path: Path, settings: SettingsWrapper) -> None:
    settings.PROMPTS_DIR = skill_files(tmp_path, eviction="canary_rate = 0.25")


@pytest.mark.usefixtures("canaries")
def test_a_canary_comes_on_top_and_takes_nobodys_place() -> None:
    active = [rule_tip() for _ in range(6)]
    best = swept(rule_tip(**BORN_WELL))
    swept(rule_tip())
    environment = make_tip(scope="environment")
    ranking = rank(REQUEST, weights=PLAIN)
    assert ids(ranking) == [*(tip.pk for tip in active[:5]), best.pk, environment.pk]
    assert [tip.tip_id for tip in ranking.tips if tip.canary] == [best.pk]
    assert ranking.tips[5].rank == 6


@pytest.mark.usefixtures("canaries")
def test_a_canary_must_have_ranked_and_must_say_something_new() -> None:
    for _ in range(4):
        rule_tip(**BORN_WELL)
    rule_tip(text="Use FIPS", **BORN_WELL)
    swept(rule_tip(text="Use FIPS.", **BORN_WELL))
    swept(rule_tip())
    assert not [tip for tip in rank(REQUEST, weights=UPSTREAM).tips if tip.canary]
    # with a place free it need only be above zero
    wide = RankRequest("stig", RULE, category="audit", k=6)
    assert [tip.canary for tip in rank(wide, weights=UPSTREAM).tips] == [False] * 5 + [True]


@pytest.mark.usefixtures("canaries")
@pytest.mark.parametrize(
    "fields",
    [
        {"source_rule_id": "auditd_other", "category": "audit"},
        {"source_rule_id": "", "category": "", "scope": "environment"},
        {"source_rule_id": RULE, "category": ""},
    ],
)
def test_a_canary_is_found_in_every_way_that_it_was_retrieved_before(
    fields: dict[str, str],
) -> None:
    tip = swept(make_tip(**BORN_WELL, **fields))
    history(tip, {"outcome": 1.0, "llm": True})
    found = rank(REQUEST, weights=UPSTREAM).tips
    assert [(one.tip_id, one.canary) for one in found] == [(tip.pk, True)]


@pytest.mark.usefixtures("canaries")
def test_a_canary_and_its_twin_of_the_environment_do_not_stand_in_one_prompt() -> None:
    canary = swept(rule_tip(text="Mount /tmp with noexec", **BORN_WELL))
    make_tip(scope="environment", text="mount /tmp with noexec.")
    found = rank(REQUEST, weights=PLAIN).tips
    assert [(one.tip_id, one.canary) for one in found] == [(canary.pk, True)]
    assert len(found[0].duplicates) == 1


@pytest.mark.usefixtures("canaries")
def test_what_a_person_retired_stays_out() -> None:
    tip = swept(rule_tip())
    Tip.objects.filter(pk=tip.pk).update(retired_sweep=None)
    assert rank(REQUEST, weights=UPSTREAM).tips == ()


def test_tips_that_the_cap_leaves_out_are_counted_when_asked_why() -> None:
    for _ in range(4):
        rule_tip(category="audit")
    few = UPSTREAM.model_copy(update={"candidates": 3})
    said = rank(REQUEST, weights=few, explain=True).notes
    assert "category: the newest 3 of 4 tips were looked at ([ranking] candidates)" in said
    assert not [
        note for note in rank(REQUEST, weights=UPSTREAM, explain=True).notes if "newest" in note
    ]


# --- What is read -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("canaries")
def test_it_reads_a_few_times_whatever_there_is_and_never_the_retrievals() -> None:
    history(rule_tip(), {"llm": True})
    swept(rule_tip())
    make_tip(scope="environment")
    counts = []
    for _ in range(2):
        with one_moment(), CaptureQueriesContext(connection) as queries:
            rank(REQUEST)
        assert not [one for one in queries if "tip_retrievals" in one["sql"]]
        counts.append(len(queries))
        for _ in range(60):
            rule_tip(**BORN_WELL)
    assert max(counts) == 6  # the second time no canary is good enough
