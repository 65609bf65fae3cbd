"""The product's own renderings: the main one of each unit, and none that misleads."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from scoring.memos.facts import Snapshot, fact
from scoring.memos.gate import check
from scoring.memos.render import rendered, renderings
from scoring.memos.writer import write


@pytest.mark.parametrize(
    ("unit", "value", "main"),
    [
        ("count", Decimal(48_212), "48,212"),
        ("count", Decimal(-5), "-5"),
        ("percent", Decimal("71.6"), "71.6%"),
        ("percent", Decimal("0.4"), "0.4%"),
        ("percent", Decimal(1) / 3, "0.3%"),
        ("points", Decimal("-8.6"), "-8.6 percentage points"),
        ("score", Decimal("0.6251"), "0.63"),
        ("ratio", Decimal("1.96"), "1.96"),
        ("seconds", Decimal(7200), "7,200 seconds"),
        ("tokens", Decimal(18_400), "18,400 tokens"),
        ("rank", Decimal(3), "3"),
        ("year", Decimal(1976), "1976"),
        ("USD", Decimal(394_328_000_000), "$394.3 billion"),
        ("USD", Decimal("0.0123"), "$0.0123"),
        ("USD", Decimal("-1234.5"), "-$1,234.50"),
        ("CHF", Decimal(12), "12 CHF"),
        ("USD/share", Decimal("6.13"), "$6.13"),
        ("date", date(2026, 1, 2), "2026-01-02"),
        ("name", "tip 2", "`tip 2`"),
        ("USD", None, ""),
    ],
)
def test_the_main_rendering(unit: str, value: object, main: str) -> None:
    assert rendered(fact("a", unit, value)) == main  # type: ignore[arg-type]


def test_nothing_is_rounded_to_nothing_or_to_all() -> None:
    assert not {"0%", "0.0%"} & set(renderings(fact("a", "percent", Decimal("0.04"))))
    assert not {"100%", "100.0%"} & set(renderings(fact("a", "percent", Decimal("99.99"))))


@pytest.mark.parametrize(
    "unit", ["score", "ratio", "percent", "points", "USD", "USD/share", "seconds"]
)
@pytest.mark.parametrize(
    "value", ["12345678901234567.123456789012345", "123456789012345678901234567890", "1e27", "1e-59",
              "-333333333333333333.3333333333", "0e30", "99999999999999999999999999999"],
)  # fmt: skip
def test_every_value_that_a_fact_may_have_is_rendered_and_passes(unit: str, value: str) -> None:
    item = fact("supply", unit, Decimal(value))
    snapshot = Snapshot("external", "acme", None, (item,))
    for mode in ("human", "agent"):
        assert check(write(snapshot, mode=mode), snapshot).cited == {item.id}
    for figure in renderings(item):
        report = check(f"- supply: {figure} [F1]", snapshot)
        assert report.passed, report.feedback()


def test_the_last_digit_of_a_long_value_is_compared() -> None:
    item = fact("supply", "score", Decimal("12345678901234567890123456789.123456789012345"))
    snapshot = Snapshot("external", "acme", None, (item,))
    figure = f"{item.value:f}"
    assert check(f"- supply: {figure} [F1]", snapshot).passed
    assert not check(f"- supply: {figure[:-1]}7 [F1]", snapshot).passed
