"""``show_run RUN``: one run with its attempts, the tips of each, every signal and every reason.

Guarantees: RUN is an external id or a primary key, and an unknown one is an error with exit code 1 that
names it, never another run; reads only; the JSON is ASCII, so that hostile text stays text in a pipe.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from memory.models import Run
from memory.querysets import AmbiguousRun, UnknownRun
from memory.run_render import render_run
from memory.run_sections import names_to_ask_for, sections_of
from memory.run_view import run_view
from memory.snapshot import one_moment
from memory.terminal import plain, print_all

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Print one run."""

    help = "Show a run: attempts, their tips, each signal, each reason, and what judging cost."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which run, and in which form."""
        parser.add_argument("run", metavar="RUN", help="external id or primary key")
        parser.add_argument("--skill", help="needed when several skills use the external id")
        parser.add_argument(
            "--with", dest="asked", action="append", default=[], choices=names_to_ask_for(),
            help="also what is long; judgements: each verdict with its checklist, quotes and tier",
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="everything, as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Look the run up and print it."""
        try:
            with one_moment():
                run = Run.objects.named(options["run"], skill=options["skill"])
                asked = names_to_ask_for() if options["json"] else options["asked"]
                view, sections = run_view(run), sections_of(run, asked=asked)
        except (UnknownRun, AmbiguousRun) as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            data = {name: section.data for name, section in sections.items()}
            self.stdout.write(json.dumps(view | {"sections": data}, indent=2))
            return
        print_all(self.stdout, render_run(view))
        lines = [line for section in sections.values() for line in section.lines]
        print_all(self.stdout, [plain(line, limit=1_000) for line in ["", *lines]])
