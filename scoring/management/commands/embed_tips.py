"""``manage.py embed_tips [--skill S]``: give the tips their vectors, so that they are found by text.

Guarantees: only what is missing or stale is computed, so that it may be stopped and started again; with
``--dry-run`` nothing is computed or written. Exit code 1 when the model cannot work here; tips whose
texts hold nothing that it can read are counted and left without a vector, which is no error.

Does not need to be run by hand in the long run: the end of a dream pass does it for the tips of its run.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import Progress

from memory.audit.scope import Scope, ScopeError
from memory.terminal import visible
from scoring import tip_vectors
from scoring.vectors import EmbeddingError

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Fill in the vectors of tips."""

    help = "Compute the text vectors of tips that have none, or one of another encoder."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which tips, in which form."""
        parser.add_argument("--skill", help="only tips of this skill")
        parser.add_argument("--dry-run", action="store_true", help="count, change nothing")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Count or fill, and report."""
        skill = options["skill"]
        try:
            Scope(skill=skill).require_known_skill()
        except ScopeError as error:
            raise CommandError(visible(error)) from error
        if options["dry_run"]:
            missing = tip_vectors.missing(skill).count()
            found = tip_vectors.Filled(missing=missing, written=0, left=missing)
        else:
            found = self._filled(skill, quiet=options["json"])
        if options["json"]:
            self.stdout.write(json.dumps(asdict(found) | {"dry_run": options["dry_run"]}))
        elif options["dry_run"]:
            self.stdout.write(f"{found.missing} tips would be given a vector")
        else:
            self.stdout.write(f"{found.written} of {found.missing} tips were given a vector")
        if found.left and not options["dry_run"] and not options["json"]:
            self.stdout.write(
                f"{found.left} hold nothing that the model can read (blank, or too long): these are "
                "found by rule and category only"
            )

    def _filled(self, skill: str | None, *, quiet: bool) -> tip_vectors.Filled:
        bar = Progress(console=Console(stderr=True), transient=True, disable=quiet)
        try:
            with bar:
                task = bar.add_task("Vectors", total=None)
                return tip_vectors.fill(
                    skill,
                    progress=lambda done, all_: bar.update(task, completed=done, total=all_),
                )
        except EmbeddingError as error:
            raise CommandError(visible(error)) from error
