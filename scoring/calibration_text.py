"""A calibration as Markdown, for a file and for a terminal.

Guarantees: every figure stands with its interval and its n; kinds and file names are data of
strangers and come out visible and harmless in a table. Pure text; computes nothing.

Does not round away a missing figure: "-" is "not defined".

Shaped by a report that gave one accuracy for four kinds of pairs, without an n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory.terminal import visible
from scoring.calibration import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scoring.calibrating import Calibrated, Rivals
    from scoring.calibration import Figure, SignalReport

NAMES: Final = {
    "accuracy": "accuracy, answered",
    "accuracy_all": "accuracy, silence is wrong",
    "tpr": "TPR (followed found)",
    "tnr": "TNR (not followed found)",
    "kappa": "Cohen's kappa",
    "auc": "AUC, silence in the middle",
    "auc_decided": "AUC, answered",
    "ece": "ECE, 10 bins of equal mass",
    "coverage": "coverage",
    "abstained": "abstained",
    "failed": "call failed",
}

_LEGEND: Final = (
    "value [95 % interval] n. Intervals resample whole rules; a kind of fewer than five rules has "
    "none. \\* the kind holds one label: its AUC compares it with all pairs of the other label."
)


def markdown(calibrated: Calibrated, *, source: str) -> str:
    """The whole report; *source* is the name of the file, or what stands for it."""
    return "\n".join(_lines(calibrated, source)) + "\n"


def _lines(calibrated: Calibrated, source: str) -> Iterator[str]:
    facts = calibrated.as_dict()
    yield "# Calibration of the attribution signals"
    yield ""
    labels, judge = facts["labels"], facts["judge"]
    yield f"- labels: {_cell(source)}, {labels['n']} pairs of {labels['rules']} rules"
    yield f"- sha256 of the labels: {labels['sha256']}"
    if judge["model"]:
        yield f"- judge: {_cell(judge['model'])}, prompt sha256 {judge['prompt_sha256']}"
        yield from map(_cell, _judge(judge))
    for note in calibrated.notes:
        yield f"- {_cell(note)}"
    yield ""
    yield _LEGEND
    for report in calibrated.reports:
        yield ""
        yield f"## {report.signal}"
        yield ""
        yield from _table(report)
    if calibrated.fitted is not None:
        yield ""
        yield "## p(followed)"
        yield ""
        yield from _coefficients(calibrated)
    if calibrated.rivals is not None:
        yield ""
        yield from _rivals(calibrated.rivals)


def _judge(judge: dict[str, Any]) -> Iterator[str]:
    for one in judge["served"]:
        yield (
            f"- it answered as {one['model'] or 'a model without a name'}, fingerprint "
            f"{one['fingerprint'] or 'none'}: {one['decided']} pairs decided"
        )
    asked = judge["asked"]
    tips = f", {asked['tips']} tips a question" if asked["tips"] else ""
    sampling = ", ".join(f"{name} {value}" for name, value in asked["sampling"].items())
    yield f"- asked {asked['mode']}{tips}{f'; {sampling}' if sampling else ''}"


def _rivals(rivals: Rivals) -> Iterator[str]:
    with_label, without = rivals.in_use
    in_use = f"{_cell(with_label)} for labels of this judge, {_cell(without)} for rows without one"
    yield (
        f"Log loss on these pairs: {_nats(rivals.loss)} held out, {_nats(rivals.loss_in_use)} by the "
        f"numbers in use ({in_use})."
    )
    yield ""
    if rivals.adopted:
        yield "Adopted: p(followed) is computed with this fit from the next run on."
    else:
        yield "Not adopted: p(followed) goes on with the numbers in use; --adopt puts this fit to use."


def _nats(loss: float | None) -> str:
    return "-" if loss is None else f"{loss:.3f}"


def _table(report: SignalReport) -> Iterator[str]:
    heads = [
        f"{_cell(kind.kind)} ({kind.followed} of {kind.n} followed, {kind.rules} rules)"
        for kind in report.kinds
    ]
    yield f"| figure | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 1) + "|"
    for metric in METRICS:
        cells = [
            _figure(kind.figures[metric])
            + ("\\*" if metric.startswith("auc") and kind.borrowed else "")
            for kind in report.kinds
        ]
        yield f"| {NAMES[metric]} | {' | '.join(cells)} |"


def _coefficients(calibrated: Calibrated) -> Iterator[str]:
    if calibrated.fitted is None:
        return
    fitted = calibrated.fitted.coefficients
    yield f"Version {fitted.version}, intercept {fitted.intercept:+.3f}, log-odds per feature:"
    yield ""
    yield "| feature | weight | |"
    yield "|---|---|---|"
    for name, weight in fitted.weights.items():
        yield f"| {name} | {weight:+.3f} | {'hand-set' if name in fitted.hand_set else 'fitted'} |"


def _figure(figure: Figure) -> str:
    if figure.value is None:
        return "-"
    interval = ""
    if figure.low is not None and figure.high is not None:
        interval = f" [{_two(figure.low)}, {_two(figure.high)}]"
    return f"{_two(figure.value)}{interval} n={figure.n}"


def _two(number: float) -> str:
    """Two decimals; no minus before a zero."""
    return f"{round(number, 2) + 0.0:.2f}"


def _cell(text: str) -> str:
    """Text of a stranger in a Markdown table."""
    return visible(text, limit=500).replace("\\", "\\\\").replace("|", "\\|").replace("<", "\\<")
