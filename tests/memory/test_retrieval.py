"""The ranker: order, candidates it may not miss, duplicates, and its reasons."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from contextgraph.skills import Ranking as Weights
from memory import evidence, retrieval, shortlist
from memory.candidates import legs_of
from memory.credit import UnknownPolicy, policy_named
from memory.models import Tip, TipEvidence
from memory.retrieval import RankRequest, rank
from memory.shrinkage import backed_off
from tests.factories import make_tip
from tests.memory.ranking_rows import (
    RULE,
    SCAP,
    UPSTREAM,
    history,
    rule_tip,
    swept,
    unit,
    with_vector,
)

pytestmark = pytest.mark.django_db

REQUEST = RankRequest("stig", RULE, category="audit", environment_tag="env-a")
BORN_WELL = {"outcome_at_source_value": 1.0, "outcome_at_source_confidence": 1.0}
PLAIN = UPSTREAM.model_copy(update={"environment_slots": 3})


def ids(ranking: retrieval.Ranking) -> list[int]:
    return [tip.tip_id for tip in ranking.tips]


# --- Order ----------------------------------------------------------------------------------------


def test_equal_composites_stand_by_base_and_then_by_key() -> None:
    weights = UPSTREAM.model_copy(update={"source_prior": 0.2, "category": 0.0})
    sibling = rule_tip(source_rule_id=f"{SCAP}audit_rules_dac_modification_fchown", **BORN_WELL)
    first, second = rule_tip(), rule_tip()
    ranking = rank(REQUEST, weights=weights)
    assert [tip.score for tip in ranking.tips] == [1.0, 1.0, 1.0]
    assert ids(ranking) == [first.pk, second.pk, sibling.pk]
    assert [tip.rank for tip in ranking.tips] == [1, 2, 3]


def test_a_tip_of_another_skill_or_a_retired_one_is_not_there() -> None:
    rule_tip(skill="cve")
    swept(rule_tip())
    rule_tip(text="")
    assert rank(REQUEST, weights=UPSTREAM).tips == ()


def test_history_of_another_skill_says_nothing() -> None:
    tip = rule_tip()
    history(rule_tip(skill="cve"), {"llm": True})
    assert rank(REQUEST, weights=UPSTREAM).tips[0].score == pytest.approx(1.3)
    assert ids(rank(REQUEST, weights=UPSTREAM)) == [tip.pk]


def test_an_unseen_pair_is_not_a_useless_one() -> None:
    useless, unseen, good = rule_tip(), rule_tip(), rule_tip()
    history(useless, *[{"outcome": 1.0, "llm": False}] * 6)
    history(good, *[{"outcome": 1.0, "llm": True}] * 6)
    upstream = rank(REQUEST, weights=UPSTREAM)
    assert [tip.score for tip in upstream.tips][1:] == [pytest.approx(1.3)] * 2
    assert ids(rank(REQUEST, weights=Weights(text_candidates=0))) == [
        good.pk,
        unseen.pk,
        useless.pk,
    ]


def test_ten_attempts_at_one_rule_do_not_outvote_other_rules() -> None:
    stubborn, other = rule_tip(), rule_tip()
    failed = {"outcome": 0.0, "llm": True}
    history(stubborn, *[failed] * 10, rule_id="audit_stubborn")
    for number in range(4):
        history(stubborn, {"llm": True}, rule_id=f"audit_{number}")
    history(other, failed, rule_id="audit_stubborn")
    history(other, {"llm": True}, rule_id="audit_0")
    assert ids(rank(REQUEST)) == [stubborn.pk, other.pk]
    by_row = Weights(unit="retrieval")
    assert ids(rank(REQUEST, weights=by_row)) == [other.pk, stubborn.pk]


def test_history_elsewhere_helps_by_back_off_and_only_by_it() -> None:
    unseen, seen = rule_tip(), rule_tip()
    for number in range(4):
        history(seen, {"llm": True}, rule_id=f"audit_{number}")
        history(make_tip(category="other"), {"llm": False}, rule_id=f"other_{number}")
    assert ids(rank(REQUEST)) == [seen.pk, unseen.pk]
    assert ids(rank(REQUEST, weights=Weights(back_off=False))) == [unseen.pk, seen.pk]


def test_a_review_outranks_the_signals_at_once() -> None:
    tip, other = rule_tip(), rule_tip()
    run = history(tip, {"llm": True}, {"llm": True})
    assert ids(rank(REQUEST)) == [tip.pk, other.pk]
    run.retrievals.update(tip_followed_review=False, tip_followed_review_by="reviewer")
    evidence.refresh([run.pk])
    assert ids(rank(REQUEST, weights=Weights(prior_mean=0.2))) == [other.pk, tip.pk]


# --- Every candidate counts -----------------------------------------------------------------------


def world(seed: int, size: int) -> None:
    """Tips of several rules with sums at all levels, some of which contradict each other."""
    chosen = random.Random(seed)
    rules = [f"{SCAP}audit_{a}_{b}" for a in ("x", "y") for b in ("p", "q", "r")] + ["", "other_x"]
    tips = Tip.objects.bulk_create(
        Tip(
            skill="stig",
            external_id=f"t{number}",
            text=f"text {number}",
            source_rule_id=chosen.choice(rules),
            category=chosen.choice(["audit", "other"]),
            source_run_id=chosen.choice(["", "run-now"]),
            outcome_at_source_value=chosen.choice([1.0, -1.0, 1e-300]),
            outcome_at_source_confidence=chosen.choice([1.0, 0.3, 1e-300]),
        )
        for number in range(size)
    )
    rows = []
    for level, key in (
        ("rule", f"{SCAP}audit_x_p"),
        ("category", "audit"),
        ("tip", ""),
        (None, ""),
    ):
        for tip in [*tips] if level else [None]:
            if tip is not None and chosen.random() < 0.4:
                continue
            visits = chosen.randrange(0, 6)
            total = round(visits * chosen.uniform(-1, 1), 6)
            rows.append(
                TipEvidence(
                    skill="stig",
                    policy="adr0019",
                    level=level or "skill",
                    key=key,
                    tip=tip,
                    rows=visits,
                    shown=visits,
                    followed=0,
                    ignored=0,
                    earned=0,
                    misleading=0,
                    lucky_neighbour=0,
                    bystander=0,
                    credit_n=visits,
                    credit_total=total,
                    visits=visits,
                    visit_total=total,
                    visit_squares=abs(total),
                )
            )
    TipEvidence.objects.bulk_create(rows)


class TheFirstChoice(TestCase):
    """What the database leaves out, and how roughly it adds up."""

    @given(
        st.integers(0, 10**6),
        st.sampled_from(["visit", "retrieval"]),
        st.sampled_from([0.0, 0.7, 2.0]),
        st.booleans(),
        st.sampled_from([None, 0.3, -1.0]),
        st.sampled_from([0.5, -2.0]),
    )
    def test_it_is_as_good_as_weighing_all(
        self,
        seed: int,
        unit_: Any,
        strength: float,
        back_off: bool,
        prior: float | None,
        credit: float,
    ) -> None:
        world(seed, 40)
        weights = Weights(
            unit=unit_, shrinkage=strength, back_off=back_off, prior_mean=prior, helpfulness=credit
        )
        request = RankRequest("stig", f"{SCAP}audit_x_p", category="audit", run="run-now", k=8)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(retrieval, "AT_LEAST", -6)
            narrow = rank(request, weights=weights)
            patch.setattr(retrieval, "AT_LEAST", 1000)
            assert rank(request, weights=weights) == narrow
        self._roughly(request, weights)

    def _roughly(self, request: RankRequest, weights: Weights) -> None:
        """Each candidate's rough composite is the exact one to a hundredth of the margin."""
        terms = shortlist.Terms(
            request=request, weights=weights, policy="adr0019", prior=0.25, near={}
        )
        legs = legs_of(request, cap=100)
        everyone = shortlist.shortlists(legs, terms, wanted=100)[shortlist.RULE]
        assert everyone.below == float("-inf")
        figures = evidence.figures_for(
            "stig", "adr0019", rule_id=request.rule_id, category="audit", unit=weights.unit,
            tip_ids=[one.tip_id for one in everyone.candidates],
        )  # fmt: skip
        composer = retrieval.Composer(request.rule_id, weights)
        exact = [
            composer.parts(
                one,
                mean=backed_off(
                    figures[one.tip_id], prior_mean=0.25,
                    strength=weights.shrinkage, back_off=weights.back_off,
                ).mean,
                cosine=None,
            ).composite
            for one in everyone.candidates
        ]  # fmt: skip
        exact.sort(reverse=True)
        for wanted in range(1, len(exact), 7):
            below = shortlist.shortlists(legs, terms, wanted=wanted)[shortlist.RULE].below
            if below > float("-inf"):
                assert below + shortlist.MARGIN == pytest.approx(exact[wanted - 1], abs=1e-8)


def test_no_tip_is_missed_behind_many_duplicates() -> None:
    for _ in range(40):
        rule_tip(text="Use update-crypto-policies.")
    other = rule_tip(category="other")
    ranking = rank(REQUEST, weights=UPSTREAM)
    assert ids(ranking)[1] == other.pk
    assert len(ranking.tips[0].duplicates) == 39


def test_twice_as_many_duplicates_take_a_few_more_queries_and_not_twice_as_many() -> None:
    counts = []
    for _ in range(2):
        for _ in range(200):
            rule_tip(text="Use update-crypto-policies.")
        with CaptureQueriesContext(connection) as queries:
            rank(REQUEST, weights=UPSTREAM)
        counts.append(len(queries))
    assert counts[0] < 20
    assert counts[1] <= counts[0] + 4


# --- Duplicates -----------------------------------------------------------------------------------


def test_the_best_of_several_equal_texts_stands_for_them() -> None:
    worse, best = rule_tip(text="Use FIPS."), rule_tip(text="use  fips", **BORN_WELL)
    ranking = rank(REQUEST, weights=UPSTREAM)
    assert ids(ranking) == [best.pk]
    (duplicate,) = ranking.tips[0].duplicates
    assert (duplicate.tip_id, duplicate.cosine) == (worse.pk, None)
    off = UPSTREAM.model_copy(update={"duplicate_similarity": 1.0})
    assert ids(rank(REQUEST, weights=off)) == [best.pk, worse.pk]


def test_near_vectors_are_one_advice_unless_they_say_the_opposite_or_another_value() -> None:
    near = unit(1.0, 0.1)
    first = with_vector(rule_tip(text="Restart the daemon after the change"), unit(1.0))
    alike = with_vector(rule_tip(text="After the change, restart the daemon"), near)
    never = with_vector(rule_tip(text="Never restart the daemon after the change"), near)
    mode = with_vector(rule_tip(text="Restart the daemon after the change of 0640"), near)
    far = with_vector(rule_tip(text="Restart it when the change is done"), unit(1.0, 1.0))
    alien = with_vector(rule_tip(text="Have the daemon restarted"), near, encoder="f" * 64)
    ranking = rank(REQUEST, weights=UPSTREAM)
    assert ids(ranking) == [first.pk, never.pk, mode.pk, far.pk, alien.pk]
    (duplicate,) = ranking.tips[0].duplicates
    assert duplicate.tip_id == alike.pk
    assert duplicate.cosine == pytest.approx(0.995, abs=1e-3)


# --- What it says of itself -----------------------------------------------------------------------


def test_the_parts_add_up_and_the_levels_are_there() -> None:
    tip = rule_tip(source_run_id="run-now", **BORN_WELL)
    history(tip, {"llm": True})
    history(tip, {"llm": False}, rule_id="audit_other")
    request = RankRequest("stig", RULE, category="audit", run="run-now")
    (ranked,) = rank(request, explain=True).tips
    parts = ranked.parts
    assert parts is not None
    total = parts.prefix + parts.category + parts.helpfulness + parts.source_prior
    assert ranked.score == pytest.approx((total + parts.similarity) * 0.5)
    assert parts.helpfulness == pytest.approx(0.5 * parts.mean)
    assert [(level.name, level.n) for level in parts.levels] == [
        ("skill", 2),
        ("tip", 0),
        ("category", 1),
        ("rule", 1),
    ]
    assert parts.levels[-1].mean == parts.mean
    assert all(level.low <= level.mean <= level.high for level in parts.levels)
    assert rank(request).tips[0].parts is None


def test_the_identity_changes_with_whatever_decides_the_order() -> None:
    first = rank(REQUEST).ranker
    assert rank(REQUEST, explain=True).ranker == first
    assert len(first) == 64
    others = [
        rank(REQUEST, weights=Weights(prefix=0.9)).ranker,
        rank(RankRequest("stig", RULE, policy="quadrant")).ranker,
        rank(RankRequest("stig", RULE, k=7)).ranker,
        rank(REQUEST, weights=Weights(duplicate_similarity=0.9)).ranker,
    ]
    assert len({first, *others}) == 5


def test_the_policy_may_be_named_and_must_be_known() -> None:
    tip = rule_tip()
    history(tip, {"outcome": 0.0, "llm": True})
    quadrant = RankRequest("stig", RULE, category="audit", policy="quadrant")
    weights = UPSTREAM.model_copy(update={"policy": ""})
    assert rank(quadrant, weights=weights).tips[0].score == pytest.approx(0.8)
    assert policy_named("quadrant").failure == -1.0
    with pytest.raises(UnknownPolicy, match="nonsense"):
        rank(RankRequest("stig", RULE, policy="nonsense"))


@pytest.mark.parametrize(
    "request_",
    [
        *[RankRequest("stig", RULE, k=k) for k in (0, 10_001, 3_000_000_000)],
        RankRequest("stig", "a\0b"),
        RankRequest("\ud800", RULE),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(request_: RankRequest) -> None:
    with pytest.raises(ValueError, match=r"k is a number from 1|NUL or lone surrogates"):
        rank(request_)


def test_a_rule_without_a_name_ranks_by_category() -> None:
    tip = rule_tip()
    ranking = rank(RankRequest("stig", "", category="audit"), weights=UPSTREAM)
    assert [(one.tip_id, one.score) for one in ranking.tips] == [(tip.pk, 0.3)]


def test_the_answer_is_plain_data() -> None:
    rule_tip(text="one")
    rule_tip(text="One")
    found = rank(REQUEST, explain=True).as_dict()
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(found, default=str))
    assert found["tips"][0]["duplicates"][0]["external_id"]
    assert found["tips"][0]["parts"]["composite"] == found["tips"][0]["score"]
