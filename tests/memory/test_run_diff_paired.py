"""McNemar, Newcombe, Connor and Holm: against brute force, published intervals, and at the edges."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.run_diff.paired import (
    ALPHA,
    RELEVANT,
    Evidence,
    Paired,
    difference_interval,
    holm,
    in_words,
    mcnemar,
    p_text,
    pairs_needed,
)

counts = st.integers(0, 60)


def table(both: int, wins: int, regressions: int, neither: int) -> Paired:
    """A 2x2 table in the order of its cells."""
    return Paired(both=both, wins=wins, regressions=regressions, neither=neither)


def by_brute_force(wins: int, regressions: int) -> float:
    """The probability of every split that is no likelier than the one seen, in whole numbers."""
    changed = wins + regressions
    ways = [math.comb(changed, hits) for hits in range(changed + 1)]
    return sum(way for way in ways if way <= ways[wins]) / 2**changed


@given(wins=counts, regressions=counts)
def test_mcnemar_is_the_binomial_summed_by_hand(wins: int, regressions: int) -> None:
    assert mcnemar(wins, regressions) == pytest.approx(by_brute_force(wins, regressions), rel=1e-9)


def test_mcnemar_by_every_sequence_of_a_fair_coin() -> None:
    """Six changed rules, five of them wins: 14 of the 64 sequences are as uneven."""
    uneven = sum(abs(2 * sum(coins) - 6) >= 4 for coins in itertools.product((0, 1), repeat=6))
    assert mcnemar(5, 1) == pytest.approx(uneven / 64)
    assert uneven == 14


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="no counts"):
        mcnemar(-1, 3)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ((36, 12, 2, 0), (0.0569, 0.3404)),  # Newcombe 1998, table II, contrast with 2 of 50
        ((1, 1, 7, 12), (-0.507, -0.026)),  # airway hyper-responsiveness, Bentur 2009
    ],
)
def test_the_interval_is_the_published_one(
    cells: tuple[int, int, int, int], expected: tuple[float, float]
) -> None:
    assert difference_interval(table(*cells)) == pytest.approx(expected, abs=5e-4)


@given(cells=st.tuples(counts, counts, counts, counts).filter(lambda cells: sum(cells) > 0))
def test_the_interval_holds_the_difference_and_stays_in_range(
    cells: tuple[int, int, int, int],
) -> None:
    found = table(*cells)
    low, high = difference_interval(found) or (2.0, -2.0)
    assert -1.0 <= low <= (found.difference or 0.0) + 1e-12
    assert (found.difference or 0.0) - 1e-12 <= high <= 1.0
    assert high - low > 0.0
    both, wins, regressions, neither = cells
    turned = difference_interval(table(both, regressions, wins, neither))
    assert turned == pytest.approx((-high, -low), abs=1e-12)


def test_the_interval_covers_what_it_says() -> None:
    """Every table of 20 pairs, weighed by its probability."""
    n, shares = 20, (0.45, 0.15, 0.1, 0.3)
    truth, covered = shares[1] - shares[2], 0.0
    for both, wins, regressions in itertools.product(range(n + 1), repeat=3):
        cells = (both, wins, regressions, n - both - wins - regressions)
        if cells[3] < 0:
            continue
        low, high = difference_interval(table(*cells)) or (0.0, 0.0)
        ways = math.factorial(n) / math.prod(map(math.factorial, cells))
        chance = ways * math.prod(share**cell for share, cell in zip(shares, cells, strict=True))
        covered += chance * (low <= truth <= high)
    assert 0.93 < covered < 0.985


def test_the_published_pair_of_runs_shows_no_difference() -> None:
    """14 rules lost and 7 gained: the table after which a coefficient was changed."""
    found = table(136, 7, 14, 87)
    assert found.p_value == pytest.approx(0.189, abs=5e-4)
    assert found.evidence is Evidence.NO_EVIDENCE
    assert in_words(found) == (
        "No evidence of a difference: of 244 rules B won 7 and lost 14, difference -2.9 points "
        "(95 % -6.6 to +0.9), p 0.189."
    )


def test_more_than_noise_says_who_did_better() -> None:
    assert in_words(table(36, 12, 2, 0)).startswith("More than noise: B did better; of 50 rules")
    assert in_words(table(36, 2, 12, 0)).startswith("More than noise: B did worse; of 50 rules")


def test_few_pairs_are_no_evidence_for_either_and_say_how_many_would_do() -> None:
    assert table(3, 1, 0, 4).evidence is Evidence.TOO_FEW
    assert f"about {pairs_needed(table(3, 1, 0, 4))} pairs" in in_words(table(3, 1, 0, 4))
    nothing = table(0, 0, 0, 0)
    assert (nothing.p_value, nothing.difference, difference_interval(nothing)) == (None,) * 3
    assert nothing.evidence is Evidence.TOO_FEW
    assert in_words(nothing) == ("Too few pairs to tell: no rule was graded in both; 77 would do.")


def test_many_pairs_of_which_none_changed_are_evidence_enough() -> None:
    assert table(200, 0, 0, 50).p_value == 1.0
    assert table(200, 0, 0, 50).evidence is Evidence.NO_EVIDENCE
    assert table(5, 0, 0, 5).evidence is Evidence.TOO_FEW


@pytest.mark.parametrize("changing", [0.10, 0.20, 0.40])
def test_the_pairs_needed_find_a_relevant_difference_about_four_times_in_five(
    changing: float,
) -> None:
    """Exact power of the exact test at that n, over every number of changed pairs and wins."""
    half = round(500 * changing)
    n = pairs_needed(table(500 - half, half, half, 500 - half))
    to_b = (changing + RELEVANT) / 2 / changing
    power = 0.0
    for changed in range(n + 1):
        chance = math.comb(n, changed) * changing**changed * (1 - changing) ** (n - changed)
        if chance < 1e-12:
            continue
        for wins in range(changed + 1):
            if mcnemar(wins, changed - wins) < ALPHA:
                power += (
                    chance * math.comb(changed, wins) * to_b**wins * (1 - to_b) ** (changed - wins)
                )
    assert 0.70 < power < 0.90


def test_holm_by_hand_and_never_below_the_p_it_adjusts() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_keeps_the_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= after <= 1.0 for p, after in zip(p_values, adjusted, strict=True))
    by_p = [after for _, after in sorted(zip(p_values, adjusted, strict=True))]
    assert by_p == sorted(by_p)


def test_a_p_is_never_printed_as_zero() -> None:
    assert [p_text(p) for p in (None, 1e-9, 0.04)] == ["–", "< 0.001", "0.040"]


def test_the_json_of_a_table_is_stable() -> None:
    found = table(36, 12, 2, 0).as_dict()
    assert list(found) == [
        "pairs", "both", "b", "c", "neither", "rate_a", "rate_b", "difference", "low", "high",
        "interval", "p", "test", "evidence", "pairs_needed", "relevant_difference",
    ]  # fmt: skip
    assert (found["pairs"], found["b"], found["c"], found["difference"]) == (50, 12, 2, 0.2)
    assert found["evidence"] == "more than noise"
