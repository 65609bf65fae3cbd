"""Facts: what can be one, what its id hangs on, and what changes a fingerprint."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.memos.facts import Fact, FactError, Snapshot, canonical, derived, fact, fact_id
from scoring.memos.facts_formula import Formula, FormulaError, compute
from scoring.memos.units import TOLERANCE, Measure, UnknownUnit, unit_of


def snapshot(*facts: Fact, identifier: str = "r", as_of: date | None = None) -> Snapshot:
    return Snapshot("run", identifier, as_of, facts)


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=6
    )
)
def test_one_value_has_one_canonical_text(value: Decimal) -> None:
    assert (
        canonical(value) == canonical(value.normalize()) == canonical(value + Decimal("0.0000000"))
    )
    assert Decimal(canonical(value).partition(":")[2]) == value


@pytest.mark.parametrize("value", [100, 100.0, Decimal("100.00"), Decimal("1E+2")])
def test_100_is_100_however_it_is_written(value: Decimal) -> None:
    one = snapshot(fact("a", "score", value))
    assert one.fingerprint() == snapshot(fact("a", "score", 100)).fingerprint()
    assert len(one.fingerprint()) == 64


def test_minus_zero_is_zero() -> None:
    assert canonical(Decimal("-0.0")) == canonical(Decimal(0))


def test_the_order_of_the_facts_changes_neither_fingerprint_nor_citations() -> None:
    facts = [fact("a", "count", 1), fact("b", "count", 2), fact("c", "percent", 3)]
    found = {
        (one.fingerprint(), tuple((ref, item.id) for ref, item in one.by_citation.items()))
        for one in (snapshot(*order) for order in permutations(facts))
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    "other",
    [
        snapshot(fact("a", "count", 2)),
        snapshot(fact("b", "count", 1)),
        snapshot(fact("a", "tokens", 1)),
        snapshot(fact("a", "count", None)),
        snapshot(fact("a", "count", 1, material=True)),
        snapshot(fact("a", "count", 1), identifier="s"),
        snapshot(fact("a", "count", 1), fact("b", "count", 1)),
        snapshot(),
        Snapshot("tip", "r", None, (fact("a", "count", 1),)),
    ],
)
def test_what_a_memo_may_say_changes_the_fingerprint(other: Snapshot) -> None:
    assert other.fingerprint() != snapshot(fact("a", "count", 1)).fingerprint()


def test_small_values_do_not_collide_and_labels_cannot_forge_a_neighbour() -> None:
    small = [snapshot(fact("a", "USD", Decimal(text))) for text in ("0.00001", "0.00004")]
    assert small[0].fingerprint() != small[1].fingerprint()
    forged = [snapshot(fact("a|USD|1", "count", 1)), snapshot(fact("a", "USD", 1))]
    assert forged[0].fingerprint() != forged[1].fingerprint()


def test_source_and_day_are_not_in_the_fingerprint() -> None:
    one, two = fact("a", "count", 1, provenance=["row 1"]), fact("a", "count", 1)
    assert snapshot(one).fingerprint() == snapshot(two, as_of=date(2026, 1, 1)).fingerprint()


def test_an_id_hangs_on_label_and_unit_alone() -> None:
    assert (
        fact("Net  Income", "USD", 1).id
        == fact("net income", "USD", 2).id
        == fact_id("Net income", "USD")
    )
    assert fact("net income", "EUR", 1).id != fact("net income", "USD", 1).id


@pytest.mark.parametrize(
    ("label", "unit", "value", "cause"),
    [
        ("a", "count", Decimal("NaN"), "no quantity"),
        ("a", "count", float("inf"), "no quantity"),
        ("a", "furlong", 1, "unknown unit"),
        ("a", "money", 1, "unknown unit"),
        ("a", "USD/day", 1, "unknown unit"),
        ("a", "count", Decimal("1.5"), "whole count"),
        ("a", "rank", 0, "counts from 1"),
        ("a", "year", 99, "four digits"),
        ("a", "count", "five", "unit of a text is name"),
        ("a", "count", date(2026, 1, 1), "unit is date"),
        ("a", "date", 5, "number in a fact of unit date"),
        ("a", "date", datetime(2026, 1, 1, tzinfo=UTC), None),
        ("a", "name", "two\nlines", "one line"),
        ("a", "name", "a`b", "no backticks"),
        ("a", "count", True, "truth value"),
        ("a", "score", Decimal(10) ** 40, "more digits"),
        ("a", "score", Decimal("1E-90"), "more decimals"),
        ("", "count", 1, "1 to 200"),
        ("123", "count", 1, "letters"),
        ("a [F1]", "count", 1, "square brackets"),
        ("a `b", "count", 1, "in pairs"),
        ("a\u200b", "count", 1, "hidden"),
    ],
)
def test_what_cannot_be_a_fact_says_why(
    label: str, unit: str, value: object, cause: str | None
) -> None:
    if cause is None:
        assert fact(label, unit, value).value == date(2026, 1, 1)  # type: ignore[arg-type]
        return
    with pytest.raises(FactError, match=cause):
        fact(label, unit, value)  # type: ignore[arg-type]


def test_a_snapshot_refuses_a_fact_twice() -> None:
    with pytest.raises(FactError, match="two facts have this label and unit"):
        snapshot(fact("Tips", "count", 1), fact("tips", "count", 2))


def test_a_snapshot_refuses_a_cycle_of_derivations() -> None:
    one, two = fact_id("one", "score"), fact_id("two", "score")
    facts = (
        Fact("one", "score", Decimal(0), derived_from=(two, two), formula=Formula.SUM),
        Fact("two", "score", Decimal(0), derived_from=(one, one), formula=Formula.SUM),
    )
    with pytest.raises(FactError, match="derived from itself"):
        snapshot(*facts)


def test_one_fact_may_be_used_by_more_than_one() -> None:
    base = fact("base", "count", 4)
    twice = derived("twice", "count", Formula.SUM, [base, base])
    thrice = derived("thrice", "count", Formula.SUM, [twice, base])
    assert snapshot(base, twice, thrice).by_id[thrice.id].value == 12


def test_a_derived_value_must_be_its_formula() -> None:
    part, whole = fact("part", "count", 1), fact("whole", "count", 3)
    share = derived("share", "percent", Formula.PERCENT_OF, [part, whole])
    assert snapshot(part, whole, share)
    assert snapshot(part, whole, replace(share, value=Decimal("33.33")))
    for wrong in ("33.4", "30", "-33.33", "0.3333"):
        with pytest.raises(FactError, match="is not its percent_of"):
            snapshot(part, whole, replace(share, value=Decimal(wrong)))
    with pytest.raises(FactError, match="not there"):
        snapshot(part, share)
    with pytest.raises(FactError, match="come together"):
        Fact("share", "percent", Decimal(1), derived_from=(part.id,))


def test_what_is_not_known_gives_nothing_known() -> None:
    part, none = fact("part", "count", 1), fact("none", "count", 0)
    share = derived("share", "percent", Formula.PERCENT_OF, [part, none])
    assert share.value is None
    assert snapshot(part, none, share)
    assert derived("sum", "count", Formula.SUM, [part, fact("x", "count", None)]).value is None


@pytest.mark.parametrize(
    ("formula", "unit", "units"),
    [
        (Formula.DIFFERENCE, "percent", ("percent", "percent")),
        (Formula.DIFFERENCE, "count", ("percent", "count")),
        (Formula.SUM, "USD", ("USD", "EUR")),
        (Formula.SUM, "EUR", ("USD", "USD")),
        (Formula.PERCENT_OF, "points", ("count", "count")),
        (Formula.PERCENT_CHANGE, "points", ("count", "count")),
        (Formula.RATIO, "percent", ("count", "count")),
        (Formula.SUM, "count", ("year", "year")),
    ],
)
def test_a_formula_has_one_unit(formula: Formula, unit: str, units: tuple[str, str]) -> None:
    inputs = [fact(f"i{number}", name, 2000) for number, name in enumerate(units)]
    made = Fact(
        "result", unit, Decimal(1), derived_from=tuple(one.id for one in inputs), formula=formula
    )
    with pytest.raises(FactError, match="result"):
        snapshot(*inputs, made)


def test_formulas() -> None:
    four, five = Decimal(4), Decimal(5)
    assert compute(Formula.SUM, [four, five, five]) == 14
    assert compute(Formula.DIFFERENCE, [four, five]) == -1
    assert compute(Formula.RATIO, [four, five]) == Decimal("0.8")
    assert compute(Formula.PERCENT_OF, [four, five]) == 80
    assert compute(Formula.PERCENT_CHANGE, [four, -five]) == 180
    assert compute(Formula.RATIO, [four, Decimal(0)]) is None
    with pytest.raises(FormulaError, match="takes two"):
        compute(Formula.RATIO, [four])


def test_every_measure_has_a_tolerance_and_a_unit() -> None:
    assert set(TOLERANCE) == set(Measure)
    assert all(0 <= share < 1 for share in TOLERANCE.values())
    assert unit_of("USD/share").per_share
    with pytest.raises(UnknownUnit, match="use one of"):
        unit_of("usd")
