"""``manage.py rescore RUN…``: compute signals of final runs again: a new prompt, model or vocabulary.

Guarantees: runs are found before anything is changed; each run is sent to scoring or refused by itself,
and said so. ``--failed-only`` touches no answer. ``--dry-run`` counts and changes nothing. Exit status 1
when a run was refused.

Does not wait for the scores: the workers compute them, or ``reap_runs --inline --until-done`` here.
Without ``--failed-only`` the old answers are gone from the rows at once; judgements are kept.

Shaped by: an operator who mended the judge and had no way to ask it about last week's runs.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import track

from contextgraph import pipeline
from contextgraph.outbox import Outbox
from memory.models import Run
from memory.querysets import AmbiguousRun, UnknownRun
from memory.terminal import visible
from scoring.models import Signal

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one run. ``answers``: rows to be computed, counted once for each signal."""

    id: int
    skill: str
    external_id: str
    answers: int = 0
    refusal: str = ""


class Command(BaseCommand):
    """See the module's description."""

    help = "Compute signals of final runs again, all of them or those without an answer."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare which runs and which signals."""
        parser.add_argument("runs", nargs="*", metavar="RUN", help="external id or primary key")
        parser.add_argument("--all", action="store_true", help="every final run (of --skill)")
        parser.add_argument("--skill", default=None, help="runs of this skill only")
        parser.add_argument(
            "--signal",
            default="",
            metavar="S,…",
            help="trace, embed, judge (default: enabled ones)",
        )
        parser.add_argument(
            "--failed-only", action="store_true", help="only rows on which the signal has no answer"
        )
        parser.add_argument("--dry-run", action="store_true", help="count, change nothing")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Send the runs to scoring and report."""
        signals = _signals(options["signal"])
        runs = _runs(options["runs"], everything=options["all"], skill=options["skill"])
        shown = track(
            self._outcomes(runs, signals, options),
            description="To scoring",
            total=len(runs),
            console=Console(stderr=True),
            transient=True,
            disable=options["json"] or len(runs) < 2,
        )
        outcomes = list(shown)
        self._report(outcomes, signals, options)
        refused = sum(bool(outcome.refusal) for outcome in outcomes)
        if refused:
            msg = f"{refused} of {len(outcomes)} runs were refused"
            raise CommandError(msg)

    def _outcomes(
        self, runs: list[Run], signals: tuple[Signal, ...], options: dict[str, Any]
    ) -> Iterator[Outcome]:
        outbox = Outbox()
        chosen = {"only_failed": options["failed_only"], "dry_run": options["dry_run"]}
        for run in runs:
            answers, refusal = 0, ""
            try:
                answers = pipeline.rescore(run.pk, signals, outbox=outbox, **chosen)
            except pipeline.RescoreRefused as error:
                refusal = str(error)
            yield Outcome(
                id=run.pk,
                skill=run.skill,
                external_id=run.external_id,
                answers=answers,
                refusal=refusal,
            )

    def _report(
        self, outcomes: list[Outcome], signals: tuple[Signal, ...], options: dict[str, Any]
    ) -> None:
        if options["json"]:
            found = {
                "dry_run": options["dry_run"],
                "failed_only": options["failed_only"],
                "signals": [str(signal) for signal in signals],
                "runs": [asdict(outcome) for outcome in outcomes],
            }
            self.stdout.write(json.dumps(found))
            return
        for outcome in outcomes:
            name = visible(f"{outcome.skill}/{outcome.external_id}")
            if outcome.refusal:
                self.stdout.write(self.style.ERROR(f"{name}: refused: {outcome.refusal}"))
            elif outcome.answers:
                self.stdout.write(f"{name}: {outcome.answers} answers")
        opened = [outcome for outcome in outcomes if outcome.answers]
        verb = "would go" if options["dry_run"] else "went"
        self.stdout.write(
            f"{len(opened)} of {len(outcomes)} runs {verb} to scoring again for "
            f"{', '.join(signals)}: {sum(outcome.answers for outcome in opened)} answers"
        )


def _signals(wanted: str) -> tuple[Signal, ...]:
    on = tuple(signal for signal in pipeline.MACHINE_SIGNALS if pipeline.enabled(signal))
    names = {name.strip() for name in wanted.split(",") if name.strip()}
    if not names:
        return on
    unknown = names - set(Signal.values)
    if unknown:
        msg = f"no signal {', '.join(sorted(unknown))}: there are {', '.join(Signal.values)}"
        raise CommandError(msg)
    off = names - set(on)
    if off:
        msg = (
            f"not computed here: {', '.join(sorted(off))}: see CONTEXTGRAPH_SIGNALS, and for the "
            "judge JUDGE_BASE_URL and JUDGE_MODEL"
        )
        raise CommandError(msg)
    return tuple(signal for signal in on if signal in names)


def _runs(keys: list[str], *, everything: bool, skill: str | None) -> list[Run]:
    if bool(keys) == everything:
        msg = "name runs, or give --all"
        raise CommandError(msg)
    if everything:
        final = Run.objects.current().filter(status=Run.Status.DONE)
        return list((final.filter(skill=skill) if skill else final).order_by("pk"))
    try:
        found = [Run.objects.named(key, skill=skill) for key in keys]
    except (UnknownRun, AmbiguousRun) as error:
        raise CommandError(str(error)) from error
    return list({run.pk: run for run in found}.values())
