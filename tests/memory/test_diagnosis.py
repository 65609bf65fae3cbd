"""Whether a memory has the disease: verdicts by hand, statistics against references, and the command."""

from __future__ import annotations

import io
import json
import math
from statistics import fmean, stdev

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency
from scipy.stats import t as student

from memory.credit import POLICIES
from memory.diagnosis import (
    NothingToDiagnose,
    diagnose,
)
from memory.diagnosis_history import stage_of
from memory.diagnosis_rates import (
    Arms,
    clustered_difference,
    clustered_rate,
    cochran,
    mantel_haenszel,
    within_runs,
)
from memory.rates import Rate, wilson
from tests.factories import make_tip
from tests.memory.test_diagnosis_verdicts import a_run

ADR = POLICIES["adr0019"]
NONE = Rate(0, 0)


def old(hits: int, n: int) -> Arms:
    """A cell on the side of the long history."""
    return Arms(old=Rate(hits, n), young=NONE)


def young(hits: int, n: int) -> Arms:
    """A cell on the side of the fresh history."""
    return Arms(old=NONE, young=Rate(hits, n))


# --- Statistics -----------------------------------------------------------------------------------


def test_mantel_haenszel_by_hand() -> None:
    """Weights 10*30/40 and 20*20/40; differences -0.3 and -0.25."""
    arms = [
        Arms(old=Rate(3, 10), young=Rate(18, 30)),
        Arms(old=Rate(10, 20), young=Rate(15, 20)),
        Arms(old=Rate(5, 9), young=NONE),
    ]
    assert mantel_haenszel(arms) == pytest.approx((7.5 * -0.3 + 10 * -0.25) / 17.5)
    assert mantel_haenszel([arms[2]]) is None
    assert cochran([arms[2]]) is None


cell = st.integers(1, 40)


@given(old_hits=cell, old_miss=cell, young_hits=cell, young_miss=cell)
def test_the_test_of_one_stratum_is_pearsons_chi_square_but_for_one_in_n(
    old_hits: int, old_miss: int, young_hits: int, young_miss: int
) -> None:
    found = chi2_contingency([[old_hits, old_miss], [young_hits, young_miss]], correction=False)
    n = old_hits + old_miss + young_hits + young_miss
    expected = math.erfc(math.sqrt(found.statistic * (n - 1) / n / 2))
    arms = Arms(
        old=Rate(old_hits, old_hits + old_miss), young=Rate(young_hits, young_hits + young_miss)
    )
    assert cochran([arms]) == pytest.approx(expected, rel=1e-9)


def test_strata_that_turn_a_difference_round_are_not_pooled_away() -> None:
    """In either run the old side does better; poured together it would do worse."""
    strata = {
        1: {"a": old(9, 10), "b": young(80, 100)},
        2: {"a": old(30, 100), "b": young(2, 10)},
    }
    found = within_runs(strata)
    assert found.old.value is not None
    assert found.young.value is not None
    assert found.old.value < found.young.value
    assert found.difference == pytest.approx(0.1)


def test_the_interval_knows_that_history_belongs_to_categories() -> None:
    """The same rules in few categories that differ, and in many that do not."""
    apart = within_runs(
        {1: {"a": old(0, 50), "b": old(50, 50), "c": young(40, 50), "d": young(40, 50)}}
    )
    alike = within_runs(
        {1: {f"o{n}": old(5, 10) for n in range(10)} | {f"y{n}": young(8, 10) for n in range(10)}}
    )
    assert apart.difference == alike.difference == pytest.approx(-0.3)
    assert apart.p == alike.p
    assert apart.high is not None
    assert alike.high is not None
    assert apart.high > 0 > alike.high


def test_one_category_on_a_side_has_a_difference_and_no_interval() -> None:
    found = within_runs({1: {"a": old(5, 10), "b": young(8, 10), "c": young(8, 10)}})
    assert (found.difference, found.low, found.high) == (pytest.approx(-0.3), None, None)
    assert (found.old_categories, found.young_categories, found.strata) == (1, 2, 1)


def test_equal_rates_do_not_make_an_interval_of_nothing() -> None:
    cells = {f"o{n}": old(1, 1) for n in range(5)} | {f"y{n}": young(1, 1) for n in range(5)}
    found = within_runs({1: cells})
    assert (found.difference, found.p) == (0.0, 1.0)
    assert found.low is not None
    assert found.low < -0.4


def test_rows_of_one_rule_count_as_hanging_together() -> None:
    apart = clustered_rate([Rate(1, 1)] * 30 + [Rate(0, 1)] * 30)
    together = clustered_rate([Rate(10, 10)] * 3 + [Rate(0, 10)] * 3)
    assert (apart.effective_n, together.effective_n) == (pytest.approx(59), pytest.approx(5))
    assert together.low is not None
    assert apart.low is not None
    assert together.low < apart.low
    assert apart.rate == together.rate == Rate(30, 60)


def test_rows_that_all_agree_are_worth_one_per_rule() -> None:
    found = clustered_rate([Rate(20, 20), Rate(20, 20), NONE])
    assert (found.clusters, found.effective_n) == (2, 2.0)
    assert (found.low, found.high) == pytest.approx(wilson(2, 2))
    assert clustered_rate([NONE]).low is None


def test_a_difference_within_clusters_by_hand() -> None:
    """Equal weights; 0.5 and -0.1 within the clusters, a third has one side only."""
    found = clustered_difference(
        [(Rate(6, 10), Rate(1, 10)), (Rate(4, 10), Rate(5, 10)), (Rate(9, 9), NONE)]
    )
    assert found.difference == pytest.approx(0.2)
    assert (found.clusters, found.one, found.other) == (2, Rate(10, 20), Rate(6, 20))
    assert (found.low, found.high) == (
        -1.0,
        1.0,
    )  # two clusters apart by 0.6, one degree of freedom
    assert clustered_difference([(Rate(1, 2), Rate(1, 2))]).low is None
    assert clustered_difference([]).difference is None


def test_the_jackknife_of_equal_clusters_is_the_interval_of_their_mean() -> None:
    shares = [1, 3, 4, 4, 6, 7, 8, 9]
    found = clustered_difference([(Rate(hits, 10), Rate(2, 10)) for hits in shares])
    differences = [(hits - 2) / 10 for hits in shares]
    expected = student.interval(
        0.95, len(shares) - 1, loc=fmean(differences), scale=stdev(differences) / math.sqrt(8)
    )
    assert (found.low, found.high) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_clusters_never_narrow_an_interval(pairs: list[tuple[int, int]]) -> None:
    rates = [Rate(hits, hits + misses) for hits, misses in pairs]
    found, whole = clustered_rate(rates), sum(rates, NONE)
    alone = wilson(whole.hits, whole.n)
    if alone is None:
        assert found.low is None
        return
    assert found.low is not None
    assert found.high is not None
    assert found.low <= alone[0] + 1e-9
    assert found.high >= alone[1] - 1e-9


def test_history_counts_earlier_runs_and_needs_tips_in_the_run_itself() -> None:
    with_tips = [0, 2, 3, 5, 7]
    assert [stage_of(run, with_tips) for run in range(9)] == [
        "fresh", "without", "fresh", "between", "without", "long", "without", "long", "without",
    ]  # fmt: skip


# --- The command ----------------------------------------------------------------------------------


def printed(*args: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    call_command("diagnose", *args, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_the_report_names_each_criterion_with_its_figure_and_limit() -> None:
    tip = make_tip()
    for wins in (10, 10, 8, 5, 5):
        a_run({"ssh\x1b[2J": wins, "audit": wins}, tip=tip, followed=False)
    text = printed()
    assert "\x1b" not in text
    assert "ssh\\x1b[2J" in text
    assert "Skill stig: shows the disease" in text
    assert "! symptom, present: Do the same rules do worse at a long history" in text
    assert "-41.7 points (95 % -59.1 to -18.2), p 0.002; of 24 rules 0 were won" in text
    assert "! mechanism, present: Of the tips present at a success, were most ignored" in text
    assert "76 of 76 rows (100%, 95 % 84–100 by 20 rules)" in text
    for heading in ("Success by history, 5 runs", "Corpus", "What tips did"):
        assert heading in text


@pytest.mark.django_db
def test_the_json_keeps_its_shape() -> None:
    a_run({"ssh": 5}, tip=make_tip(), followed=True)
    raw = printed("--json", "--policy", "quadrant")
    assert raw.isascii()
    (found,) = json.loads(raw)
    assert list(found) == [
        "version", "skill", "policy", "verdict", "why", "criteria", "history", "corpus",
        "attribution",
    ]  # fmt: skip
    assert list(found["criteria"][0]) == ["code", "role", "question", "state", "figure", "limit"]
    assert list(found["history"]) == [
        "runs", "observations", "uncategorised", "same_runs", "same_rules", "categories",
    ]  # fmt: skip
    assert list(found["history"]["same_runs"]) == [
        "runs_compared", "long_history", "fresh_history", "long_categories", "fresh_categories",
        "difference", "low", "high", "p",
    ]  # fmt: skip
    assert list(found["attribution"]) == [
        "lucky", "misleading", "failed_when_ignored", "followed_at_failure", "unknown", "credit",
        "credit_outcome_only",
    ]  # fmt: skip
    assert (found["version"], found["policy"], found["verdict"]) == (1, "quadrant", "cannot tell")
    assert printed("--json", "--policy", "quadrant") == raw


@pytest.mark.django_db
def test_nothing_stored_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(
        CommandError, match=r"this memory has no run yet: post one \(manage.py post_run"
    ):
        printed()
    make_tip()
    with pytest.raises(NothingToDiagnose, match="skill 'stig' has no run yet"):
        diagnose(policy=ADR, skill="stig")
    for args in (("--skill", "typo"), ("--skill", "\udcff")):
        with pytest.raises(CommandError, match="there are: 'stig'"):
            printed(*args)
    with pytest.raises(CommandError, match="adr0021"):
        printed("--policy", "adr0021")
