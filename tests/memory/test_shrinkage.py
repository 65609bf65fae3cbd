"""Shrunk means: against numbers worked out by hand and by scipy.stats, and what must hold of any sums."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from memory.evidence import NOTHING, UNSEEN, Sums, TipFigures
from memory.shrinkage import NOTHING_KNOWN, PRIOR_SD, backed_off, levels, of_the_skill, shrunk

credits = st.floats(-1.0, 1.0, allow_nan=False)
samples = st.lists(credits, max_size=30)
strengths = st.one_of(
    st.just(0.0), st.floats(0.01, 50.0), st.sampled_from([5e-324, 1e-9, 1e9, 1.7e308])
)


def sums(*values: float) -> Sums:
    return Sums(len(values), math.fsum(values), math.fsum(v * v for v in values))


def plain(**changes: Any) -> dict[str, Any]:
    """The arguments of a back-off; by default upstream's: the exact pair alone."""
    return {
        "prior_mean": NOTHING_KNOWN, "strength": 0.0, "back_off": False,
    } | changes  # fmt: skip


# --- Numbers --------------------------------------------------------------------------------------


def test_two_visits_under_a_prior_of_two() -> None:
    """kappa = nu = 4; mean (2 x 0.5 + 1 + 0) / 4; spread 2 x 0.25 + 0.5 + 2 x 2 / 4 x 0 = 1."""
    found = shrunk(sums(1.0, 0.0), prior_mean=0.5, strength=2.0)
    half = stats.t.ppf(0.975, 4) * math.sqrt(1.0 / 4 / 4)
    assert (found.mean, found.n) == (0.5, 2)
    assert (found.low, found.high) == pytest.approx((0.5 - half, min(1.0, 0.5 + half)))


def test_a_surprise_widens_the_interval() -> None:
    """Ten ones against a prior of 0: mean 10/12, spread 2 x 0.25 + 0 + 2 x 10 / 12."""
    found = shrunk(sums(*[1.0] * 10), prior_mean=0.0, strength=2.0)
    half = stats.t.ppf(0.975, 12) * math.sqrt((0.5 + 20 / 12) / 12 / 12)
    assert found.mean == pytest.approx(10 / 12)
    assert found.low == pytest.approx(10 / 12 - half)
    assert found.high == 1.0


def test_without_a_visit_the_prior_stands_with_its_interval() -> None:
    strong = shrunk(NOTHING, prior_mean=0.2, strength=100.0)
    half = stats.t.ppf(0.975, 100) * PRIOR_SD / math.sqrt(100)
    assert strong.mean == pytest.approx(0.2)
    assert (strong.low, strong.high) == pytest.approx((0.2 - half, 0.2 + half))


def test_without_a_prior_one_visit_says_nothing_about_the_spread() -> None:
    none, one = (shrunk(s, prior_mean=0.9, strength=0.0) for s in (NOTHING, sums(0.3)))
    assert (none.mean, none.low, none.high, none.n) == (0.0, -1.0, 1.0, 0)
    assert (one.mean, one.low, one.high, one.n) == (0.3, -1.0, 1.0, 1)


@given(values=st.lists(credits, min_size=2, max_size=30))
def test_without_a_prior_it_is_the_mean_of_the_sample_and_students_interval(
    values: list[float],
) -> None:
    found = shrunk(sums(*values), prior_mean=0.5, strength=0.0)
    n = len(values)
    half = stats.t.ppf(0.975, n - 1) * stdev(values) / math.sqrt(n)
    assert found.mean == pytest.approx(fmean(values), abs=1e-12)
    assert found.low == pytest.approx(max(-1.0, fmean(values) - half), abs=1e-6)
    assert found.high == pytest.approx(min(1.0, fmean(values) + half), abs=1e-6)


@pytest.mark.parametrize(
    "bad",
    [
        {"prior_mean": 1.1}, {"prior_mean": math.nan}, {"strength": -0.1}, {"strength": math.inf},
        {"strength": math.nan}, {"prior_sd": 0.0}, {"prior_sd": math.nan},
    ],
)  # fmt: skip
def test_an_argument_out_of_range_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="prior"):
        shrunk(NOTHING, **({"prior_mean": 0.0, "strength": 1.0} | bad))


# --- What holds of any sums -----------------------------------------------------------------------


@given(values=samples, prior=credits, strength=strengths)
def test_the_interval_holds_the_mean_and_all_are_on_the_scale(
    values: list[float], prior: float, strength: float
) -> None:
    found = shrunk(sums(*values), prior_mean=prior, strength=strength)
    assert -1.0 <= found.low <= found.mean <= found.high <= 1.0
    assert all(map(math.isfinite, (found.low, found.mean, found.high)))


@given(n=st.integers(2, 10**9), prior=credits, strength=strengths, mean=credits)
def test_huge_counts_and_sums_off_by_rounding_give_numbers(
    n: int, prior: float, strength: float, mean: float
) -> None:
    """Squares that are smaller than any spread allows, as rounded sums may be."""
    found = shrunk(Sums(n, n * mean, n * mean * mean * 0.999), prior_mean=prior, strength=strength)
    assert -1.0 <= found.low <= found.mean <= found.high <= 1.0


@given(values=st.lists(credits, min_size=1, max_size=30), prior=credits)
def test_more_strength_brings_the_mean_nearer_to_the_prior(
    values: list[float], prior: float
) -> None:
    steps = [0.0, 0.1, 1.0, 2.0, 10.0, 1000.0]
    means = [shrunk(sums(*values), prior_mean=prior, strength=k).mean for k in steps]
    apart = [abs(mean - prior) for mean in means]
    assert all(near <= far + 1e-12 for far, near in pairwise(apart))


@given(values=st.lists(credits, min_size=1, max_size=12), prior=credits, k=st.floats(0.1, 20))
def test_the_mean_lies_between_the_prior_and_the_sample(
    values: list[float], prior: float, k: float
) -> None:
    found = shrunk(sums(*values), prior_mean=prior, strength=k).mean
    low, high = sorted((prior, fmean(values)))
    assert low - 1e-12 <= found <= high + 1e-12


@given(values=samples, prior=credits, strength=strengths, data=st.data())
def test_the_order_of_visits_changes_nothing(
    values: list[float], prior: float, strength: float, data: st.DataObject
) -> None:
    other = data.draw(st.permutations(values))
    one, two = (shrunk(sums(*v), prior_mean=prior, strength=strength) for v in (values, other))
    assert one == two


@given(values=st.lists(credits, min_size=2, max_size=10), prior=credits, k=st.floats(0.1, 10))
def test_more_of_the_same_narrows_the_interval(values: list[float], prior: float, k: float) -> None:
    """From as many visits as the prior counts; before that, a surprise may widen it."""
    assume(len(values) >= k)
    widths = []
    for times in (1, 2, 4, 16):
        found = shrunk(sums(*values * times), prior_mean=prior, strength=k)
        widths.append(found.high - found.low)
    assert all(b <= a + 1e-9 for a, b in pairwise(widths))


# --- Backing off ----------------------------------------------------------------------------------


@given(rule=samples, elsewhere=samples)
def test_upstreams_way_is_the_plain_mean_of_the_exact_pair(
    rule: list[float], elsewhere: list[float]
) -> None:
    figures = TipFigures(rule=sums(*rule), tip=sums(*rule, *elsewhere))
    found = backed_off(figures, **plain(prior_mean=0.7))
    assert found.mean == pytest.approx(fmean(rule) if rule else 0.0)
    assert found.n == len(rule)


def test_one_visit_counts_once_though_it_stands_at_every_level() -> None:
    one = sums(-1.0)
    figures = TipFigures(rule=one, category=one, tip=one)
    found = backed_off(figures, **plain(prior_mean=0.5, strength=2.0, back_off=True))
    assert found.mean == pytest.approx((2 * 0.5 - 1.0) / 3)


def test_a_rule_without_history_takes_what_is_known_of_the_tip_elsewhere() -> None:
    good = TipFigures(tip=sums(*[1.0] * 8))
    bad = TipFigures(tip=sums(*[-1.0] * 8))
    asked = plain(prior_mean=0.0, strength=2.0, back_off=True)
    assert backed_off(good, **asked).mean == pytest.approx(0.8)
    assert backed_off(bad, **asked).mean == pytest.approx(-0.8)
    assert backed_off(UNSEEN, **asked).mean == 0.0
    assert backed_off(good, **(asked | {"back_off": False})).mean == 0.0


def test_the_nearer_level_outweighs_the_wider_one() -> None:
    """Tip elsewhere 0 x 10 -> 1/12; category elsewhere 1 x 4 -> (2/12 + 4) / 6; rule nothing."""
    category = sums(*[1.0] * 4)
    figures = TipFigures(category=category, tip=sums(*[1.0] * 4, *[0.0] * 10))
    asked = plain(prior_mean=0.5, strength=2.0, back_off=True)
    found = levels(figures, **asked)
    assert [name for name, _ in found] == ["tip", "category", "rule"]
    assert [said.n for _, said in found] == [10, 4, 0]
    first, second = 1 / 12, (2 / 12 + 4) / 6
    assert [said.mean for _, said in found] == pytest.approx([first, second, second])
    assert backed_off(figures, **asked) == found[-1][1]


def test_backing_off_without_strength_takes_the_nearest_level_that_speaks() -> None:
    asked = plain(prior_mean=0.5, back_off=True)
    tip = TipFigures(tip=sums(0.25))
    assert backed_off(tip, **asked).mean == 0.25
    assert backed_off(UNSEEN, **asked).mean == 0.5
    both = TipFigures(rule=sums(1.0), category=sums(1.0), tip=sums(1.0, 0.25))
    assert backed_off(both, **asked).mean == 1.0


def test_an_unknown_tip_is_worth_what_the_tips_of_its_skill_are() -> None:
    asked: dict[str, Any] = {"prior_mean": None, "strength": 2.0}
    prior = of_the_skill(sums(*[0.6] * 18), **asked)
    assert prior.mean == pytest.approx(18 * 0.6 / 20)
    assert backed_off(UNSEEN, **plain(prior_mean=prior.mean, strength=2.0)).mean == prior.mean
    assert of_the_skill(sums(0.6), **(asked | {"prior_mean": 0.1})).mean == pytest.approx(0.1)
    assert of_the_skill(NOTHING, **asked).mean == NOTHING_KNOWN


def test_a_rule_whose_category_was_renamed_still_gives_a_mean_on_the_scale() -> None:
    figures = TipFigures(rule=sums(*[1.0] * 5), category=sums(-1.0), tip=sums(*[1.0] * 5, -1.0))
    found = backed_off(figures, **plain(strength=2.0, back_off=True))
    assert -1.0 <= found.low <= found.mean <= found.high <= 1.0
