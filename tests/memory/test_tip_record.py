"""The record of a tip: the audit's order and the ranker's mean, from sums alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from contextgraph.skills import load_skill
from memory.audit.scope import Scope
from memory.audit.suspects import suspects
from memory.credit import Quadrant, policy_named
from memory.flags import Flag
from memory.models import Tip, TipEvidence
from memory.rates import Rate
from memory.retirement import retire
from memory.retrieval import RankRequest, rank
from memory.tip_record import (
    POLICY,
    Against,
    Pool,
    by_policy,
    by_rule,
    flag_now,
    lines,
    rows_against,
    worst,
)
from tests.factories import NO_SUMS, make_tip
from tests.memory.sweep_histories import BYSTANDER, EARNED, LUCKY, MISLEADING, give_past

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.django_db


def with_past(*visits: Any, **fields: Any) -> Tip:
    tip = make_tip(**fields)
    give_past(tip, *visits)
    return tip


def order(against: Against, pool: Pool = Pool.ACTIVE, skill: str = "stig") -> list[int]:
    return [one.tip_id for one in worst(skill, against, pool)]


def test_the_order_is_the_audits_by_the_lower_end_of_the_interval() -> None:
    once = with_past(MISLEADING)
    often = with_past(*[MISLEADING] * 9, EARNED)
    mixed = with_past(*[MISLEADING] * 3, *[EARNED] * 3)
    with_past(EARNED, BYSTANDER)
    lucky = with_past(*[LUCKY] * 5)
    less = with_past(LUCKY, *[EARNED] * 2)
    with_past(MISLEADING, skill="cve")
    misleading, neighbours = suspects(
        Scope(skill="stig"), policy_named(POLICY), limit=10, uncalibrated=frozenset()
    )
    assert order(Against.MISLEADING) == [one.tip_id for one in misleading]
    assert order(Against.MISLEADING) == [often.pk, once.pk, mixed.pk]
    assert order(Against.LUCKY_NEIGHBOUR) == [one.tip_id for one in neighbours]
    assert order(Against.LUCKY_NEIGHBOUR) == [lucky.pk, less.pk]
    assert len(order(Against.BYSTANDER)) == 1
    assert order(Against.MISLEADING, skill="nothing") == []


def test_the_pool_says_which_tips() -> None:
    active, gone = with_past(MISLEADING), with_past(MISLEADING)
    retire(gone.pk, reason="r", by="ann")
    assert order(Against.MISLEADING) == [active.pk]
    assert order(Against.MISLEADING, Pool.RETIRED) == [gone.pk]
    assert order(Against.MISLEADING, Pool.ALL) == [active.pk, gone.pk]


def test_a_line_has_the_rankers_mean_of_the_tip_anywhere_and_the_flag() -> None:
    bad = with_past(*[MISLEADING] * 5)
    good = with_past(*[EARNED] * 4, MISLEADING)
    found = lines("stig", Against.MISLEADING, list(worst("stig", Against.MISLEADING, Pool.ALL)))
    assert [(one.evidence.tip_id, one.flag) for one in found] == [
        (bad.pk, Flag.MISLEADING),
        (good.pk, Flag.UNTESTED),
    ]
    assert found[0].rate == Rate(5, 5)
    assert found[0].mean is not None
    assert found[0].mean.n == 5


@pytest.mark.parametrize("unit", ["visit", "retrieval"])
@pytest.mark.parametrize("prior_mean", [None, 0.25])
def test_the_mean_of_a_line_is_the_one_that_the_ranker_explains(
    unit: str, prior_mean: float | None, settings: Any, tmp_path: Path
) -> None:
    """Two tips that differ: a prior of "the other tips" would differ as well."""
    prior = "" if prior_mean is None else f"prior_mean = {prior_mean}\n"
    (tmp_path / "stig").mkdir()
    (tmp_path / "stig" / "skill.toml").write_text(
        f'[grading]\nversion = "1"\nkind = "binary"\n[ranking]\nunit = "{unit}"\n{prior}'
    )
    settings.PROMPTS_DIR = tmp_path
    good = with_past(*[EARNED] * 3, MISLEADING, source_rule_id="sshd_a", text="one")
    bad = with_past(*[MISLEADING] * 3, source_rule_id="sshd_a", text="two")
    found = lines("stig", Against.MISLEADING, list(worst("stig", Against.MISLEADING, Pool.ALL)))
    shown = {one.evidence.tip_id: one.mean for one in found}
    # of a rule at which neither was tried all that is known is "the tip anywhere"
    weights = load_skill(tmp_path, "stig").ranking.model_copy(update={"helpfulness": 0.0})
    ranked = rank(RankRequest("stig", "sshd_b", policy=POLICY), explain=True, weights=weights).tips
    assert {one.tip_id for one in ranked} == {good.pk, bad.pk}
    assert {one.unit for tip in (good, bad) for one in by_policy(tip)} == {unit}
    for one in ranked:
        mean = shown[one.tip_id]
        assert mean is not None
        assert one.parts is not None
        (level,) = [each for each in one.parts.levels if each.name == "tip"]
        assert (level.mean, level.n) == (pytest.approx(mean.mean), mean.n)


def test_one_story_told_by_many_rows_is_no_flag() -> None:
    tip = make_tip()
    run = give_past(tip)
    give_past(tip, *[MISLEADING] * 5, run=run)
    TipEvidence.objects.filter(tip=tip).update(visits=1)  # ten attempts at one rule are one visit
    assert flag_now(tip) is Flag.UNTESTED


def test_a_tip_that_was_only_ignored_has_no_mean_but_a_word() -> None:
    tip = with_past(*[LUCKY] * 5)
    (line,) = lines(
        "stig", Against.LUCKY_NEIGHBOUR, list(worst("stig", Against.LUCKY_NEIGHBOUR, Pool.ALL))
    )
    assert (line.mean, line.flag) == (None, Flag.LUCKY_NEIGHBOUR)
    assert flag_now(tip) is Flag.LUCKY_NEIGHBOUR


def test_of_a_tip_that_no_run_has_retrieved_nothing_is_said() -> None:
    tip = make_tip()
    assert (flag_now(tip), by_policy(tip), by_rule(tip)) == (Flag.UNTESTED, [], [])


def test_the_record_has_every_policy_every_rule_and_the_rows_that_speak_against_the_tip() -> None:
    tip = with_past(MISLEADING, EARNED, LUCKY, BYSTANDER)
    with_past(MISLEADING)
    figures = {one.evidence.policy: one for one in by_policy(tip)}
    assert set(figures) == {"adr0019", "adr0020", "combined", "outcome_only", "quadrant"}
    assert figures["quadrant"].evidence.visits == 2
    rules = by_rule(tip)
    assert [(one.misleading, one.lucky_neighbour) for one in rules][:2] == [(1, 0), (0, 1)]
    assert len(rules) == 4
    (against,) = rows_against(tip, Quadrant.MISLEADING)
    assert (against.tip_id, against.source, against.outcome_value) == (tip.pk, "llm", 0.0)
    assert [row.outcome_value for row in rows_against(tip, Quadrant.LUCKY_NEIGHBOUR)] == [1.0]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def test_the_list_reads_sums_of_one_skill_by_index_and_no_retrieval() -> None:
    tips = Tip.objects.bulk_create(
        Tip(skill=f"skill {number % 10}", external_id=str(number)) for number in range(2000)
    )
    TipEvidence.objects.bulk_create(
        TipEvidence(tip=tip, skill=tip.skill, policy=policy, level="tip",
                    **NO_SUMS | {"misleading": 1, "rows": 1})
        for tip in tips
        for policy in ("adr0019", "quadrant", "outcome_only")
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE tips")
        cursor.execute("ANALYZE tip_evidence")
    rows = worst("skill 3", Against.MISLEADING, Pool.ACTIVE)
    assert rows.count() == 200
    (plan,) = json.loads(rows[:50].explain(format="json"))
    found = list(nodes(plan["Plan"]))
    assert not [node for node in found if node.get("Relation Name") == "tip_retrievals"]
    reads = [node for node in found if node.get("Relation Name") == "tip_evidence"]
    assert reads
    assert all(node["Node Type"] != "Seq Scan" for node in reads), plan
