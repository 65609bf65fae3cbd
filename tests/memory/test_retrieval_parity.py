"""Upstream's documented composite, computed by hand, under the table that makes the ranker upstream's.

Source: upstream's formula prefix + 0.30 category + 0.50 hit rate + 0.15 prior, x 0.5 for the same run,
and its table of what a row weighs.
"""

from __future__ import annotations

from typing import Any

import pytest

from memory.retrieval import RankRequest, rank
from tests.factories import make_tip
from tests.memory.ranking_rows import RULE, SCAP, UPSTREAM, history

pytestmark = pytest.mark.django_db

SAME: dict[str, Any] = {"source_rule_id": RULE, "category": "audit"}
BORN_WELL = {"outcome_at_source_value": 1.0, "outcome_at_source_confidence": 1.0}
HELPED = {"outcome": 1.0, "llm": True}

CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], float]] = {
    "same rule": (SAME | {"category": "other"}, [], 1.0),
    "same rule, without the SCAP prefix": (
        {"source_rule_id": RULE.removeprefix(SCAP), "category": "audit"}, [], 1.30,
    ),
    "same rule and category": (SAME, [], 1.30),
    "born of a success": (SAME | BORN_WELL, [], 1.45),
    "the most there is": (SAME | BORN_WELL, [HELPED, HELPED], 1.95),
    "same family: fchown for fchmod": (
        {"source_rule_id": f"{SCAP}audit_rules_dac_modification_fchown", "category": "other"}, [], 0.8,
    ),
    "sibling: two of five tokens": (
        {"source_rule_id": f"{SCAP}audit_rules_execution_chcon_x", "category": "other"}, [], 0.4,
    ),
    "sibling: two of six tokens": (
        {"source_rule_id": "audit_rules_unsuccessful_file_modification_open", "category": "other"},
        [], 2 / 6,
    ),
    "another domain, same category": ({"source_rule_id": "sshd_use_macs", "category": "audit"}, [], 0.3),
    "another domain and category: dropped": (
        {"source_rule_id": "sshd_use_macs", "category": "other"} | BORN_WELL, [], 0.0,
    ),
    "born of a failure: no prior": (
        SAME | {"outcome_at_source_value": 0.0, "outcome_at_source_confidence": 1.0}, [], 1.30,
    ),
    "born of a broken application": (
        SAME | {"outcome_at_source_value": -0.2, "outcome_at_source_confidence": 1.0}, [], 1.27,
    ),
    "prior counts by its confidence": (
        SAME | {"outcome_at_source_value": 0.5, "outcome_at_source_confidence": 0.8}, [], 1.36,
    ),
    "born in this run": (SAME | BORN_WELL | {"source_run_id": "run-now"}, [], 0.725),
    "followed into success": (SAME, [HELPED], 1.80),
    "ignored at a success": (SAME, [{"outcome": 1.0, "llm": False}], 1.30),
    "no judge, cosine of 0.6": (SAME, [{"outcome": 1.0, "emb": 0.6}], 1.80),
    "no judge, cosine below": (SAME, [{"outcome": 1.0, "emb": 0.59}], 1.30),
    "the judge outranks the cosine": (SAME, [{"outcome": 1.0, "llm": True, "emb": 0.1}], 1.80),
    "a person outranks the judge": (SAME, [{"outcome": 1.0, "llm": True, "review": False}], 1.30),
    "nothing known of it": (SAME, [{"outcome": 1.0}], 1.55),
    "followed into damage": (SAME, [{"outcome": -0.2, "llm": True}], 1.20),
    "no outcome: not counted": (SAME, [HELPED, {"outcome": None, "llm": False}], 1.80),
    "the mean of three rows": (
        SAME, [{"outcome": 0.8, "llm": True}, {"outcome": 0.0, "llm": True}, {"llm": False}],
        1.30 + 0.50 * 0.8 / 3,
    ),
    "value counts by its confidence": (
        SAME, [{"outcome": 0.5, "confidence": 0.8, "llm": True}], 1.30 + 0.50 * 0.4,
    ),
}  # fmt: skip

REQUEST = RankRequest("stig", RULE, category="audit", run="run-now")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_composite_is_upstreams(
    case: tuple[dict[str, Any], list[dict[str, Any]], float],
) -> None:
    fields, rows, expected = case
    tip = make_tip(**fields)
    if rows:
        history(tip, *rows)
    ranking = rank(REQUEST, weights=UPSTREAM)
    scores = {ranked.tip_id: ranked.score for ranked in ranking.tips}
    assert scores == ({tip.pk: pytest.approx(expected, abs=1e-9)} if expected > 0 else {})


def test_history_on_another_rule_says_nothing_without_back_off() -> None:
    tip = make_tip(**SAME)
    history(tip, HELPED, rule_id=f"{SCAP}audit_rules_dac_modification_fchown")
    assert rank(REQUEST, weights=UPSTREAM).tips[0].score == pytest.approx(1.30)


def test_the_later_coefficient_is_a_policy() -> None:
    tip = make_tip(**SAME)
    history(tip, {"outcome": 1.0, "llm": False})
    weights = UPSTREAM.model_copy(update={"policy": "adr0020"})
    assert rank(REQUEST, weights=weights).tips[0].score == pytest.approx(1.30 + 0.5 * 0.3)


def test_a_misleading_tip_of_the_very_rule_still_outranks_its_family() -> None:
    """What upstream's formula expresses, kept on purpose: its faults are measured, not hidden."""
    misled, family = (
        make_tip(**SAME),
        make_tip(source_rule_id=f"{SCAP}audit_rules_dac_modification_fchown", category="audit"),
    )
    history(misled, {"outcome": 0.0, "llm": True})
    assert [tip.tip_id for tip in rank(REQUEST, weights=UPSTREAM).tips] == [misled.pk, family.pk]
