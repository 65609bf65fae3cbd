"""``manage.py recount``: make the evidence anew from the rows, or only compare the two (``--check``).

Guarantees: ``--check`` reads only, in one snapshot, and exits with status 1 when anything differs, naming
the first differing keys; without it the evidence of final runs is what their rows say afterwards, and a
run that is being scored keeps what it had. Both may run while the pipeline works.

Shaped by: sums that nobody could prove, because nothing could count them again.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from rich.table import Table

from memory import evidence
from memory.audit.scope import Scope, ScopeError
from memory.management.progress import bar
from memory.terminal import plain, print_all

if TYPE_CHECKING:
    from argparse import ArgumentParser

MEND = "manage.py recount makes them anew"


class Command(BaseCommand):
    """Recount or check, and say what differed."""

    help = "Make the evidence (the sums behind ranker and eviction) anew from rows, or check it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare what is looked at and whether anything may be changed."""
        parser.add_argument("--check", action="store_true", help="compare, change nothing")
        parser.add_argument("--skill", help="runs and tips of this skill only")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Do it and report."""
        skill = options["skill"]
        try:
            Scope(skill=skill).require_known_skill()
        except ScopeError as error:
            raise CommandError(str(error)) from error
        work = self._check if options["check"] else self._recount
        work(skill, as_json=options["json"])

    def _recount(self, skill: str | None, *, as_json: bool) -> None:
        with bar("Counting", hidden=as_json) as progress:
            found = evidence.recount(skill=skill, progress=progress)
        if as_json:
            self.stdout.write(json.dumps(asdict(found)))
            return
        self.stdout.write(
            f"{found.runs} runs counted; sums that had to be changed: {found.run_rows} of runs, "
            f"{found.tip_rows} of tips"
        )

    def _check(self, skill: str | None, *, as_json: bool) -> None:
        with bar("Checking", hidden=as_json) as progress:
            found = evidence.check(skill=skill, progress=progress)
        if as_json:
            differences = [difference.as_dict() for difference in found]
            self.stdout.write(json.dumps({"ok": not found, "differences": differences}))
        elif found:
            print_all(self.stdout, [_table(found)])
        else:
            self.stdout.write("the evidence is what the rows add up to")
        if found:
            msg = f"the evidence differs from its rows, first in {found[0]}; {MEND}"
            raise CommandError(msg)


def _table(found: list[evidence.Difference]) -> Table:
    table = Table(
        title=f"First differences (at most {evidence.SHOWN_AT_MOST} per table of a skill)"
    )
    for column in ("table", "key", "sum", "stored", "counted"):
        table.add_column(column, overflow="fold")
    for difference in found:
        key = " ".join(f"{name}={value}" for name, value in difference.key.items())
        stored, wanted = difference.stored, difference.wanted
        for number, name in enumerate(stored or wanted or {}):
            first = (difference.table, key) if number == 0 else ("", "")
            sides = (side[name] if side is not None else "no row" for side in (stored, wanted))
            table.add_row(*map(plain, (*first, name, *sides)))
    return table
