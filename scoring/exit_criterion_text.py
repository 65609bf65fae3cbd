"""The exit criterion in words and tables, for a terminal.

Guarantees: says for every substitute and skill whether the criterion is met, in a sentence; every
rate stands with its interval and n; names of skills are data and come out harmless.

Computes nothing: the sentences say what `exit_criterion` found.

Shaped by a percentage that was read as a permission, with eleven rows behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from memory.credit import Signal
from memory.terminal import plain
from scoring.exit_criterion import SUBSTITUTES, ExitReport, Group, Standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from memory.rates import Rate

NAMES: Final = {
    Signal.EMB: "embedding (cosine at least 0.6)",
    Signal.TRACE: "trace (where it decides)",
}


def render(report: ExitReport) -> Iterator[RenderableType]:
    """The whole report."""
    limit = f"{report.threshold * 100:g} %"
    yield plain(f"ADR-0019: may the judge be dropped? Criterion: agreement above {limit}", "bold")
    if report.too_small:
        yield plain(
            f"{report.too_small} rows left out: judged by a model below one billion parameters"
        )
    if report.uncalibrated:
        named = ", ".join(f"{source.source} {source.rows} rows" for source in report.uncalibrated)
        yield plain(f"! uncalibrated judges: {named}")
    for signal in SUBSTITUTES:
        yield Text("")
        yield plain(sentence(report.of(signal, None), report.threshold), "bold")
        if report.costs:
            yield _agreement(report, signal)
        for group in report.groups:
            if group.signal is signal and group.skill is not None and group.month is None:
                yield plain(f"  {sentence(group, report.threshold)}")
    if report.costs:
        yield Text("")
        yield plain("What dropping the judge would change (credit by adr0019):", "bold")
        yield _costs(report)
        met = [cost for cost in report.costs if report.would_drop(cost)]
        where = ", ".join(f"{cost.skill} ({_short(cost.signal)} instead)" for cost in met)
        yield plain(f"At {limit} the judge could be dropped in: {where or 'no skill'}.", "bold")


def _short(signal: Signal) -> str:
    return NAMES[signal].partition(" ")[0]


def sentence(group: Group, threshold: float) -> str:
    """Whether the criterion is met for *group*, and why."""
    rate = group.agreement.raw
    where = "overall" if group.skill is None else f"in skill {group.skill}"
    name = NAMES[group.signal]
    seen = f"agrees with the judge on {_rate(rate)} rows of {group.runs} runs"
    return {
        Standing.MET: f"Met {where}: {name} {seen}; the whole interval lies above {threshold:.3g}.",
        Standing.NOT_SHOWN: f"Not shown {where}: {name} {seen}; the interval reaches below "
        f"{threshold:.3g}, so more rows are needed.",
        Standing.NOT_MET: f"Not met {where}: {name} {seen}.",
        Standing.UNKNOWN: f"Cannot be checked {where}: no row has an answer of the judge and of the "
        f"{name}.",
    }[group.standing(threshold)]


def _agreement(report: ExitReport, signal: Signal) -> Table:
    table = _table("  skill", "month", "agreement", "kappa", "runs", "criterion")
    for group in report.groups:
        if group.signal is signal and group.skill is not None:
            kappa = group.agreement.as_dict()["kappa"]
            table.add_row(
                plain(f"  {group.skill}", limit=60),
                plain(group.month or "all"),
                plain(_rate(group.agreement.raw)),
                plain("-" if kappa is None else f"{kappa:.2f}"),
                plain(group.runs),
                plain(group.standing(report.threshold).replace("_", " ")),
            )
    return table


def _costs(report: ExitReport) -> Table:
    table = _table(
        "  skill",
        "instead",
        "rows whose credit changes",
        "mean change",
        "misleading tips lost",
        "raised",
    )
    for cost in report.costs:
        met = " (criterion met)" if report.would_drop(cost) else ""
        table.add_row(
            plain(f"  {cost.skill}{met}", limit=80),
            plain(_short(cost.signal)),
            plain(_rate(cost.changed)),
            plain("-" if cost.mean_change is None else f"{cost.mean_change:.3f}"),
            plain(_rate(cost.lost)),
            plain(cost.raised),
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _rate(rate: Rate) -> str:
    facts = rate.as_dict()
    if facts["rate"] is None:
        return "-"
    return f"{facts['rate']:.3f} [{facts['low']:.3f}, {facts['high']:.3f}] {rate.hits}/{rate.n}"
