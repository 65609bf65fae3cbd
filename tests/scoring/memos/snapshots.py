"""The snapshots that the memo tests share, and a way to cite a fact by its label."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from scoring.memos.facts import Snapshot, derived, fact
from scoring.memos.facts_formula import Formula
from scoring.memos.gate import check

if TYPE_CHECKING:
    from scoring.memos.facts import Fact
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


def _counts(**values: int) -> dict[str, Fact]:
    return {name: fact(name.replace("_", " "), "count", value) for name, value in values.items()}


def graded_run() -> Snapshot:
    """A run of ours with its parts, shares and changes derived, as the product derives them."""
    n = _counts(
        attempts=40, failed_attempts=26, successful_attempts=14, graded_rules=15, remediated_rules=14,
        retrievals=200, followed_retrievals=47, ignored_retrievals=153, misleading_retrievals=18,
        earned_retrievals=29, tips_retrieved=12, misleading_tips=0,
    )  # fmt: skip
    graded = derived(
        "graded attempts", "count", Formula.SUM, [n["failed_attempts"], n["successful_attempts"]]
    )
    answered = derived(
        "answered retrievals", "count", Formula.SUM, [n["followed_retrievals"], n["ignored_retrievals"]]
    )  # fmt: skip
    before = fact("share of graded rules remediated in `run-6`", "percent", 100)
    misled_before = fact("misleading retrievals in `run-6`", "count", 9)

    def share(label: str, part: Fact, whole: Fact) -> Fact:
        return derived(f"share of {label}", "percent", Formula.PERCENT_OF, [part, whole])

    now = share("graded rules remediated", n["remediated_rules"], n["graded_rules"])
    return Snapshot(
        "run", "run-7", date(2026, 1, 2),
        (
            *n.values(), graded, answered, before, misled_before, now,
            share("graded attempts that succeeded", n["successful_attempts"], graded),
            share("answered retrievals that were followed", n["followed_retrievals"], answered),
            derived(f"change in the {now.label}", "points", Formula.DIFFERENCE, [now, before]),
            derived("change in misleading retrievals", "count", Formula.DIFFERENCE,
                    [n["misleading_retrievals"], misled_before]),
            fact("times `tip 101` was followed into a failure", "count", 5),
            fact("times `tip 101` was followed into a success", "count", 0),
            fact("times `tip 101` was followed", "count", 5),
            fact("tip that misled most", "name", "tip 101"),
        ),
    )  # fmt: skip


def category() -> Snapshot:
    """A category in two runs, and what changed between them."""
    found: dict[str, list[Fact]] = {}
    for name, remediated, misled in (("run-7", 2, 15), ("run-6", 3, 2)):
        rules = fact(f"graded rules in `{name}`", "count", 3)
        part = fact(f"remediated rules in `{name}`", "count", remediated)
        label = f"share of graded rules remediated in `{name}`"
        found[name] = [
            derived(label, "percent", Formula.PERCENT_OF, [part, rules]),
            fact(f"share of answered retrievals that were followed in `{name}`", "percent", 40),
            fact(f"misleading retrievals in `{name}`", "count", misled),
            rules,
            part,
        ]
    now, before = found["run-7"], found["run-6"]
    changes = [
        derived(f"change in {label}", unit, Formula.DIFFERENCE, [now[place], before[place]])
        for place, (label, unit) in enumerate(
            (
                ("the share of graded rules remediated", "points"),
                ("the share of answered retrievals that were followed", "points"),
                ("misleading retrievals", "count"),
            )
        )
    ]
    return Snapshot("category", "stig/ssh", date(2026, 1, 2), (*now, *before, *changes))


def growth() -> Snapshot:
    """A company's figures of two years, and what costs nothing."""
    now, before = (
        fact("Revenue", "USD", 394_328_000_000),
        fact("Revenue prior", "USD", 365_817_000_000),
    )
    grown = derived("Revenue growth", "percent", Formula.PERCENT_CHANGE, [now, before])
    others = (fact("Cost", "USD", 0), fact("Open orders", "count", 7))
    return Snapshot("external", "acme", None, (now, before, grown, *others))


def cited(text: str, snapshot: Snapshot) -> str:
    """Return ``text`` with each ``{label}`` turned into the citation of the fact of that label."""
    labels = {item.label: f"[{snapshot.citations[item.id]}]" for item in snapshot.facts}
    return re.sub(r"\{([^{}]+)\}", lambda match: labels[match[1]], text)


def checked(text: str, snapshot: Snapshot) -> GateReport:
    return check(cited(text, snapshot), snapshot)


def kinds(report: GateReport) -> set[FindingKind]:
    return {finding.kind for finding in report.findings}
