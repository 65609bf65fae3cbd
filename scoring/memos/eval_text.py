"""An evaluation's report as tables for a terminal.

Guarantees: shows the numbers of the report and computes none; names of cases come from files and are
shown without control characters. The JSON holds more: each case, with what was found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from memory.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

_SHARES: Final = ("own", "accepted")
_NOTE: Final = (
    "own: written by the model, not by the writer in its place (such a memo counts 0). "
    "errors: the server was away, or the judge gave no grade; left out of everything else."
)


def show(console: Console, report: Mapping[str, Any], *, kept: str) -> None:
    """Print a report of `scoring.memos.eval_report.report_of`; ``kept``: where its JSON is."""
    table = Table(title="Memos, offline")
    for name in ("suite", "cases", "passed"):
        table.add_column(name, justify="left" if name == "suite" else "right")
    for suite, counts in report["suites"].items():
        table.add_row(suite, str(counts["cases"]), str(counts["passed"]))
    console.print(table)
    rubric = report["rubric"]
    means = ", ".join(f"{name} {_number(value)}" for name, value in rubric["means"].items())
    console.print(f"Rubric over {rubric['memos']} memos: {means}")
    for case in report["cases"]:
        if not case["passed"]:
            console.print(plain(f"fails: {case['suite']} / {case['name']}", limit=200))
    if report["live"] is not None:
        _show_live(console, report)
    console.print(plain(f"Kept: {kept}", limit=300))


def _show_live(console: Console, report: Mapping[str, Any]) -> None:
    config, found = report["config"]["live"], report["live"]
    arms = found["arms"]
    title = f"Live: {config['model']}, judged by {config['judge']} ({config['tier']})"
    table = Table(title=plain(title, limit=200))
    table.add_column("")
    for name in (*arms, "debate less single (95 %)"):
        table.add_column(name, justify="right")
    for name in ("memos", "errors", *_SHARES, "calls", "writing_tokens", "seconds"):
        table.add_row(name, *(_number(arm[name]) for arm in arms.values()), "")
    for name, lift in found["lift"].items():
        means = (_number(arm["means"][name]) for arm in arms.values())
        table.add_row(name, *means, _interval(lift))
    console.print(table)
    console.print(_NOTE)


def _interval(lift: Mapping[str, Any]) -> str:
    shown = f"{_number(lift['mean'])}, {lift['snapshots']} snapshots"
    if lift["low"] is None:
        return shown
    return f"{shown} ({_number(lift['low'])} to {_number(lift['high'])})"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
