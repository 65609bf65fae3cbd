"""``manage.py regrade --skill S [--run R]``: outcomes anew from stored evaluator output; ``--undo``.

Guarantees: ``--dry-run`` does it, reports and rolls back; an unchanged ladder changes nothing and says
so; each changed outcome keeps its predecessor, and ``--undo`` takes the last change back. No tip is
retired by either; whom the gate would catch then is told, also by a dry run. Exit status 1 when a run was
skipped (it is not final) or its dream pass failed, which the report names.

Restart the workers after the skill file was changed: they keep the one that they have read.

Shaped by: an evaluator bug that had been credited for fifteen runs, with no way to credit them anew.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from contextgraph import regrading
from contextgraph.regrade_render import render_regrade
from contextgraph.skills import SkillError
from memory.audit.scope import Scope, ScopeError
from memory.management.arguments import add_author, author_of, positive_number
from memory.management.progress import bar
from memory.querysets import AmbiguousRun, UnknownRun
from memory.retirement import RetirementError
from memory.terminal import print_all, visible

if TYPE_CHECKING:
    from argparse import ArgumentParser

ERRORS = (
    ScopeError, UnknownRun, AmbiguousRun, SkillError, RetirementError, regrading.RegradeRefused,
)  # fmt: skip
LIMIT = 20


class Command(BaseCommand):
    """See the module's description."""

    help = "Grade stored attempts again by the skill file as it is now, or take that back."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which runs, and what to do with them."""
        parser.add_argument("--skill", required=True, metavar="S", help="runs of this skill")
        parser.add_argument("--run", metavar="R", help="this run only: external id or primary key")
        parser.add_argument(
            "--undo", action="store_true",
            help="take back the last change of outcomes (of --run: also a late verdict)",
        )  # fmt: skip
        add_author(parser)
        parser.add_argument("--dry-run", action="store_true", help="report, change nothing")
        parser.add_argument("--json", action="store_true", help="everything, as JSON")
        parser.add_argument(
            "--limit", type=positive_number, default=LIMIT, metavar="N",
            help="lines per table (default: %(default)s)",
        )  # fmt: skip

    def handle(self, *_args: Any, **options: Any) -> None:
        """Do it and report."""
        work = regrading.undo if options["undo"] else regrading.regrade
        try:
            Scope(skill=options["skill"]).require_known_skill()
            with bar("Grading", hidden=options["json"]) as progress:
                report = work(
                    skill=options["skill"],
                    run=options["run"],
                    by=author_of(options),
                    dry_run=options["dry_run"],
                    progress=progress,
                )
        except ERRORS as error:
            raise CommandError(visible(error)) from error
        view = report.as_dict()
        if options["json"]:
            self.stdout.write(json.dumps(view))
        else:
            print_all(self.stdout, render_regrade(view, limit=options["limit"]))
        if report.not_done:
            first = report.not_done[0]
            msg = (
                f"{len(report.not_done)} of {len(report.runs)} runs were not done, first "
                f"{first.external_id} ({first.state}: {first.why})"
            )
            raise CommandError(visible(msg))
