"""An audit on a terminal: one table per section, readable without colour, in a pipe, and in a log.

Guarantees: every rate is printed with its n and its 95 % interval; texts of tips, rules and runs are
passed through ``memory.terminal`` so that they cannot steer the terminal; a section that is empty
says so; a section that rests on verdicts of judges names those without a calibration. Does not sum
up: the report names suspects and figures, the reader decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from memory.provenance import UNCALIBRATED
from memory.rates import wilson
from memory.terminal import plain, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memory.audit import AuditReport
    from memory.audit.cohorts import Cohort
    from memory.audit.outcomes import Distribution
    from memory.audit.suspects import Suspect
    from memory.rates import Mean, Rate
    from memory.tallies import Tally

NOTHING = "–"


def render_report(report: AuditReport) -> list[RenderableType]:
    """The report as parts to be printed one below the other."""
    sections = (
        _head,
        _tip_pool,
        _activity,
        _cohorts,
        _misleading,
        _lucky,
        _outcomes,
        _stale,
        _coverage,
        _agreement,
    )
    return [part for section in sections for part in section(report)]


def rate_text(rate: Rate) -> str:
    """``3 of 5`` with its share and the ends of the interval; a rate of nothing is a dash."""
    interval = wilson(rate.hits, rate.n)
    if interval is None:
        return NOTHING
    low, high = interval
    return f"{rate.hits} of {rate.n} ({rate.hits / rate.n:.0%}, {100 * low:.0f}–{100 * high:.0f})"


def mean_text(mean: Mean) -> str:
    """``+0.25 (n 4)``; a mean of nothing is a dash."""
    if mean.value is None:
        return NOTHING
    return f"{round(mean.value, 2) + 0.0:+.2f} (n {mean.n})"  # adding zero makes -0.00 a +0.00


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _table(*columns: str, numbers: int = 0) -> Table:
    """A table whose last *numbers* columns are set flush right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, column in enumerate(columns):
        right = position >= len(columns) - numbers
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    return table


def _add(table: Table, *cells: object) -> None:
    table.add_row(*(plain(cell) for cell in cells))


def _or_none(table: Table) -> RenderableType:
    return table if table.row_count else Text("none")


def _head(report: AuditReport) -> list[RenderableType]:
    scope = report.scope.as_dict()
    run = scope["run"]["external_id"] if scope["run"] else "all"
    line = f"Audit of skill {scope['skill'] or 'all'}, run {run}, credit policy {report.policy}"
    note = "Rates: hits of n (share, 95 % interval in per cent). Rows of one attempt share its outcome."
    return [plain(line, "bold"), plain(_reading(report)), Text(note)]


def _reading(report: AuditReport) -> str:
    """Which signals the credit rests on; what it leaves out decides elsewhere in the report."""
    reads = f"reads {', '.join(report.policy_reads)}" if report.policy_reads else "reads no signal"
    if not report.policy_ignores:
        return f"Credit under this policy {reads}, as every other figure here does."
    return (
        f"Credit under this policy {reads}, and not {', '.join(report.policy_ignores)}; followed, "
        "ignored, misleading and lucky ask all of them. Credit by quadrants, which does so too, stands "
        "beside it."
    )


def _tip_pool(report: AuditReport) -> list[RenderableType]:
    pool = report.tip_pool
    line = (
        f"{pool.total} tips: {pool.active} active, {pool.retired} retired, {pool.with_text} with text; "
        f"{pool.new_7_days} new in 7 days, {pool.new_30_days} in 30"
    )
    table = _table("type", "total", "active", numbers=2)
    for kind in pool.by_type:
        _add(table, kind.tip_type or "(none)", kind.total, kind.active)
    return [_title("1. Tip pool"), Text(line), _or_none(table)]


def _activity(report: AuditReport) -> list[RenderableType]:
    columns = ("run", "skill", "status", "retrieved", "shown", "judged")
    table = _table(*columns, "followed", "ignored", "unknown", "follow rate", numbers=7)
    for run in report.activity:
        tally = run.tally
        counts = (tally.retrievals, tally.shown, tally.judged)
        answers = (tally.followed, tally.ignored, tally.unknown, rate_text(tally.follow_rate))
        _add(table, run.external_id, run.skill, run.status, *counts, *answers)
    return [_title("2. Retrieval activity, latest runs"), _or_none(table)]


def _cohorts(report: AuditReport) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for kind, found in (
        ("month", report.cohorts.by_month),
        ("first run", report.cohorts.by_first_run),
    ):
        both = bool(report.policy_ignores)
        means = (*_MEANS, "credit by quadrants") if both else _MEANS
        table = _table(
            kind,
            "tips",
            "helped when present",
            "helped when followed",
            *means,
            numbers=3 + len(means),
        )
        for cohort in found:
            _add(table, *_cohort_cells(cohort)[: 4 + len(means)])
        parts += [_title(f"3. Helpfulness per cohort, by {kind}"), _or_none(table)]
    return parts


_MEANS = ("outcome present", "outcome followed", "credit")


def _cohort_cells(cohort: Cohort) -> tuple[object, ...]:
    tally: Tally = cohort.tally
    return (
        cohort.key,
        cohort.tips,
        rate_text(tally.helped_when_present),
        rate_text(tally.helped_when_followed),
        mean_text(tally.value_when_present),
        mean_text(tally.value_when_followed),
        mean_text(tally.credit),
        mean_text(tally.quadrant_credit),
    )


def _misleading(report: AuditReport) -> list[RenderableType]:
    title = "4a. Misleading tips: followed, and the attempt failed"
    return _suspects(title, "failed when followed", report.misleading, report)


def _lucky(report: AuditReport) -> list[RenderableType]:
    title = "4b. Lucky neighbours: ignored, and the attempt succeeded"
    return _suspects(title, "ignored at success", report.lucky_neighbours, report)


def _suspects(
    title: str, rate: str, found: list[Suspect], report: AuditReport
) -> list[RenderableType]:
    parts: list[RenderableType] = [_title(title)]
    if not found:
        return [*parts, Text("none")]
    parts += _uncalibrated(report)
    for suspect in found:
        tally = suspect.tally
        marks = (
            [f"by quadrants {mean_text(tally.quadrant_credit)}"] if report.policy_ignores else []
        )
        marks += [f"also {suspect.also.replace('_', ' ')}"] if suspect.also else []
        marks += ["retired"] if suspect.retired else []
        head = (
            f"tip {suspect.tip} [{suspect.tip_type or 'no type'}] {rate} {rate_text(suspect.rate)}, "
            f"credit {mean_text(tally.credit)}"
        )
        parts.append(plain(", ".join([head, *marks]), "bold"))
        parts.append(plain(f"  {suspect.text or '(text never sent)'}", limit=160))
        parts += [
            plain(
                f"  · run {row.run}, {row.rule_id} #{row.attempt}: outcome {row.outcome_value:+.2f}, "
                f"said by {row.source}{f' ({UNCALIBRATED})' if row.uncalibrated else ''}"
            )
            for row in suspect.evidence
        ]
    return parts


def _outcomes(report: AuditReport) -> list[RenderableType]:
    found = report.outcomes
    columns = ("", "strong > 0.7", "weak (0, 0.7]", "zero", "negative", "none", "min", "max")
    table = _table(*columns, numbers=7)
    _add(table, "attempts", *_distribution_cells(found.attempts))
    _add(table, "retrievals", *_distribution_cells(found.retrievals))
    parts: list[RenderableType] = [_title("5. Outcomes"), table]
    if found.null_reasons:
        parts.append(plain(f"attempts without an outcome: {_reasons(found.null_reasons)}"))
    parts += [plain(f"! {flag.code}: {flag.detail}", "yellow") for flag in found.flags]
    return parts if found.flags else [*parts, Text("no flag")]


def _distribution_cells(found: Distribution) -> tuple[object, ...]:
    ends = (found.minimum, found.maximum)
    counts = (found.strong, found.weak, found.zero, found.negative, found.null)
    return (*counts, *(NOTHING if end is None else f"{end:+.2f}" for end in ends))


def _reasons(reasons: dict[str, int]) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in reasons.items())


def _stale(report: AuditReport) -> list[RenderableType]:
    table = _table("tip", "type", "text", "at source", "retrievals", "outcome present", numbers=3)
    for tip in report.stale_confident:
        source = f"{tip.source_value:.2f} × {tip.source_confidence:.2f}"
        text = plain(tip.text, limit=60)
        cells: tuple[Any, ...] = (tip.tip, tip.tip_type, text, source, tip.retrievals)
        _add(table, *cells, f"{tip.outcome_when_present:+.2f}")
    return [_title("6. Stale-confident tips"), _or_none(table)]


def _coverage(report: AuditReport) -> list[RenderableType]:
    table = _table("signal", "labelled", "not labelled, and why")
    for signal in report.coverage:
        why = _reasons(signal.null_reasons) or NOTHING
        _add(table, signal.signal, rate_text(signal.labelled), why)
    return [_title("Signal coverage"), table, *_uncalibrated(report)]


def _agreement(report: AuditReport) -> list[RenderableType]:
    table = _table("signals", "same answer", "kappa", numbers=2)
    for pair in report.agreement:
        kappa = pair.as_dict()["kappa"]
        shown = NOTHING if kappa is None else f"{kappa:+.2f}"
        _add(table, f"{pair.first} / {pair.second}", rate_text(pair.raw), shown)
    title = "Agreement of the signals, where both answered"
    return [_title(title), table, *_uncalibrated(report)]


def _uncalibrated(report: AuditReport) -> list[RenderableType]:
    """One line that names the judges without a calibration; nothing where there is none."""
    found = report.uncalibrated_sources
    if not found:
        return []
    named = [
        f"{visible(judge.source, limit=200)} {judge.rows} rows"
        + ("" if judge.in_figures else " (too small a model: left out of the agreement)")
        for judge in found[: report.limit]
    ]
    more = [f"and {len(found) - report.limit} more"] if len(found) > report.limit else []
    return [plain(f"! {UNCALIBRATED} judges: {', '.join([*named, *more])}", "yellow")]
