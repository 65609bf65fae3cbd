"""A re-grading on a terminal: one line of what happened, then what changed for attempts and tips.

Guarantees: a table is cut at *limit* and says by how much; texts of strangers cannot steer the terminal.
Takes the plain data of ``RegradeReport.as_dict`` and reads no database.

Shaped by: reports of which nobody could tell whether they had changed anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from memory.dream_report import number_text
from memory.gate_outlook import outlook_line
from memory.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    Content = tuple[Sequence[str], Sequence[Sequence[object]]]

NAME_SHOWN: Final = 60
QUIET: Final = ("unchanged", "confirmed")


def render_regrade(view: dict[str, Any], *, limit: int) -> Iterator[RenderableType]:
    """Head, runs, kinds of change, categories, tips."""
    yield plain(_head(view), "bold")
    if not view["revised"] and not view["confirmed"]:
        yield plain(_why_nothing(view))
    if view["unversioned"]:
        yield plain(
            f"{view['unversioned']} grades changed under one and the same name {view['ladder']}: the "
            "ladder was edited without a new version. Raise [grading] version in its skill.toml.",
            "yellow",
        )
    for table in (_runs, _changes, _categories, _tips):
        head, rows = table(view)
        yield from _table(head, rows, limit)
    yield plain(_tail(view))
    if view["gate"] is not None and (line := outlook_line(view["gate"])):
        yield plain(line)


def _runs(view: dict[str, Any]) -> Content:
    head = ("run", "what became of it", "attempts", "revised", "confirmed", "to judge", "why")
    keys = ("external_id", "state", "attempts", "revised", "confirmed", "to_judge", "why")
    loud = [run for run in view["runs"] if run["state"] not in QUIET]
    return head, [[run[key] for key in keys] for run in loud]


def _changes(view: dict[str, Any]) -> Content:
    head = ("failure mode", "outcome", "now failure mode", "now outcome", "attempts")
    return head, [
        [
            each["failure_mode_before"] or "–", number_text(each["value_before"]),
            each["failure_mode_after"] or "–", number_text(each["value_after"]),
            each["attempts"],
        ]
        for each in view["changes"]
    ]  # fmt: skip


def _categories(view: dict[str, Any]) -> Content:
    head = ("category", "mean outcome", "n", "now", "n", "change")
    return head, [
        [
            each["category"] or "–",
            number_text(each["before"]["mean"]), each["before"]["n"],
            number_text(each["after"]["mean"]), each["after"]["n"],
            number_text(each["change"]),
        ]
        for each in view["categories"]
        if each["before"] != each["after"]
    ]  # fmt: skip


def _tips(view: dict[str, Any]) -> Content:
    head = ("tip", "flag", "credit", "now flag", "now credit")
    return head, [
        [
            each["tip"],
            each["flag_before"].replace("_", " "), number_text(each["credit_before"]),
            each["flag_after"].replace("_", " "), number_text(each["credit_after"]),
        ]
        for each in view["tips"]
    ]  # fmt: skip


def _head(view: dict[str, Any]) -> str:
    verb = "would be " if view["dry_run"] else ""
    what = "taken back" if view["cause"] == "undo" else f"graded again by {view['ladder']}"
    return (
        f"{view['skill']}: {view['attempts']} attempts of {len(view['runs'])} runs {verb}{what}: "
        f"{view['revised']} outcomes changed, {view['confirmed']} confirmed under another version"
    )


def _why_nothing(view: dict[str, Any]) -> str:
    if not view["attempts"]:
        return "Nothing changed: no attempt was looked at."
    if view["cause"] == "undo":
        return "Nothing changed: what is taken back had left every outcome as it was before."
    return f"Nothing changed: every grade comes out of {view['ladder']} as it is stored."


def _tail(view: dict[str, Any]) -> str:
    said = [
        f"{view['tips_moved']} tips have other sums, {len(view['tips'])} another flag or sign of credit."
    ]
    if view["to_judge"]:
        verb = "would wait" if view["dry_run"] else "wait"
        said.append(f"{view['to_judge']} retrievals gained an outcome and {verb} for the judge.")
    if view["without_outcome"]:
        said.append(f"{view['without_outcome']} lost it before they were judged.")
    if view["dry_run"]:
        said.append("Nothing was changed (--dry-run).")
    return " ".join(said)


def _table(
    head: Sequence[str], rows: Sequence[Sequence[object]], limit: int
) -> Iterator[RenderableType]:
    if not rows:
        return
    table = Table()
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows[:limit]:
        table.add_row(*(plain(cell, limit=NAME_SHOWN * 5) for cell in row))
    yield table
    if len(rows) > limit:
        yield plain(f"and {len(rows) - limit} more (--limit, or --json for all)")
