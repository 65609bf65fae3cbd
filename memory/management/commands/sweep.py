"""``sweep``: hold the active tips of a skill against its gate; apply what was found; take it back.

Guarantees: naming a skill stores a preview and changes no tip, and lists the retired tips that the gate
would not catch any more; ``--apply`` and ``--undo`` act on one
stored sweep and say which tips they left, and why; with ``--dry-run`` nothing is stored, and what would
happen is found by doing it and rolling back; an unknown skill or sweep, a sweep in another state and a
gate that makes no sense are errors with exit code 1.

Shaped by: a tool that retired in one step what it had not shown, with an undo in hand-typed SQL.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from contextgraph.skills import SkillError
from memory import eviction
from memory.audit.scope import Scope, ScopeError
from memory.cleared_tips import cleared_tips
from memory.credit import UnknownPolicy
from memory.eviction_gate import GateError, gate_of
from memory.management.arguments import (
    add_author,
    add_gate,
    author_of,
    gate_overrides,
    positive_id,
    positive_number,
)
from memory.retirement import RetirementError
from memory.sweep_render import render_cleared, render_list, render_sweep
from memory.sweep_view import latest_sweeps, sweep_view
from memory.terminal import print_all, visible

if TYPE_CHECKING:
    from argparse import ArgumentParser

ERRORS = (
    ScopeError, GateError, UnknownPolicy, SkillError, RetirementError, eviction.SweepError,
)  # fmt: skip
LIMIT = 25


class Command(BaseCommand):
    """See the module's description."""

    help = "Preview, apply, undo, show or list eviction sweeps."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to do, the gate, and the form of the report."""
        parser.add_argument("skill", nargs="?", metavar="SKILL", help="preview a sweep of it")
        step = parser.add_mutually_exclusive_group()
        step.add_argument("--apply", type=positive_id, metavar="ID", help="retire what it caught")
        step.add_argument(
            "--undo", type=positive_id, metavar="ID", help="give back what it retired"
        )
        step.add_argument("--show", type=positive_id, metavar="ID", help="print it again")
        step.add_argument("--list", action="store_true", help="the latest sweeps (of SKILL)")
        add_gate(parser)
        add_author(parser)
        parser.add_argument("--dry-run", action="store_true", help="store and change nothing")
        parser.add_argument("--json", action="store_true", help="everything, as JSON")
        parser.add_argument(
            "--limit", type=positive_number, default=LIMIT, metavar="N",
            help="lines per table (default: %(default)s)",
        )  # fmt: skip

    def handle(self, *_args: Any, **options: Any) -> None:
        """Do the one thing that was asked for."""
        stored = [name for name in ("apply", "undo", "show") if options[name] is not None]
        self._refuse_what_does_not_go_together(stored, options)
        try:
            if stored:
                self._stored(stored[0], options)
            elif options["list"]:
                self._list(options)
            else:
                self._preview(options)
        except ERRORS as error:
            raise CommandError(visible(error)) from error

    def _refuse_what_does_not_go_together(self, stored: list[str], options: dict[str, Any]) -> None:
        if stored and options["skill"] is not None:
            msg = f"--{stored[0]} takes the id of a sweep and no skill: the sweep knows its own"
            raise CommandError(msg)
        if (stored or options["list"]) and gate_overrides(options):
            msg = "a stored sweep keeps the gate that it was made with: give a gate with SKILL only"
            raise CommandError(msg)
        if not stored and not options["list"] and options["skill"] is None:
            msg = "name a skill to preview, or give --apply ID, --undo ID, --show ID or --list"
            raise CommandError(msg)

    def _preview(self, options: dict[str, Any]) -> None:
        skill = options["skill"]
        Scope(skill=skill).require_known_skill()
        gate, by = gate_of(skill, **gate_overrides(options)), author_of(options)
        if options["dry_run"]:
            sweep, entries = eviction.plan(skill, gate=gate, by=by)
        else:
            sweep = eviction.preview(skill, gate=gate, by=by)
            entries = list(sweep.entries.all())
        view = sweep_view(sweep, entries) | {"cleared": cleared_tips(skill, gate)}
        self._print(view, options)
        if options["json"] or options["dry_run"]:
            return
        if any(not entry.over_cap for entry in entries):
            self.stdout.write(f"No tip was changed. To retire: manage.py sweep --apply {sweep.pk}")
        else:
            self.stdout.write("Nothing to retire.")

    def _stored(self, step: str, options: dict[str, Any]) -> None:
        if step == "show":
            sweep = eviction.sweep_of(options["show"])
            self._print(sweep_view(sweep, list(sweep.entries.all())), options)
            return
        act = {"apply": eviction.apply, "undo": eviction.undo}[step]
        with transaction.atomic():
            change = act(options[step], by=author_of(options))
            view = sweep_view(change.sweep, list(change.sweep.entries.all()))
            if options["dry_run"]:
                transaction.set_rollback(True)
        self._print(view | {"dry_run": options["dry_run"]}, options)
        if options["json"]:
            return
        verb = {"apply": "retired", "undo": "given back"}[step]
        would = "that would be " if options["dry_run"] else ""
        self.stdout.write(
            f"Tips {would}{verb}: {len(change.tips)}; left as they are: {len(change.left)}."
        )
        if step == "apply" and change.tips and not options["dry_run"]:
            self.stdout.write(f"To take it back: manage.py sweep --undo {change.sweep.pk}")

    def _list(self, options: dict[str, Any]) -> None:
        if options["skill"] is not None:
            Scope(skill=options["skill"]).require_known_skill()
        heads = latest_sweeps(options["skill"], options["limit"])
        if options["json"]:
            self.stdout.write(json.dumps({"sweeps": heads}, indent=2))
        elif heads:
            print_all(self.stdout, [render_list(heads)])
        else:
            self.stdout.write("There are no sweeps yet.")

    def _print(self, view: dict[str, Any], options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(view, indent=2))
        else:
            print_all(self.stdout, render_sweep(view, limit=options["limit"]))
            cleared = view.get("cleared", [])
            print_all(self.stdout, render_cleared(cleared, limit=options["limit"]))
