"""Which tips are looked at, in what order they are cut, and by which indexes they are found."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from memory.candidates import Leg, legs_of
from memory.models.families import rule_prefix, rule_tokens
from memory.ranking_parts import RankRequest
from memory.shortlist import RULE as RULE_KIND
from memory.shortlist import Terms, shortlists
from tests.factories import make_tip
from tests.memory.ranking_rows import RULE, SCAP, UPSTREAM, rule_tip, swept

pytestmark = pytest.mark.django_db

REQUEST = RankRequest("stig", RULE, category="audit")


def found(request: RankRequest = REQUEST, **how: Any) -> dict[int, list[int]]:
    """Primary keys of the candidates by kind, ascending."""
    terms = Terms(request=request, weights=UPSTREAM, policy="adr0019", prior=0.0, near={})
    lists = shortlists(legs_of(request, **({"cap": 100} | how)), terms, wanted=1000)
    return {kind: sorted(one.tip_id for one in of.candidates) for kind, of in lists.items()}


def test_family_category_and_nearness_bring_each_tip_once() -> None:
    both = rule_tip()
    family = make_tip(source_rule_id="audit_else", category="other")
    category = make_tip(source_rule_id="sshd_x", category="audit")
    near = make_tip(source_rule_id="sshd_x", category="other")
    make_tip(source_rule_id="sshd_audit", category="other")
    assert found(near=[near.pk, both.pk])[RULE_KIND] == [both.pk, family.pk, category.pk, near.pk]


def test_a_tip_that_is_near_but_retired_or_of_another_skill_is_none() -> None:
    near = [swept(rule_tip()).pk, rule_tip(skill="cve").pk, rule_tip(text="").pk]
    assert found(near=near) == {}


def test_the_newest_are_kept_and_those_of_the_very_rule_are_cut_by_themselves() -> None:
    own = rule_tip(category="other")
    sisters = [
        make_tip(source_rule_id=f"{SCAP}audit_rules_x", category="other").pk for _ in range(4)
    ]
    assert found(cap=2)[RULE_KIND] == [own.pk, *sisters[2:]]


def test_nothing_is_found_for_nothing() -> None:
    make_tip(source_rule_id="", category="")
    assert found(RankRequest("stig", "")) == {}


def test_ids_of_scap_content_lose_what_they_share_whoever_named_them() -> None:
    disa = "xccdf_mil.disa.stig_rule_SV-257777r925318"
    assert rule_tokens(RULE) == ("audit", "rules", "dac", "modification", "fchmod")
    assert rule_tokens(disa) == ("sv-257777r925318",)
    assert rule_prefix(RULE, RULE.removeprefix(SCAP)) == 1.0
    assert rule_prefix(RULE, disa) == 0.0
    tips = [make_tip(source_rule_id=rule) for rule in (RULE, disa, "AUDIT_x", "", "_y")]
    for tip in tips:
        tip.refresh_from_db()
    assert [tip.rule_family for tip in tips] == ["audit", "sv-257777r925318", "audit", "", ""]


@pytest.mark.parametrize("rule", ["ÄB_c", "İX_c", "ΑΣ_b", "ẞA_b", "xccdf_a_rule_ÄΣ_b"])
def test_letters_beyond_ascii_make_the_same_family_here_and_there(rule: str) -> None:
    tip = make_tip(source_rule_id=rule)
    tip.refresh_from_db()
    assert tip.rule_family == rule_tokens(rule)[0]


@pytest.fixture
def many_tips() -> None:
    """8,000 tips of 200 families and 100 categories in three skills; a few hold for environments."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO tips (skill, external_id, text, text_sha256, tip_type, category, mechanism,
                source_rule_id, source_run_id, environment_tag, extra, text_repaired, created_at,
                retired_reason, scope, protected, holdout_exempt)
            SELECT (ARRAY['stig','cve','other'])[1 + n %% 3], 't' || n, 'text ' || n, '', 'strategy',
                'c' || n %% 100, '', 'f' || n %% 200 || '_x', '', 'e' || n %% 7, '{}', false, now(), '',
                CASE WHEN n %% 50 = 0 THEN 'environment' ELSE 'rule' END, false, false
            FROM generate_series(1, 8000) AS n
        """.replace("%%", "%")
        )
        cursor.execute("ANALYZE tips")


def plan_of(leg: Leg) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {leg.sql}", leg.parameters)
        return "\n".join(line for (line,) in cursor.fetchall())


@pytest.mark.usefixtures("many_tips")
def test_every_way_of_finding_tips_has_its_index() -> None:
    request = RankRequest("stig", "f3_x", category="c9", environment_tag="e3")
    legs = legs_of(request, cap=2000, canaries=True, near=[1, 2, 3])
    plans = [plan_of(leg) for leg in (*legs.rule, *legs.environment, *legs.retired)]
    assert not [plan for plan in plans if "Seq Scan" in plan]
    indexes = ("tip_source_rule", "tip_active_by_family", "tip_active_by_category", "tips_pkey",
               "tip_active_of_environment", "tip_", *["tip_retired"] * 3)  # fmt: skip
    for plan, index in zip(plans, indexes, strict=True):
        assert index in plan
