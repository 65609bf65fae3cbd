"""`manage.py eval_follow FILE`: how well the trace and the cosine agree with labelled pairs.

Guarantees: a view of the calibration engine that needs no database, no network and no judge, and
writes nothing; prints a table or, with `--json`, the same figures. A file with bad rows is refused
with exit code 2 and the rows are named.

Does not give intervals (`calibrate_judge` does) nor a verdict on a signal.

Shaped by figures that nobody could recompute: every number a document quotes comes from here.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.table import Table

from memory.terminal import plain
from scoring.calibration import KindFigures, SignalReport, measure
from scoring.following_model import Signals
from scoring.labelled_pairs import PairFileError, read_pairs
from scoring.pair_signals import by_cosine, by_trace, cosines, traces
from scoring.trace import TRACE_VERSION
from scoring.vectors import FOLLOWED_COSINE, EmbeddingError

METRICS: Final = {
    "auc": "auc",
    "auc_decided": "auc_decided",
    "accuracy_decided": "accuracy",
    "accuracy_all": "accuracy_all",
    "coverage": "coverage",
}
"""Keys of this command's JSON, and the engine's metrics they show."""
_BAD_INPUT: Final = 2
_WIDTH: Final = 120
_NOTE: Final = (
    "* one label only in this kind: its AUC compares it with all pairs of the other label. "
    "Abstentions count as 0.5 in AUC and as wrong in 'acc. all'."
)


class Command(BaseCommand):
    """Report AUC, accuracy and coverage of the attribution signals, per kind."""

    help = "Compare the action trace and the embedding cosine with labelled (tip, script) pairs."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The file, the form, and which signals."""
        parser.add_argument(
            "file", type=Path, help="JSON lines with the fields tip, script, followed, kind"
        )
        parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
        parser.add_argument(
            "--signal",
            choices=("trace", "cosine", "both"),
            default="both",
            help="which signal to evaluate (the cosine loads the embedding model)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Read, measure, print."""
        try:
            pairs = read_pairs(options["file"]).pairs
        except (PairFileError, OSError) as error:
            raise CommandError(str(error), returncode=_BAD_INPUT) from error
        reports: list[SignalReport] = []
        if options["signal"] in ("trace", "both"):
            said = [
                Signals(trace_verdict=seen.verdict.value, trace_score=seen.score)
                for seen in traces(pairs)
            ]
            reports.append(measure("trace", pairs, by_trace(said), resamples=0))
        if options["signal"] in ("cosine", "both"):
            try:
                said = [Signals(cosine=value) for value in cosines(pairs)]
            except EmbeddingError as error:
                raise CommandError(f"the cosine cannot be computed: {error}") from error
            reports.append(measure("cosine", pairs, by_cosine(said), resamples=0))
        self.stdout.write(_as_json(reports) if options["json"] else _as_table(reports))


def _as_json(reports: list[SignalReport]) -> str:
    report = {
        "trace_version": TRACE_VERSION,
        "cosine_threshold": FOLLOWED_COSINE,
        "signals": {
            report.signal: [
                {
                    "kind": kind.kind,
                    "n": kind.n,
                    "followed": kind.followed,
                    "borrowed": kind.borrowed,
                    **{name: kind.figures[metric].value for name, metric in METRICS.items()},
                }
                for kind in report.kinds
            ]
            for report in reports
        },
    }
    return json.dumps(report, indent=2)


def _as_table(reports: list[SignalReport]) -> str:
    table = Table(title=f"Agreement with labels (trace version {TRACE_VERSION})")
    table.add_column("signal")
    table.add_column("kind")
    for name in ("n", "followed", "AUC", "AUC decided", "acc. decided", "acc. all", "coverage"):
        table.add_column(name, justify="right")
    for report in reports:
        for kind in report.kinds:
            table.add_row(
                report.signal,
                plain(kind.kind, limit=80),
                str(kind.n),
                str(kind.followed),
                *(_cell(kind, name) for name in METRICS.values()),
            )
        table.add_section()
    buffer = io.StringIO()
    console = Console(file=buffer, width=_WIDTH)
    console.print(table)
    console.print(_NOTE)
    return buffer.getvalue().rstrip()


def _cell(kind: KindFigures, name: str) -> str:
    value = kind.figures[name].value
    star = ("*" if kind.borrowed else " ") if name == "auc" else ""
    return ("-" if value is None else f"{value:.3f}") + star
