"""``manage.py dream RUN``: the dream pass of one run; what it counted, and what that changed.

Guarantees: an unknown run, or one without a retrieval, is an error and never another run; a run that was
dreamed of gives its stored report, unless ``--force`` has every stage computed again, which says whether
the recount is byte for byte the stored one; a pass that was interrupted is finished. ``--dry-run`` does
all of it and takes it back. Exit status 1 when a stage failed.

Does not score: a run that is still being scored is an error that names the command for it. Only the first
pass of a run sweeps; after any pass that was computed it is told whom the gate would catch now.

Shaped by: a pass that fell back to the latest run when it did not find its own, and one whose ``--force``
moved every figure again.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from contextgraph import pipeline
from memory.dream import StageFailed, State
from memory.dream_render import dream_view, last_pass, render_dream
from memory.dream_report import markdown
from memory.gate_outlook import gate_outlook, outlook_line
from memory.models import Run
from memory.querysets import AmbiguousRun, UnknownRun
from memory.terminal import print_all, visible

if TYPE_CHECKING:
    from argparse import ArgumentParser

Status = Run.Status


class Command(BaseCommand):
    """See the module's description."""

    help = "Show the dream pass of a run, or make it again: credit, evidence, eviction, report."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which run, and in which form."""
        parser.add_argument("run", metavar="RUN", help="external id or primary key")
        parser.add_argument("--skill", help="needed when several skills use the external id")
        parser.add_argument("--force", action="store_true", help="compute every stage again")
        parser.add_argument("--dry-run", action="store_true", help="compute, show, keep nothing")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="everything, as JSON")
        form.add_argument("--markdown", action="store_true", help="the report as Markdown")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Look the run up, dream if there is a reason to, and print."""
        try:
            run = Run.objects.named(options["run"], skill=options["skill"])
        except (UnknownRun, AmbiguousRun) as error:
            raise CommandError(str(error)) from error
        refuse_without_rows(run)
        with transaction.atomic() if options["dry_run"] else contextlib.nullcontext():
            computed = dreamed(run, force=options["force"])
            run.refresh_from_db()
            view, kept = dream_view(run), last_pass(run)
            gate = gate_outlook(run.skill) if computed else None
            document = markdown(kept) if kept and options["markdown"] else ""
            if options["dry_run"]:
                transaction.set_rollback(True)
        view |= {
            "computed": computed,
            "identical": _identical(view) if computed else None,
            "gate": gate,
        }
        if options["json"]:
            self.stdout.write(json.dumps(view, indent=2))
        elif options["markdown"]:
            self.stdout.write(document)
        else:
            print_all(self.stdout, render_dream(view))
            self.stdout.write(_verdict(view, dry_run=options["dry_run"]))
            if gate and (line := outlook_line(gate)):
                self.stdout.write(line)
        _refuse_failed(view)


def dreamed(run: Run, *, force: bool) -> bool:
    """Whether anything was computed. Raises CommandError: the run cannot be dreamed of yet."""
    if run.status not in (Status.DONE, Status.FINALIZING):
        mend = (
            "its agent is still at work on it"
            if run.status == Status.RECORDING
            else "`manage.py reap_runs --inline --until-done` finishes it"
        )
        msg = f"run {_name(run)} is {run.status}, and only a scored run can be dreamed of: {mend}"
        raise CommandError(msg)
    if run.status == Status.DONE and last_pass(run) is not None and not force:
        return False
    try:
        if run.status == Status.FINALIZING and not force:
            return pipeline.finish(run.pk)
        return pipeline.recount(run.pk, force=force)
    except StageFailed as error:
        raise CommandError(str(error)) from error


def refuse_without_rows(run: Run) -> None:
    """Raises CommandError for a run that has nothing to be counted."""
    if not run.retrievals.exists():
        what = "retrieval" if run.attempts.exists() else "attempt"
        msg = f"run {_name(run)} (primary key {run.pk}) has no {what}: there is nothing to count"
        raise CommandError(msg)


def _refuse_failed(view: dict[str, Any]) -> None:
    failed = [stage for stage in view["stages"] if stage["state"] == State.FAILED]
    if failed:
        why = "; ".join(f"stage {stage['stage']}: {stage['error']}" for stage in failed)
        msg = (
            f"{why} (mend the cause, then dream of the run again with --force; a sweep that was missed "
            "is made by hand: manage.py sweep)"
        )
        raise CommandError(msg)


def _identical(view: dict[str, Any]) -> bool | None:
    """Whether the recount is the one that was stored before."""
    details = {stage["stage"]: stage["detail"] for stage in view["stages"]}
    identical: bool | None = details.get("credit", {}).get("identical")
    return identical


def _verdict(view: dict[str, Any], *, dry_run: bool) -> str:
    number = view["pass"]["number"] if view["pass"] else None
    if not view["computed"]:
        return f"\nThis is the stored pass {number}; --force computes it again."
    took_back = " Nothing was kept (--dry-run)." if dry_run else ""
    if view["identical"]:
        return f"\nComputed again: byte-identical to pass {number}.{took_back}"
    return f"\nComputed: pass {number}.{took_back}"


def _name(run: Run) -> str:
    return visible(f"{run.skill}/{run.external_id}", limit=200)
