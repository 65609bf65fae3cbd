"""``eviction_gate SKILL``: which tips change sides under another gate, before it is saved.

Guarantees: the flips are printed first, from the rows of one moment; only ``--save`` writes, into the
skill's own file and only the settings that were given; the file is read anew before it takes the old
one's place. Changes no tip: ``sweep`` does that. Every setting of the gate can be tried; caps move no tip
between the lists, and who of those caught by both moves over the cap or back is listed.

Shaped by: modifiers that halved every credit under a threshold that nobody had rescaled.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from contextgraph.skills import SkillError
from memory.audit.scope import Scope, ScopeError
from memory.credit import UnknownPolicy
from memory.eviction import flips
from memory.eviction_gate import GateError, gate_of
from memory.gate_file import save_gate
from memory.management.arguments import add_gate, gate_overrides, positive_number
from memory.snapshot import one_moment
from memory.sweep_render import render_flips
from memory.sweep_view import flips_view
from memory.terminal import print_all, visible

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """See the module's description."""

    help = "Show which tips another eviction gate would catch or spare; --save keeps it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which skill, which gate, and whether to keep it."""
        parser.add_argument("skill", metavar="SKILL")
        add_gate(parser)
        parser.add_argument("--save", action="store_true", help="write it into the skill's file")
        parser.add_argument("--json", action="store_true", help="everything, as JSON")
        parser.add_argument(
            "--limit", type=positive_number, default=25, metavar="N",
            help="lines per table (default: %(default)s)",
        )  # fmt: skip

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compare, print, and perhaps save."""
        skill, changes = options["skill"], gate_overrides(options)
        if options["save"] and not changes:
            msg = "nothing to save: name what is to change, for example --threshold 0.2"
            raise CommandError(msg)
        try:
            with one_moment():
                Scope(skill=skill).require_known_skill()
                view = flips_view(flips(skill, gate_of(skill), gate_of(skill, **changes)))
            if not options["json"]:
                print_all(self.stdout, render_flips(view, limit=options["limit"]))
            path = save_gate(settings.PROMPTS_DIR, skill, changes) if options["save"] else None
        except (ScopeError, GateError, UnknownPolicy, SkillError) as error:
            raise CommandError(visible(error)) from error
        if options["json"]:
            saved = str(path) if path else None
            self.stdout.write(json.dumps(view | {"saved_to": saved}, indent=2))
        elif path:
            self.stdout.write(
                f"Saved to {path}. Workers that are running keep the old gate until they restart."
            )
        elif changes:
            self.stdout.write("Nothing was saved: add --save to keep this gate.")
