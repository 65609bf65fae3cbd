"""`manage.py eval_follow FILE`: how well the trace and the cosine agree with labelled pairs.

Guarantees: reads JSON lines (tip, script, followed, kind), writes nothing, needs no database and
no network; prints a table or, with `--json`, the same figures. A file with bad rows is refused with
exit code 2 and the rows are named.

Does not guarantee a verdict on a signal: it reports figures per kind, and their reader decides.

Shaped by figures that nobody could recompute: every number a document quotes comes from here.
"""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.table import Table

from scoring.evaluation import (
    Agreement,
    LabelledPair,
    PairFileError,
    Scored,
    agreement,
    read_pairs,
)
from scoring.trace import TRACE_VERSION, Verdict, trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scoring.embedding import TextVector

COSINE_FOLLOWED: Final = 0.6
"""Cosine from which ADR-0019 calls a tip followed."""
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

    def handle(self, *args: Any, **options: Any) -> None:
        del args
        try:
            pairs = read_pairs(options["file"])
        except (PairFileError, OSError) as error:
            raise CommandError(str(error), returncode=_BAD_INPUT) from error
        results: dict[str, tuple[Agreement, ...]] = {}
        if options["signal"] in ("trace", "both"):
            results["trace"] = agreement(pairs, trace_scores(pairs))
        if options["signal"] in ("cosine", "both"):
            results["cosine"] = agreement(pairs, cosine_scores(pairs))
        self.stdout.write(_as_json(results) if options["json"] else _as_table(results))


def trace_scores(pairs: Sequence[LabelledPair]) -> list[Scored]:
    """Score pairs by the action trace."""
    results = [trace(tip=pair.tip, script=pair.script) for pair in pairs]
    return [
        Scored(
            score=result.score,
            followed=None if result.score is None else result.verdict is Verdict.FOLLOWED,
        )
        for result in results
    ]


def cosine_scores(pairs: Sequence[LabelledPair]) -> list[Scored]:
    """Score pairs by the embedding cosine, each distinct text encoded once."""
    # The model costs seconds and a gigabyte: only whoever asks for the cosine pays.
    from scoring.embedding import EmbeddingError, cosine, load_encoder

    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.tip, pair.script)))
    blank = {text for text in texts if not text.strip()}
    readable = [text for text in texts if text not in blank]
    try:
        encoded = load_encoder().encode(readable)
    except EmbeddingError as error:
        raise CommandError(f"the cosine cannot be computed: {error}") from error
    vectors: dict[str, TextVector] = dict(zip(readable, encoded, strict=True))
    scored: list[Scored] = []
    for pair in pairs:
        if pair.tip in blank or pair.script in blank:
            scored.append(Scored(score=None, followed=None))
            continue
        value = cosine(vectors[pair.tip], vectors[pair.script])
        scored.append(Scored(score=value, followed=value >= COSINE_FOLLOWED))
    return scored


def _as_json(results: dict[str, tuple[Agreement, ...]]) -> str:
    signals = {name: [dataclasses.asdict(row) for row in rows] for name, rows in results.items()}
    report = {
        "trace_version": TRACE_VERSION,
        "cosine_threshold": COSINE_FOLLOWED,
        "signals": signals,
    }
    return json.dumps(report, indent=2)


def _as_table(results: dict[str, tuple[Agreement, ...]]) -> str:
    table = Table(title=f"Agreement with labels (trace version {TRACE_VERSION})")
    table.add_column("signal")
    table.add_column("kind")
    for name in ("n", "followed", "AUC", "AUC decided", "acc. decided", "acc. all", "coverage"):
        table.add_column(name, justify="right")
    for name, rows in results.items():
        for row in rows:
            table.add_row(
                name,
                row.kind,
                str(row.n),
                str(row.followed),
                _rate(row.auc) + ("*" if row.borrowed else " "),
                _rate(row.auc_decided),
                _rate(row.accuracy_decided),
                _rate(row.accuracy_all),
                _rate(row.coverage),
            )
        table.add_section()
    buffer = io.StringIO()
    console = Console(file=buffer, width=_WIDTH)
    console.print(table)
    console.print(_NOTE)
    return buffer.getvalue().rstrip()


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
