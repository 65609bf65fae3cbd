"""``manage.py rescore [RUN…]``: compute signals of final runs again: a new prompt, model or vocabulary.

Guarantees: runs are found before anything is changed; each run is sent to scoring or refused by itself,
and said so. ``--stale`` chooses the rows that another judge, prompt, encoder or trace answered than the
one in use; ``--failed-only`` touches no answer; ``--rule``, ``--tip`` and ``--since`` narrow both.
``--no-cache`` has the judge asked anew, by whichever worker: its verdicts are neither taken from the
cache nor kept there, so that later runs still find the old ones.
``--dry-run`` counts, by signal and by who answered, and changes nothing. ``--changes`` tells afterwards
which labels of the judge became others. Exit status 1 when a run was refused.

Does not wait for the scores: the workers compute them, or ``reap_runs --inline --until-done`` here. The
dream passes that follow retire no tip: ``sweep SKILL`` shows whom the gate would catch then.
Without ``--failed-only`` the old answers are gone from the chosen rows at once; judgements are kept.

Shaped by: an operator who mended the judge and had no way to ask it about last week's runs.
"""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentTypeError
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import track
from rich.table import Table

from contextgraph import pipeline
from contextgraph.outbox import Outbox
from memory.models import Run
from memory.querysets import AmbiguousRun, UnknownRun, can_be_stored
from memory.retirement import RetirementError, tip_named
from memory.terminal import plain, print_all, visible
from scoring import rescoring
from scoring.judge.prompt import PromptError
from scoring.label_changes import label_changes
from scoring.models import Signal
from scoring.rescoring import Chosen

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator

    from scoring.label_changes import LabelChanges

Why = dict[str, dict[str, int]]
"""Signal -> who answered, or why nobody did -> rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one run. ``answers``: rows to be computed, counted once for each signal."""

    id: int
    skill: str
    external_id: str
    answers: int = 0
    why: Why = field(default_factory=dict)
    refusal: str = ""


class Command(BaseCommand):
    """See the module's description."""

    help = "Compute signals of final runs again: all rows, stale ones, or those without an answer."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare which runs, which rows and which signals."""
        parser.add_argument("runs", nargs="*", metavar="RUN", help="external id or primary key")
        parser.add_argument(
            "--all", action="store_true",
            help="every final run (of --skill); implied by --stale, --rule, --tip and --since",
        )  # fmt: skip
        parser.add_argument("--skill", default=None, help="runs of this skill only")
        parser.add_argument(
            "--signal", default="", metavar="S,…",
            help="trace, embed, judge (default: enabled ones)",
        )  # fmt: skip
        rows = parser.add_mutually_exclusive_group()
        rows.add_argument(
            "--failed-only", action="store_true", help="only rows on which the signal has no answer"
        )
        rows.add_argument(
            "--stale", action="store_true",
            help="only answers of another judge, prompt, encoder or trace than the one in use",
        )  # fmt: skip
        parser.add_argument("--rule", metavar="R", help="only rows of this rule")
        parser.add_argument("--tip", metavar="SKILL/TIP", help="only rows of this tip (or its key)")
        parser.add_argument(
            "--since", type=moment, metavar="TIME", help="only rows retrieved since (ISO 8601; UTC)"
        )
        parser.add_argument(
            "--no-cache", action="store_true",
            help="ask the judge anew, whatever verdicts are cached",
        )  # fmt: skip
        parser.add_argument("--dry-run", action="store_true", help="count, change nothing")
        parser.add_argument(
            "--changes", action="store_true",
            help="change nothing: the judge's labels against those of the scoring before",
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Send the runs to scoring and report; or report what an earlier call changed."""
        signals, chosen = _signals(options["signal"]), _chosen(options)
        if options["no_cache"] and Signal.JUDGE not in signals:
            msg = f"--no-cache is about the judge's verdicts, not about {', '.join(signals)}"
            raise CommandError(msg)
        rows_named = chosen != Chosen(only_failed=chosen.only_failed)
        runs = _runs(
            options["runs"],
            everything=options["all"] or (rows_named and not options["runs"]),
            skill=options["skill"],
        )
        if options["changes"]:
            self._changes(runs, as_json=options["json"])
            return
        shown = track(
            _outcomes(runs, signals, chosen, options),
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

    def _report(
        self, outcomes: list[Outcome], signals: tuple[Signal, ...], options: dict[str, Any]
    ) -> None:
        if options["json"]:
            found = {
                "dry_run": options["dry_run"],
                "failed_only": options["failed_only"],
                "stale": options["stale"],
                "no_cache": options["no_cache"],
                "signals": [str(signal) for signal in signals],
                "runs": [asdict(outcome) for outcome in outcomes],
            }
            self.stdout.write(json.dumps(found))
            return
        for outcome in outcomes:
            name = visible(f"{outcome.skill}/{outcome.external_id}")
            if outcome.refusal:
                self.stdout.write(self.style.ERROR(f"{name}: refused: {visible(outcome.refusal)}"))
            elif outcome.answers:
                self.stdout.write(f"{name}: {outcome.answers} answers")
        opened = [outcome for outcome in outcomes if outcome.answers]
        if opened:
            print_all(self.stdout, [_why_table(opened)])
        verb = "would go" if options["dry_run"] else "went"
        self.stdout.write(
            f"{len(opened)} of {len(outcomes)} runs {verb} to scoring again for "
            f"{', '.join(signals)}: {sum(outcome.answers for outcome in opened)} answers"
        )
        if options["no_cache"]:
            answers = sum(sum(one.why[Signal.JUDGE].values()) for one in opened)
            asked = "would be asked" if options["dry_run"] else "is asked"
            self.stdout.write(f"The judge {asked} about {answers} rows, none taken from the cache")
        for skill in sorted({outcome.skill for outcome in opened}):
            self.stdout.write(
                "No tip is retired by that. Whom the gate would catch when they are scored: manage.py "
                f"sweep {visible(shlex.quote(skill))}"
            )

    def _changes(self, runs: list[Run], *, as_json: bool) -> None:
        found = [(run, label_changes(run)) for run in runs]
        if as_json:
            told = [
                {"id": run.pk, "skill": run.skill, "external_id": run.external_id}
                | changes.as_dict()
                for run, changes in found
            ]
            self.stdout.write(json.dumps({"runs": told}))
            return
        for run, changes in found:
            print_all(self.stdout, _changes_of(run, changes))


def moment(text: str) -> datetime:
    """An argument that is a time; UTC where it names no offset."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is no time such as 2026-03-01 or 2026-03-01T08:00+00:00"
        raise ArgumentTypeError(msg) from error


def _outcomes(
    runs: list[Run], signals: tuple[Signal, ...], chosen: Chosen, options: dict[str, Any]
) -> Iterator[Outcome]:
    outbox = Outbox()
    for run in runs:
        answers, refusal, why = 0, "", {}
        try:
            why = {str(signal): rescoring.why(run, signal, chosen) for signal in signals}
            if any(why.values()) or run.status != Run.Status.DONE:
                answers = pipeline.rescore(
                    run.pk,
                    signals,
                    chosen=chosen,
                    without_cache=options["no_cache"],
                    outbox=outbox,
                    dry_run=options["dry_run"],
                )
        except (pipeline.RescoreRefused, PromptError, ValueError) as error:
            refusal = str(error)
        yield Outcome(
            id=run.pk,
            skill=run.skill,
            external_id=run.external_id,
            answers=answers,
            why=why,
            refusal=refusal,
        )


def _why_table(outcomes: list[Outcome]) -> Table:
    counted: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        for signal, rows in outcome.why.items():
            for words, n in rows.items():
                counted[signal, words] += n
    table = Table()
    for name in ("signal", "rows that are computed again", "rows"):
        table.add_column(name, overflow="fold")
    for (signal, words), n in sorted(counted.items(), key=lambda one: (one[0][0], -one[1])):
        table.add_row(plain(signal), plain(words), plain(n))
    return table


def _changes_of(run: Run, changes: LabelChanges) -> Iterator[Any]:
    yield plain(
        f"{run.skill}/{run.external_id}: {changes.compared} rows were judged more than once, "
        f"{changes.changed} of them have another label now"
    )
    if changes.table:
        table = Table()
        for name in ("label before", "label now", "rows"):
            table.add_column(name)
        for pair in changes.table:
            table.add_row(plain(pair.before), plain(pair.after), plain(pair.rows))
        yield table


def _chosen(options: dict[str, Any]) -> Chosen:
    if not can_be_stored(options["rule"] or ""):
        msg = "no stored rule has such a name: it holds a NUL or what is not UTF-8"
        raise CommandError(msg)
    try:
        tip = tip_named(options["tip"]).pk if options["tip"] is not None else None
    except RetirementError as error:
        raise CommandError(visible(error)) from error
    return Chosen(
        only_failed=options["failed_only"],
        stale=options["stale"],
        rule_id=options["rule"],
        tip_id=tip,
        since=options["since"],
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
        msg = "name runs, or give --all, or choose rows by --stale, --rule, --tip or --since"
        raise CommandError(msg)
    if everything:
        final = Run.objects.current().filter(status=Run.Status.DONE)
        return list((final.filter(skill=skill) if skill is not None else final).order_by("pk"))
    try:
        found = [Run.objects.named(key, skill=skill) for key in keys]
    except (UnknownRun, AmbiguousRun) as error:
        raise CommandError(str(error)) from error
    return list({run.pk: run for run in found}.values())
