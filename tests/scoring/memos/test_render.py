"""The product's own renderings: the main one of each unit, and none that misleads."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from scoring.memos.facts import fact
from scoring.memos.render import facts_table, rendered, renderings
from tests.scoring.memos.snapshots import company, run


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


def test_the_table_of_facts_has_a_line_for_each_with_its_citation() -> None:
    for snapshot in (company(), run()):
        lines = facts_table(snapshot).splitlines()
        assert len(lines) == len(snapshot.facts)
        for line, (ref, item) in zip(lines, snapshot.by_citation.items(), strict=True):
            assert line.startswith(f"[{ref}] {item.label} = ")
    assert "not known" in facts_table(run())
