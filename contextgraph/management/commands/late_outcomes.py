"""``manage.py late_outcomes FILE.jsonl``: enter verdicts that arrived after their run.

Each line is a JSON object: skill, run, rule_id, number, passed; and, where known, failure_mode,
evaluator_raw, grade_value, grade_confidence. Runs that were final are credited anew; no tip is retired by
that, and whom the gate would catch then is told.

Guarantees: a line that is refused is named with the cause and the mend and stops no other; with
``--rejects FILE`` its bytes go there, to be tried again. The same file again changes nothing.
``--dry-run`` does all of it and rolls back. Exit status 1 when a line was refused or a dream pass failed.

Shaped by: rules that needed a reboot, whose verdict came when everything else was over.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from contextgraph.envelope import EnvelopeError
from contextgraph.late_outcomes import LateReport, enter_late_outcomes
from contextgraph.runlogs.lines import raw_lines, unpacked
from contextgraph.skills import SkillError
from memory.gate_outlook import outlook_line
from memory.management.arguments import add_author, author_of
from memory.retirement import RetirementError
from memory.terminal import visible

if TYPE_CHECKING:
    from argparse import ArgumentParser

NAMED = 20
"""Refused lines that are printed; the JSON has them all."""


class Command(BaseCommand):
    """See the module's description."""

    help = "Enter late verdicts (JSON lines) for stored attempts, and credit their runs anew."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The file, and what to do with refused lines."""
        parser.add_argument("file", metavar="FILE", type=Path, help="JSON lines; .gz is read, too")
        parser.add_argument(
            "--rejects", metavar="FILE", type=Path, help="write refused lines to this new file"
        )
        add_author(parser)
        parser.add_argument("--dry-run", action="store_true", help="report, change nothing")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Read, enter, report."""
        rejects: Path | None = options["rejects"]
        if rejects is not None and rejects.exists():
            msg = f"{rejects} is there already: name a new file for --rejects"
            raise CommandError(visible(msg))
        try:
            with ExitStack() as stack:
                file = stack.enter_context(options["file"].open("rb"))
                report = enter_late_outcomes(
                    raw_lines(unpacked(file, name=str(options["file"]))),
                    by=author_of(options),
                    dry_run=options["dry_run"],
                    rejected=_Rejects(rejects, stack).add if rejects else None,
                )
        except (OSError, EnvelopeError, SkillError, RetirementError) as error:
            raise CommandError(visible(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(report.as_dict()))
        else:
            self._print(report, rejects)
        if report.refused or report.failed:
            raise CommandError(_trouble(report))

    def _print(self, report: LateReport, rejects: Path | None) -> None:
        for refused in report.refused[:NAMED]:
            line = f"line {refused.line}: refused: {refused.cause} ({refused.mend})"
            self.stdout.write(self.style.ERROR(visible(line, limit=1_000)))
        if len(report.refused) > NAMED:
            self.stdout.write(f"and {len(report.refused) - NAMED} more (--json names them)")
        if report.refused and rejects is not None:
            self.stdout.write(f"refused lines are in {visible(rejects)}")
        verb = "would be entered" if report.dry_run else "entered"
        self.stdout.write(
            f"{report.lines} lines: {report.entered} {verb}, {report.unchanged} said what is stored, "
            f"{len(report.refused)} refused; {len(report.runs)} runs touched, "
            f"{len(report.recounted)} of them credited anew, {report.to_judge} retrievals to judge"
        )
        for line in filter(None, map(outlook_line, report.gate)):
            self.stdout.write(line)


def _trouble(report: LateReport) -> str:
    if report.failed:
        run_id, why = next(iter(report.failed.items()))
        return visible(f"the dream pass of run {report.runs.get(run_id, run_id)} failed: {why}")
    first = report.refused[0]
    return visible(
        f"{len(report.refused)} of {report.lines} lines were refused, first line {first.line}: "
        f"{first.cause} ({first.mend})",
        limit=1_000,
    )


class _Rejects:
    """A file that is made when the first line goes into it."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._path, self._stack = path, stack
        self._file: IO[bytes] | None = None

    def add(self, line: bytes) -> None:
        """Append *line* with a line end."""
        if self._file is None:
            self._file = self._stack.enter_context(self._path.open("xb"))
        self._file.write(line + b"\n")
