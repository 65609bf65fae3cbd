"""The audit against rows counted by hand, and the promises that hold for every section."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.audit import ScopeError, audit
from memory.audit.scope import SKILLS_NAMED
from memory.credit import POLICIES
from memory.models import Retrieval, Tip
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from memory.models import Run

pytestmark = pytest.mark.django_db

ADR0019 = POLICIES["adr0019"]


def report(**scope: Any) -> dict[str, Any]:
    """An audit as its JSON."""
    return json.loads(json.dumps(audit(policy=ADR0019, **scope).as_dict()))


def story(
    run: Run, tip: Tip, outcomes: list[float | None], *, rule: str = "rule", **signals: Any
) -> None:
    """*tip* shown in one attempt per outcome, each at a rule of its own, with these signals."""
    for number, outcome in enumerate(outcomes):
        attempt = make_attempt(run=run, rule_id=f"{rule}_{number}", outcome=outcome)
        make_retrieval(attempt=attempt, tip=tip, **signals)


# --- Section 1 ------------------------------------------------------------------------------------


def test_a_tip_is_in_the_pool_once_however_often_it_was_retrieved() -> None:
    now = timezone.now()
    run = make_run()
    used = make_tip(tip_type="recovery", created_at=now - timedelta(days=3))
    make_tip(tip_type="recovery", created_at=now - timedelta(days=20), text="")
    make_tip(created_at=now - timedelta(days=90), retired_at=now, retired_reason="misleading")
    make_tip(skill="cve", created_at=now)
    story(run, used, [1.0, 0.0, 0.5])

    pool = report(skill="stig", now=now)["tip_pool"]
    assert [pool[name] for name in ("total", "active", "retired", "with_text")] == [3, 2, 1, 2]
    assert (pool["new_7_days"], pool["new_30_days"]) == (1, 2)
    assert pool["by_type"] == [
        {"tip_type": "recovery", "total": 2, "active": 2},
        {"tip_type": "strategy", "total": 1, "active": 0},
    ]
    assert report(now=now)["tip_pool"]["total"] == 4
    assert report(run=run, now=now)["tip_pool"]["total"] == 1


# --- Section 2 ------------------------------------------------------------------------------------


def test_activity_counts_what_each_run_retrieved_latest_first() -> None:
    old, new = make_run(), make_run()
    tip = make_tip()
    story(old, tip, [1.0, 0.0], llm=True)
    story(old, tip, [1.0], rule="other", llm=False)
    story(old, make_tip(), [1.0], rule="unknown")
    story(old, make_tip(), [1.0], rule="unshown", shown=False)

    latest, earlier = report()["activity"]
    assert (latest["external_id"], latest["retrievals"]) == (new.external_id, 0)
    assert latest["follow_rate"] == {"rate": None, "low": None, "high": None, "hits": 0, "n": 0}
    names = ("retrievals", "present", "judged", "followed", "ignored", "unknown")
    assert [earlier[name] for name in names] == [5, 4, 3, 2, 1, 1]
    assert (earlier["follow_rate"]["hits"], earlier["follow_rate"]["n"]) == (2, 3)
    assert earlier["follow_rate"]["low"] == pytest.approx(0.2077, abs=1e-4)
    assert len(report(limit=1)["activity"]) == 1


# --- Section 3 ------------------------------------------------------------------------------------


def test_a_tip_belongs_to_the_cohort_of_its_first_run_also_in_a_later_audit() -> None:
    march = make_run(external_id="march", started_at=MOMENT)
    april = make_run(external_id="april", started_at=MOMENT + timedelta(days=31))
    early, late = make_tip(), make_tip()
    story(march, early, [1.0, -0.2], llm=True)
    story(april, early, [0.0], rule="r", llm=True)
    story(april, late, [0.8], rule="s", llm=False)

    found = report()["cohorts"]
    newest, oldest = found["by_month"]
    assert (newest["key"], newest["tips"], newest["retrievals"]) == ("2026-04", 1, 1)
    assert (oldest["key"], oldest["tips"], oldest["retrievals"]) == ("2026-03", 1, 3)
    assert (oldest["helpful_when_present"]["hits"], oldest["helpful_when_present"]["n"]) == (1, 3)
    assert oldest["outcome_when_followed"] == {"mean": pytest.approx(0.266667), "n": 3}
    assert newest["helpful_when_present"]["rate"] == 1.0
    assert newest["helpful_when_followed"]["rate"] is None
    assert [cohort["key"] for cohort in found["by_first_run"]] == ["april", "march"]

    of_april = report(run=april)["cohorts"]["by_first_run"]
    assert [(cohort["key"], cohort["retrievals"]) for cohort in of_april] == [
        ("april", 1),
        ("march", 1),
    ]


# --- Section 4 ------------------------------------------------------------------------------------


def test_misleading_tips_stand_apart_from_lucky_neighbours() -> None:
    run = make_run(external_id="run-x")
    misleading = make_tip(external_id="misleading", text="append it at the end")
    lucky = make_tip(external_id="lucky")
    both = make_tip(external_id="both")
    harmless = make_tip(external_id="harmless")
    story(run, misleading, [0.0, -0.2, 0.0], rule="a", llm=True)
    story(run, lucky, [1.0, 0.8], rule="b", llm=False)
    story(run, both, [0.0, 1.0], rule="c", emb=0.7)
    story(run, both, [1.0], rule="d", trace="violated")
    story(run, harmless, [0.0], rule="e", llm=False)
    story(run, harmless, [1.0], rule="f", llm=True)

    found = report()
    assert [tip["tip"] for tip in found["misleading"]] == ["misleading", "both"]
    assert [tip["tip"] for tip in found["lucky_neighbours"]] == ["lucky", "both"]
    first, second = found["misleading"]
    assert first["text"] == "append it at the end"
    assert (first["rate"]["hits"], first["rate"]["n"], first["also"]) == (3, 3, "")
    assert (second["rate"]["hits"], second["rate"]["n"]) == (1, 2)
    assert second["also"] == "lucky_neighbour"
    worst = first["evidence"][0]
    assert {name: worst[name] for name in worst if name != "retrieval_id"} == {
        "run": "run-x",
        "rule_id": "a_1",
        "attempt": 1,
        "outcome_value": -0.2,
        "source": "llm",
        "uncalibrated": True,
    }
    assert second["evidence"][0]["source"] == "emb"
    assert found["lucky_neighbours"][1]["evidence"][0]["source"] == "trace"


def test_much_evidence_outranks_a_single_row_and_the_list_is_bounded() -> None:
    run = make_run()
    once, often = make_tip(external_id="once"), make_tip(external_id="often")
    story(run, once, [0.0], rule="once", llm=True)
    story(run, often, [0.0] * 9 + [1.0], rule="often", llm=True)
    assert [tip["tip"] for tip in report()["misleading"]] == ["often", "once"]
    (only,) = report(limit=1)["misleading"]
    assert only["tip"] == "often"
    assert len(only["evidence"]) == 5
    assert {row["outcome_value"] for row in only["evidence"]} == {0.0}


def test_a_review_clears_a_misleading_tip_at_once() -> None:
    tip = make_tip()
    story(make_run(), tip, [0.0, 0.0], llm=True)
    assert report()["misleading"]
    Retrieval.objects.update(tip_followed_review=False, tip_followed_review_by="reviewer")
    assert report()["misleading"] == []


# --- Section 5 ------------------------------------------------------------------------------------


def test_outcomes_are_counted_per_attempt_and_per_retrieval() -> None:
    run = make_run()
    for outcome in (1.0, 0.8, 0.7, 0.5, 0.0, -0.2, None):
        attempt = make_attempt(run=run, outcome=outcome)
        for _ in range(2):
            make_retrieval(attempt=attempt)
    make_attempt(run=run, outcome=1.0)  # an attempt without any tip
    found = report()["outcomes"]
    expected = {"weak": 2, "zero": 1, "negative": 1, "null": 1, "minimum": -0.2, "maximum": 1.0}
    assert found["attempts"] == expected | {"strong": 3}
    assert found["retrievals"] == expected | {
        "strong": 4, "weak": 4, "zero": 2, "negative": 2, "null": 2,
    }  # fmt: skip
    assert found["null_reasons"] == {"no_outcome": 1}
    assert found["flags"] == []  # seven graded attempts are too few


@pytest.mark.parametrize(
    ("outcomes", "codes"),
    [
        ([1.0] * 12 + [0.0] * 12, ["no_negatives", "bimodal"]),
        ([1.0] * 12 + [0.5] * 6 + [0.0] * 6, ["no_negatives"]),
        ([1.0] * 12 + [0.0] * 11 + [-0.2], ["bimodal"]),
        ([1.0] * 20 + [0.5] * 3 + [-0.2], []),
        ([1.0] * 10 + [0.0] * 9 + [None] * 9, []),
    ],
)
def test_flags_name_what_looks_wrong(outcomes: list[float | None], codes: list[str]) -> None:
    run = make_run()
    for outcome in outcomes:
        make_attempt(run=run, outcome=outcome)
    assert [flag["code"] for flag in report()["outcomes"]["flags"]] == codes


def test_a_category_that_is_won_without_following_is_suspiciously_easy() -> None:
    run = make_run()
    for category, llm in (("passwords", False), ("ssh", True)):
        for number in range(5):
            attempt = make_attempt(run=run, rule_id=f"{category}_{number}", category=category)
            make_retrieval(attempt=attempt, llm=llm)
    found = report()["outcomes"]
    (easy,) = found["easy_categories"]
    assert (easy["category"], easy["first_try_wins"]["n"]) == ("passwords", 5)
    assert (easy["follow_rate"]["hits"], easy["follow_rate"]["n"]) == (0, 5)
    (flag,) = found["flags"]
    assert flag["code"] == "suspiciously_easy"
    assert "5 of 5 rules won at the first try, 0 of 5" in flag["detail"]


# --- Section 6 ------------------------------------------------------------------------------------


def test_stale_confident_tips_promised_more_than_they_keep() -> None:
    run = make_run()
    source = {"outcome_at_source_value": 1.0, "outcome_at_source_confidence": 0.9}
    poor = [0.0, 0.0, 0.0, -0.2, 0.5]  # mean 0.06
    stale, kept = make_tip(external_id="stale", **source), make_tip(**source)
    story(run, stale, poor, rule="a")
    story(run, kept, [*poor, 0.5], rule="b")  # mean 0.13
    story(run, make_tip(**source), poor[:4], rule="c")  # too few
    story(run, make_tip(**source | {"outcome_at_source_confidence": 0.5}), poor, rule="d")
    story(run, make_tip(), poor, rule="e")  # nobody knows where it comes from
    retired = make_tip(**source, retired_at=MOMENT, retired_reason="misleading")
    story(run, retired, poor, rule="f")
    tiny = {"outcome_at_source_value": 1e-200, "outcome_at_source_confidence": 1e-200}
    story(run, make_tip(**tiny), poor, rule="g")

    (found,) = report()["stale_confident"]
    assert (found["tip"], found["retrievals"]) == ("stale", 5)
    assert found["outcome_when_present"] == 0.06
    assert (found["source_value"], found["source_confidence"]) == (1.0, 0.9)


# --- Signals --------------------------------------------------------------------------------------


def test_coverage_counts_every_row_under_its_reason() -> None:
    attempt = make_attempt()
    make_retrieval(attempt=attempt, llm=True, emb=0.5, trace="followed", review=True)
    make_retrieval(attempt=attempt, llm_reason="judge_error", trace="abstained")
    make_retrieval(attempt=attempt, shown=False)
    signals = {entry["signal"]: entry for entry in report()["coverage"]}
    assert signals["llm"]["null_reasons"] == {"judge_error": 1, "not_shown": 1}
    assert signals["emb"]["null_reasons"] == {"not_shown": 1, "pending": 1}
    assert signals["trace"]["null_reasons"] == {"not_shown": 1, "trace_abstained": 1}
    assert {entry["labelled"]["hits"] for entry in signals.values()} == {1}
    assert {entry["labelled"]["n"] for entry in signals.values()} == {3}


def test_agreement_counts_pairs_that_both_answered() -> None:
    attempt = make_attempt()
    table = [(True, 0.9), (True, 0.7), (True, 0.2), (False, 0.65), (False, 0.1), (False, 0.3)]
    for llm, emb in table:
        make_retrieval(attempt=attempt, llm=llm, emb=emb)
    make_retrieval(attempt=attempt, llm=True, trace="abstained")
    pairs = {(pair["first"], pair["second"]): pair for pair in report()["agreement"]}
    judge_embedding = pairs["llm", "emb"]
    assert (judge_embedding["agreement"]["hits"], judge_embedding["agreement"]["n"]) == (4, 6)
    assert judge_embedding["kappa"] == pytest.approx(1 / 3, abs=1e-6)
    assert judge_embedding["only_second_followed"] == 1
    assert pairs["llm", "trace"]["agreement"]["n"] == 0
    assert pairs["llm", "trace"]["kappa"] is None
    assert len(pairs) == 6


# --- Every section --------------------------------------------------------------------------------


def test_a_superseded_revision_is_in_no_section() -> None:
    old = make_run(superseded_at=MOMENT)
    story(old, make_tip(), [0.0] * 25, llm=True)
    found = report()
    assert found["activity"] == []
    assert found["cohorts"] == {"by_month": [], "by_first_run": []}
    assert (found["misleading"], found["stale_confident"]) == ([], [])
    assert found["outcomes"]["attempts"]["zero"] == found["outcomes"]["retrievals"]["zero"] == 0
    assert found["coverage"][0]["labelled"]["n"] == 0
    with pytest.raises(ScopeError, match="superseded by a later revision"):
        audit(policy=ADR0019, run=old)


def test_each_section_keeps_to_the_scope_it_was_given() -> None:
    run, other = make_run(), make_run()
    foreign = make_run(skill="cve")
    for one in (run, other, foreign):
        story(one, make_tip(skill=one.skill), [0.0] * 2, rule="a", llm=True)
    for scope, n in (({}, 3), ({"skill": "stig"}, 2), ({"run": run}, 1)):
        found = report(**scope)
        assert len(found["misleading"]) == len(found["activity"]) == n
        assert found["tip_pool"]["total"] == n
        assert found["outcomes"]["attempts"]["zero"] == 2 * n
        assert found["coverage"][0]["labelled"]["n"] == 2 * n
        assert sum(cohort["tips"] for cohort in found["cohorts"]["by_first_run"]) == n
    with pytest.raises(ScopeError, match="is of skill 'cve', not 'stig'"):
        audit(policy=ADR0019, run=foreign, skill="stig")


def test_a_skill_that_nothing_is_stored_about_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ScopeError, match="'typo'; there are: none, nothing is stored yet"):
        audit(policy=ADR0019, skill="typo")
    make_run(skill="stig")
    make_tip(skill="cve")
    for unknown in ("typo", "STIG", "", "stig\0", "\udcff"):
        with pytest.raises(ScopeError, match=r"there are: 'cve', 'stig'$"):
            audit(policy=ADR0019, skill=unknown)
    assert report(skill="stig")["tip_pool"]["total"] == 0
    assert report(skill="cve")["activity"] == []
    for number in range(SKILLS_NAMED):
        make_tip(skill=f"a{number}")
    with pytest.raises(ScopeError, match=r"'a0', .*, and more$"):
        audit(policy=ADR0019, skill="typo")


def test_the_report_says_which_signals_its_credit_reads_and_adds_the_one_that_reads_all() -> None:
    run = make_run()
    story(run, make_tip(), [0.0], emb=0.9, trace="violated")
    story(run, make_tip(), [0.0], rule="followed", trace="followed")
    for policy, reads, credit in (
        ("adr0019", ["review", "llm", "emb"], {"mean": 0.0, "n": 2}),
        ("outcome_only", [], {"mean": 0.0, "n": 2}),
        ("quadrant", ["review", "llm", "trace", "emb"], {"mean": -1.0, "n": 1}),
    ):
        found = json.loads(json.dumps(audit(policy=POLICIES[policy]).as_dict()))
        assert found["policy_reads"] == reads
        (tally,) = found["cohorts"]["by_first_run"]
        assert tally["credit"] == credit
        assert tally["quadrant_credit"] == {"mean": -1.0, "n": 1}


def test_the_number_of_queries_does_not_grow_with_the_rows() -> None:
    counts = []
    for _ in range(2):
        run = make_run()
        for llm in (True, False):
            for _ in range(6):
                story(run, make_tip(), [0.0, 1.0], rule=f"r{Retrieval.objects.count()}", llm=llm)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            audit(policy=ADR0019)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_an_empty_memory_gives_an_empty_report() -> None:
    found = report()
    assert found["tip_pool"]["total"] == 0
    assert found["outcomes"]["attempts"]["minimum"] is None
    assert all(pair["kappa"] is None for pair in found["agreement"])
    assert found["scope"] == {"skill": None, "run": None}
