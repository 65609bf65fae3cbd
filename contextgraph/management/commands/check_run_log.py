"""``manage.py check_run_log FILE…``: what is in a run log, and what is wrong with it.

Guarantees: reads in constant memory, stores nothing, needs no server. Every hazard is named with its
count, its first line, what it means and what the product does about it. Exit status 1 when a file cannot
be read, 0 otherwise: a hazard is a property of the log, not a failure of the check.

Does not guarantee: that intake will accept the run.

Shaped by: logs that looked complete and held not one whole script. What comes from a log is printed
without control characters: a tip's text must not be able to drive the operator's terminal.
"""

from __future__ import annotations

import json
import unicodedata
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich import box
from rich.console import Console, Group
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from contextgraph.runlogs import FORMATS, RunLogError, open_run_log
from contextgraph.runlogs.report import RunReport, reports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

PROGRESS_ABOVE = 5 * 1024 * 1024
"""Bytes from which on a file gets a progress bar."""

PIPED_WIDTH = 120
"""Columns when the output is not a terminal."""

_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


class Command(BaseCommand):
    """See the module's description."""

    help = "Say what a run log holds and which hazards it has. Nothing is stored."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare files and options."""
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument("--format", choices=["auto", *FORMATS], default="auto")
        parser.add_argument(
            "--side-file", type=Path, metavar="F", help="JSON lines with full tip texts and scripts"
        )
        parser.add_argument("--skill", help="skill of runs whose log names none")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Check each file; go on to the next when one cannot be read."""
        results: list[dict[str, Any]] = []
        for path in options["files"]:
            result = self._check(path, options)
            results.append(result)
            if not options["json"]:
                self._print(result)
        if options["json"]:
            shown = [item | {"runs": [run.as_json() for run in item["runs"]]} for item in results]
            self.stdout.write(json.dumps({"files": shown}, indent=2))
        unreadable = sum("error" in item for item in results)
        if unreadable:
            msg = f"{unreadable} of {len(results)} files cannot be read"
            raise CommandError(msg)

    def _check(self, path: Path, options: dict[str, Any]) -> dict[str, Any]:
        """Report on one file. Runs that were complete before an error are reported as well."""
        result: dict[str, Any] = {"file": str(path), "format": None, "runs": []}
        try:
            with ExitStack() as stack:
                stream = stack.enter_context(path.open("rb"))
                side = options["side_file"]
                reader = open_run_log(
                    stream,
                    format=options["format"],
                    side_file=stack.enter_context(side.open("rb")) if side else None,
                    skill=options["skill"],
                    name=path.name.split(".", 1)[0] or path.name,
                )
                result["format"] = reader.format
                tick = stack.enter_context(self._progress(path, stream))
                for report in reports(reader, on_record=tick):
                    result["runs"].append(report)
        except (RunLogError, OSError) as error:
            result["error"] = str(error)
        return result

    @contextmanager
    def _progress(self, path: Path, stream: BinaryIO) -> Iterator[Callable[[], None]]:
        size = path.stat().st_size
        if size <= PROGRESS_ABOVE or not self.stderr.isatty():
            yield lambda: None
            return
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        console = Console(stderr=True)
        with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
            task = bar.add_task(printable(path.name), total=size)
            yield lambda: bar.update(task, completed=stream.tell())

    def _print(self, result: dict[str, Any]) -> None:
        terminal = self.stdout.isatty()
        console = Console(
            force_terminal=terminal,
            no_color=not terminal or None,
            width=None if terminal else PIPED_WIDTH,
            highlight=False,
        )
        with console.capture() as captured:
            console.print(
                Text(f"{printable(result['file'])}  ({result['format'] or 'unreadable'})")
            )
            for run in result["runs"]:
                console.print(_described(run))
            if "error" in result:
                console.print(Text(f"cannot be read: {printable(result['error'])}", style="red"))
        self.stdout.write(captured.get())


def printable(text: str) -> str:
    """Replace control, format and unassigned characters: they can rewrite what a terminal shows."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) in _UNPRINTABLE else char
        for char in text
    )


def _described(run: RunReport) -> Group:
    ended = run.ended_at or "not ended: the run died"
    lines = [
        f"run {printable(run.skill)} / {printable(run.external_id)}",
        f"  started {run.started_at}, ended {ended}",
        f"  model {printable(run.model) or 'not logged'},"
        f" environment {printable(run.environment_tag) or 'not logged'}",
        f"  {run.tips:,} tips; {run.attempts:,} attempts: {run.passed:,} passed,"
        f" {run.failed:,} failed, {run.unknown:,} without outcome",
        f"  {run.with_script:,} attempts with a script, {run.script_truncated:,} of them cut",
        f"  {run.retrievals:,} retrievals, {run.shown:,} of them shown",
    ]
    if not run.hazards:
        return Group(Text("\n".join(lines)), Text("  no hazards"))
    table = Table("hazard", "n", "first line", "what it means", "what is done", box=box.SIMPLE)
    table.columns[1].justify = table.columns[2].justify = "right"
    for hazard in run.hazards:
        line = f"{hazard.first_line:,}" if hazard.first_line else "-"
        cells = (printable(hazard.code), f"{hazard.count:,}", line, hazard.meaning, hazard.action)
        table.add_row(*map(Text, cells))
    return Group(Text("\n".join(lines)), table)
