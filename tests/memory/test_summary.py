"""The dream pass: a small run counted by hand, and the promises about recounting."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from memory.credit import POLICIES, Quadrant, credit, following, quadrant, row_of
from memory.models import Retrieval
from memory.rates import Mean, Rate
from memory.summary import CategorySignal, digest, summarise
from tests.factories import make_attempt, make_dream_pass, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from django.test.utils import CaptureQueriesContext

    from memory.models import Run

pytestmark = pytest.mark.django_db

ADR0019 = POLICIES["adr0019"]


@pytest.fixture
def run() -> Run:
    """Two categories, four tips.

    ssh:   rule_a fails (0.0), then passes at attempt 2 (0.8); rule_b fails with broken health (-0.2)
    audit: rule_c passes (1.0); rule_d has no verdict

    tip 1 followed at rule_a #1 and #2 and at rule_b; tip 2 ignored at rule_a #2 and at rule_c;
    tip 3 shown at rule_b, nobody knows, and not shown at rule_c; tip 4 followed, no verdict.
    """
    run = make_run()
    a1 = make_attempt(run=run, rule_id="rule_a", number=1, outcome=0.0)
    a2 = make_attempt(run=run, rule_id="rule_a", number=2, outcome=0.8)
    b1 = make_attempt(run=run, rule_id="rule_b", outcome=-0.2)
    c1 = make_attempt(run=run, rule_id="rule_c", outcome=1.0, category="audit")
    d1 = make_attempt(run=run, rule_id="rule_d", outcome=None, category="audit")
    one, two, three, four = (make_tip(external_id=f"t{number}") for number in (1, 2, 3, 4))
    make_retrieval(attempt=a1, tip=one, llm=True)
    make_retrieval(attempt=a2, tip=one, llm=True)
    make_retrieval(attempt=b1, tip=one, emb=0.7)
    make_retrieval(attempt=a2, tip=two, llm=False)
    make_retrieval(attempt=c1, tip=two, trace="violated")
    make_retrieval(attempt=b1, tip=three)
    make_retrieval(attempt=c1, tip=three, shown=False)
    make_retrieval(attempt=d1, tip=four, review=True)
    return run


def tip_named(summary: dict[str, Any], name: str) -> dict[str, Any]:
    """The entry of one tip."""
    (found,) = [tip for tip in summary["tips"] if tip["tip"] == name]
    return found


def test_each_tip_is_counted_when_present_and_when_followed(run: Run) -> None:
    summary = summarise(run, policy=ADR0019)
    assert [tip["tip"] for tip in summary["tips"]] == ["t1", "t2", "t3", "t4"]
    one = tip_named(summary, "t1")
    assert [one[name] for name in ("retrievals", "present", "followed", "ignored", "unknown")] == [
        3, 3, 3, 0, 0,
    ]  # fmt: skip
    assert one["quadrants"] == {
        "earned": 1, "misleading": 2, "lucky_neighbour": 0, "bystander": 0, "unknown": 0,
    }  # fmt: skip
    assert (one["helpful_when_followed"]["hits"], one["helpful_when_followed"]["n"]) == (1, 3)
    assert one["outcome_when_followed"] == {"mean": 0.2, "n": 3}
    assert one["credit"] == {"mean": 0.2, "n": 3}
    assert one["follow_rate"]["rate"] == 1.0

    two = tip_named(summary, "t2")
    assert two["quadrants"]["lucky_neighbour"] == 2
    assert two["helpful_when_present"]["rate"] == 1.0
    assert two["helpful_when_followed"]["rate"] is None
    assert two["credit"] == {"mean": 0.25, "n": 2}  # 0.0 ignored by the judge, 1.0 x 0.5 unknown

    three = tip_named(summary, "t3")
    assert [three[name] for name in ("retrievals", "present", "unknown")] == [2, 1, 1]
    assert three["outcome_when_present"] == {"mean": -0.2, "n": 1}

    four = tip_named(summary, "t4")
    assert (four["followed"], four["credit"]["n"]) == (1, 0)
    assert four["quadrants"]["unknown"] == 1


def test_the_follow_aware_signal_stands_beside_the_legacy_one(run: Run) -> None:
    audit, ssh = summarise(run, policy=ADR0019)["categories"]
    assert (audit["category"], ssh["category"]) == ("audit", "ssh")
    # rule_d has no verdict and is in no denominator
    assert (audit["rules_remediated"]["hits"], audit["rules_remediated"]["n"]) == (1, 1)
    assert (ssh["rules_remediated"]["hits"], ssh["rules_remediated"]["n"]) == (1, 2)
    assert (audit["legacy_signal"], ssh["legacy_signal"]) == (1.0, 0.0)
    # ssh: known rows 0.0, 0.8, -0.2 (followed) and 0.0 (ignored): mean 0.15
    assert (ssh["follow_aware_signal"], ssh["follow_aware_n"]) == (-0.7, 4)
    assert (audit["follow_aware_signal"], audit["follow_aware_n"]) == (None, 0)
    assert ssh["basis"] == "legacy"


def test_five_known_rows_are_enough_for_the_follow_aware_signal(run: Run) -> None:
    make_retrieval(attempt=make_attempt(run=run, outcome=1.0), llm=True)
    (_, ssh) = summarise(run, policy=ADR0019)["categories"]
    assert (ssh["basis"], ssh["follow_aware_n"]) == ("follow_aware", 5)
    assert ssh["follow_aware_signal"] == pytest.approx(2 * 1.6 / 5 - 1)


def test_a_policy_with_negative_failures_needs_no_rescaling(run: Run) -> None:
    (_, ssh) = summarise(run, policy=POLICIES["quadrant"])["categories"]
    assert (ssh["follow_aware_signal"], ssh["follow_aware_n"]) == (-0.4, 3)  # (-1 + 0.8 - 1) / 3
    assert summarise(run, policy=POLICIES["outcome_only"])["categories"][1]["follow_aware_n"] == 0


@pytest.mark.parametrize(("signed", "expected"), [(False, -1.0), (True, -0.2)])
def test_a_category_of_broken_servers_stays_on_the_scale(signed: bool, expected: float) -> None:
    found = CategorySignal(rules=Rate(0, 5), known=Mean(-1.0, 5), signed=signed)
    assert found.follow_aware == expected
    assert found.legacy == -1.0


def test_coverage_says_why_signals_are_missing(run: Run) -> None:
    signals = {entry["signal"]: entry for entry in summarise(run, policy=ADR0019)["coverage"]}
    assert signals["llm"]["labelled"]["hits"] == 3
    assert signals["llm"]["null_reasons"] == {"not_shown": 1, "pending": 4}
    assert signals["review"]["labelled"]["hits"] == 1
    assert all(entry["labelled"]["n"] == 8 for entry in signals.values())


def test_totals_agree_with_the_rows_counted_one_by_one(run: Run) -> None:
    rows = [row_of(row) for row in Retrieval.objects.filter(run=run)]
    for policy in POLICIES.values():
        totals = summarise(run, policy=policy)["totals"]
        assert totals["retrievals"] == len(rows)
        assert totals["followed"] == sum(following(row)[0] is True for row in rows)
        assert totals["ignored"] == sum(following(row)[0] is False for row in rows)
        known = [which for which in map(quadrant, rows) if which is not Quadrant.UNKNOWN]
        for which in set(known):
            assert totals["quadrants"][which] == known.count(which)
        credits = [earned for row in rows if (earned := credit(row, policy)) is not None]
        assert totals["credit"]["n"] == len(credits)
        assert totals["credit"]["mean"] == pytest.approx(sum(credits) / len(credits), abs=1e-6)


def test_a_recount_is_byte_identical_and_storable(run: Run) -> None:
    first = json.dumps(summarise(run, policy=ADR0019))
    for row in Retrieval.objects.order_by("-pk"):
        row.save()  # moves every row to another place in the table
    assert json.dumps(summarise(run, policy=ADR0019)) == first
    stored = make_dream_pass(run=run, summary=json.loads(first))
    stored.refresh_from_db()
    assert digest(stored.summary) == digest(summarise(run, policy=ADR0019))
    Retrieval.objects.filter(tip__external_id="t3", shown=True).update(
        tip_followed_review=True, tip_followed_review_by="reviewer"
    )
    assert digest(summarise(run, policy=ADR0019)) != digest(stored.summary)


def test_a_value_is_a_shrunk_mean_over_visits_with_its_interval(run: Run) -> None:
    one = tip_named(summarise(run, policy=ADR0019), "t1")["visits"]
    # two visits: rule_a (0.0 and 0.8, so 0.4) and rule_b (-0.2)
    assert (one["known"], one["credit"]["n"]) == (2, 2)
    # the run's visits: 0.4, -0.2 (tip 1), 0.0, 0.5 (tip 2), -0.1 (tip 3): the prior is 0.12
    assert one["credit"]["mean"] == pytest.approx((2 * 0.12 + 0.4 - 0.2) / 4)
    assert one["credit"]["low"] < one["credit"]["mean"] < one["credit"]["high"]
    # present and graded: 0.4, -0.2, 0.8, 1.0, -0.2; followed: 0.4, -0.2
    assert one["outcome_when_present"]["mean"] == pytest.approx((2 * 0.36 + 0.2) / 4)
    assert one["outcome_when_followed"]["mean"] == pytest.approx((2 * 0.1 + 0.2) / 4)
    four = tip_named(summarise(run, policy=ADR0019), "t4")["visits"]
    assert four["credit"] == {"mean": None, "low": None, "high": None, "n": 0}


def test_ten_attempts_at_one_rule_weigh_as_much_as_one() -> None:
    run = make_run()
    often, once = make_tip(external_id="often"), make_tip(external_id="once")
    for number in range(1, 11):
        attempt = make_attempt(run=run, rule_id="rule_a", number=number, outcome=0.0)
        make_retrieval(attempt=attempt, tip=often, llm=True)
    make_retrieval(attempt=make_attempt(run=run, rule_id="rule_b", outcome=0.0), tip=once, llm=True)
    summary = summarise(run, policy=ADR0019)
    assert (
        tip_named(summary, "often")["visits"]["credit"]
        == tip_named(summary, "once")["visits"]["credit"]
    )
    assert tip_named(summary, "often")["flag"] == "untested", "ten rows tell one story"


def test_a_rule_whose_category_changes_within_the_run_is_one_visit() -> None:
    run, tip = make_run(), make_tip(external_id="moved")
    for number, category in enumerate(("ssh", "audit"), start=1):
        attempt = make_attempt(
            run=run, rule_id="rule_a", number=number, outcome=float(number - 1), category=category
        )
        make_retrieval(attempt=attempt, tip=tip, llm=True)
    visits = tip_named(summarise(run, policy=ADR0019), "moved")["visits"]
    assert (visits["known"], visits["credit"]["n"], visits["credit"]["mean"]) == (1, 1, 0.5)


def test_a_tip_is_flagged_when_enough_rows_say_the_same() -> None:
    run = make_run()
    bad, young = make_tip(external_id="bad"), make_tip(external_id="young")
    for number in range(4):
        attempt = make_attempt(run=run, rule_id=f"rule_{number}", outcome=0.0)
        make_retrieval(attempt=attempt, tip=bad, llm=True)
        if number < 3:
            make_retrieval(attempt=attempt, tip=young, llm=True)
    summary = summarise(run, policy=ADR0019)
    assert tip_named(summary, "bad")["flag"] == "misleading"
    assert tip_named(summary, "young")["flag"] == "untested"


def test_an_empty_run_gets_zeros_and_never_another_runs_rows(run: Run) -> None:
    empty = summarise(make_run(), policy=ADR0019)
    assert empty["totals"]["retrievals"] == 0
    assert (empty["tips"], empty["categories"]) == ([], [])
    assert empty["run"]["id"] != run.pk


def test_the_number_of_queries_does_not_grow_with_the_rows(
    run: Run, django_assert_num_queries: CaptureQueriesContext
) -> None:
    for _ in range(20):
        make_retrieval(attempt=make_attempt(run=run), llm=True)
    with django_assert_num_queries(4):  # sums per tip and category, visits, rules, coverage
        summarise(run, policy=ADR0019)
