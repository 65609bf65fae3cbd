"""A comparison of runs on a terminal: readable without colour, in a pipe, and in a log.

Guarantees: a difference is never printed without its n, its interval and its p; texts of tips, rules and
runs go through ``memory.terminal``, so that they cannot steer the terminal; lists that were cut say of
how many. Does not decide: it prints figures and the finding that they amount to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from memory.run_diff.layout import add, cut, grade, or_none, points, rate_text, table, title
from memory.run_diff.paired import Evidence, in_words, p_text
from memory.run_diff.render_rules import render_rules
from memory.terminal import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memory.run_diff import RunDiff, RunMatrix
    from memory.run_diff.history import Cell
    from memory.run_diff.results import Comparison, Flip

FAMILIES = (
    "Rules that fail together (one cause, one family) count as many: then p is smaller than it should "
    "be. Runs differ in more than their memory."
)


def render_diff(report: RunDiff) -> list[RenderableType]:
    """The report as parts to be printed one below the other; of one rule, the rule alone."""
    if report.rule is not None:
        return [*_head(report), *render_rules(report)]
    sections = (_head, _noise, _outcomes, _categories, _flips, _only, _tips, render_rules, _chronic)
    return [part for section in sections for part in section(report)]


def _head(report: RunDiff) -> list[RenderableType]:
    parts: list[RenderableType] = [
        plain(f"Runs of skill {report.skill}, credit policy {report.policy}", "bold")
    ]
    for name, run in (("A", report.a), ("B", report.b)):
        parts.append(
            plain(
                f"{name}: {run.external_id} (primary key {run.run_id}), started "
                f"{run.started_at:%Y-%m-%d %H:%M}, {run.rules} rules, {run.attempts} attempts, "
                f"model {run.model or '(not named)'}"
            )
        )
    return [*parts, *(plain(f"! {note}", "yellow") for note in report.notes)]


def _noise(report: RunDiff) -> list[RenderableType]:
    parts: list[RenderableType] = [title("Is the difference more than noise?")]
    for comparison in (report.outcomes.any_attempt, report.outcomes.first_attempt):
        parts += _comparison(comparison)
    return [*parts, Text(FAMILIES)]


def _comparison(found: Comparison) -> list[RenderableType]:
    pairs = found.table
    style = "bold" if pairs.evidence is Evidence.MORE_THAN_NOISE else ""
    left_out = f"; left out, not graded in both: {found.left_out}" if found.left_out else ""
    rates = f"A {rate_text(pairs.rate_a)}, B {rate_text(pairs.rate_b)}{left_out}"
    return [plain(f"{found.counts}: {in_words(pairs)}", style), plain(f"  {rates}")]


def _outcomes(report: RunDiff) -> list[RenderableType]:
    matrix = report.outcomes.matrix
    found = table("A \\ B", *matrix, numbers=len(matrix))
    for one, row in matrix.items():
        add(found, one, *row.values())
    return [title("Outcome matrix: rules by how they ended in A (rows) and B (columns)"), found]


def _categories(report: RunDiff) -> list[RenderableType]:
    found = table("category", "A", "B", "won", "lost", "difference", numbers=5)
    for one in report.outcomes.categories:
        pairs = one.table
        rates = rate_text(pairs.rate_a), rate_text(pairs.rate_b)
        delta = points(pairs.difference)
        add(found, one.category or "(none)", *rates, pairs.wins, pairs.regressions, delta)
    note = "No test per category: with many of them, some move by chance."
    return [title("Categories, over the rules graded in both"), or_none(found), Text(note)]


def _flips(report: RunDiff) -> list[RenderableType]:
    parts: list[RenderableType] = []
    pairs = report.outcomes.any_attempt.table
    for name, flips, total in (
        ("Regressions", report.outcomes.regressions, pairs.regressions),
        ("Wins", report.outcomes.wins, pairs.wins),
    ):
        found = table("rule", "category", "A", "B", numbers=2)
        for flip in flips:
            add(found, *_flip_cells(flip))
        parts += [title(f"{name}{cut(len(flips), total)}"), or_none(found)]
    return parts


def _flip_cells(flip: Flip) -> tuple[object, ...]:
    return flip.rule_id, flip.category or "(none)", grade(flip.a), grade(flip.b)


def _only(report: RunDiff) -> list[RenderableType]:
    found = report.outcomes
    parts: list[RenderableType] = []
    for name, rules, total in (
        ("A", found.only_a, found.n_only_a),
        ("B", found.only_b, found.n_only_b),
    ):
        if total:
            parts.append(plain(f"Only in {name}{cut(len(rules), total)}: {', '.join(rules)}"))
    return [Text(""), *parts] if parts else []


def _tips(report: RunDiff) -> list[RenderableType]:
    tips = report.tips
    first = (
        f"{tips.rules} rules in both: {tips.same_list} with the same tips in the same places, "
        f"{tips.same_tips_reordered} with the same tips in other places"
    )
    second = (
        f"tips of rules: {tips.new} new in B, {tips.gone} gone, {tips.moved} moved; "
        f"different tips: {tips.a_tips} in A ({tips.retired} of them retired now), {tips.b_tips} in B"
    )
    heading = title(f"Tips: the first {report.k} of each rule's first attempt")
    return [heading, Text(first), Text(second)]


def _chronic(report: RunDiff) -> list[RenderableType]:
    chronic = report.chronic
    found = table("rule", "category", "attempts", "best", "tips shown", "different", numbers=4)
    for rule in chronic.rules:
        cells = (rule.rule_id, rule.category or "(none)", rule.attempts, grade(rule.best))
        add(found, *cells, rule.shown, rule.tips)
    heading = title(
        f"Chronic failures{cut(len(chronic.rules), chronic.n)}: failed in each of "
        f"{len(chronic.runs)} runs, {chronic.attempts} attempts spent"
    )
    note = plain(f"runs, latest first: {', '.join(chronic.runs)}")
    if len(chronic.runs) < 2:
        return [title("Chronic failures"), Text("one run alone makes nothing chronic")]
    return [heading, note, or_none(found)]


def render_matrix(matrix: RunMatrix) -> list[RenderableType]:
    """Each run (column) against the earlier ones (rows): ``won/lost p``, a star where it stands out."""
    cells = {(cell.a, cell.b): cell for cell in matrix.cells}
    numbered = list(enumerate(matrix.runs, start=1))
    runs = table("", "run", "started", "success", numbers=1)
    for number, run in numbered:
        add(runs, number, run.external_id, f"{run.started_at:%Y-%m-%d}", rate_text(run.success))
    found = table("A \\ B", *(str(number) for number, _ in numbered[1:]), numbers=len(numbered) - 1)
    for number, run in numbered[:-1]:
        row = [_cell(cells.get((run.run_id, other.run_id))) for _, other in numbered[1:]]
        add(found, number, *row)
    note = (
        "won/lost by the later run (B) over the rules graded in both, exact p of McNemar; "
        "* more than noise even as one of so many pairs (Holm)."
    )
    heading = plain(f"The last {len(matrix.runs)} runs of skill {matrix.skill}", "bold")
    return [heading, runs, Text(""), or_none(found), Text(note), Text(FAMILIES)]


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    star = "*" if cell.stands_out else ""
    return f"{cell.table.wins}/{cell.table.regressions} p {p_text(cell.table.p_value)}{star}"
