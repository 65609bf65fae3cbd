"""Two snapshots that the memo tests share, and a way to cite a fact by its label."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from scoring.memos.facts import Snapshot, derived, fact
from scoring.memos.facts_formula import Formula
from scoring.memos.gate import check

if TYPE_CHECKING:
    from scoring.memos.gate_report import FindingKind, GateReport


def company() -> Snapshot:
    """A company's figures: the case of ADR-0006."""
    revenue = fact("Revenue", "USD", Decimal(394_328_000_000), material=True)
    income = fact("Net income", "USD", Decimal(99_803_000_000), material=True)
    return Snapshot(
        "external",
        "acme",
        None,
        (
            revenue,
            income,
            derived("Net margin", "percent", Formula.PERCENT_OF, [income, revenue], material=True),
            fact("RSI", "score", Decimal("61.5")),
            fact("Transactions", "count", 48_212),
            fact("Diluted EPS", "USD/share", Decimal("6.13")),
            fact("Price to earnings", "ratio", Decimal("1.96")),
            fact("Operating result", "USD", Decimal(-1_200_000_000)),
            fact("Shares outstanding", "count", 15_943_425_000),
            fact("Fee", "USD", Decimal("0.0123")),
            fact("Tax rate", "percent", Decimal("0.02")),
            fact("Filing form", "name", "10-K"),
            fact("Founded", "year", 1976),
            fact("Filed", "date", date(2025, 11, 3)),
            fact("Low estimate", "USD", Decimal(1_200_000_000)),
            fact("High estimate", "USD", Decimal(1_400_000_000)),
        ),
    )


def run() -> Snapshot:
    """A run of ours, beside the run before it."""
    now = fact("share of retrievals followed in `run-7`", "percent", Decimal("71.6"), material=True)
    before = fact("share of retrievals followed in `run-6`", "percent", Decimal("80.2"))
    return Snapshot(
        "run",
        "run-7",
        date(2026, 1, 2),
        (
            now,
            before,
            derived("change in the share followed", "points", Formula.DIFFERENCE, [now, before]),
            fact("times `tip 1` was followed", "count", 5, material=True),
            fact("times `tip 2` was followed", "count", 3),
            fact("retrievals", "count", 40),
            fact("tips", "count", 12),
            fact("failed attempts", "count", 3),
            fact("attempts", "count", 27),
            fact("attempts without a tip", "count", 0),
            fact("time spent", "seconds", 7200),
            fact("prompt size", "tokens", 18_400),
            fact("rank of `tip 1`", "rank", 3),
            fact("credit of `tip 2`", "score", Decimal("-0.35")),
            fact("cost", "EUR", None),
            fact("most misleading tip", "name", "tip 2"),
        ),
    )


def cited(text: str, snapshot: Snapshot) -> str:
    """Return ``text`` with each ``{label}`` turned into the citation of the fact of that label."""
    labels = {item.label: f"[{snapshot.citations[item.id]}]" for item in snapshot.facts}
    return re.sub(r"\{([^{}]+)\}", lambda match: labels[match[1]], text)


def checked(text: str, snapshot: Snapshot) -> GateReport:
    return check(cited(text, snapshot), snapshot)


def kinds(report: GateReport) -> set[FindingKind]:
    return {finding.kind for finding in report.findings}
