"""Rates, intervals and kappa against scipy and scikit-learn, and at the edges where they go wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score

from memory.rates import Mean, Rate, kappa, rounded, wilson


@given(n=st.integers(1, 2000), data=st.data())
def test_the_interval_is_wilsons(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    expected = binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_a_rate_of_nothing_is_unknown_not_zero() -> None:
    assert Rate(0, 0).value is None
    assert Rate(0, 0).as_dict() == {"rate": None, "low": None, "high": None, "hits": 0, "n": 0}
    assert Mean(0.0, 0).as_dict() == {"mean": None, "n": 0}


def test_an_impossible_rate_is_refused() -> None:
    for hits, n in ((3, 2), (-1, 2), (1, 0)):
        with pytest.raises(ValueError, match="no rate"):
            wilson(hits, n)


cells = st.integers(0, 60)


@given(table=st.tuples(cells, cells, cells, cells).filter(lambda table: sum(table) > 0))
def test_kappa_is_cohens(table: tuple[int, int, int, int]) -> None:
    both, first, second, neither = table
    one = [1] * (both + first) + [0] * (second + neither)
    two = [1] * both + [0] * first + [1] * second + [0] * neither
    found = kappa(*table)
    if len({*one, *two}) == 1:
        assert found is None  # scikit-learn has nan there
    else:
        assert found == pytest.approx(cohen_kappa_score(one, two), abs=1e-9)


def test_kappa_of_no_pair_is_unknown() -> None:
    assert kappa(0, 0, 0, 0) is None


def test_rounding_leaves_no_negative_zero() -> None:
    assert str(rounded(-1e-12)) == "0.0"
    assert rounded(None) is None
    assert Mean(1.0, 2) + Mean(2.0, 1) == Mean(3.0, 3)
