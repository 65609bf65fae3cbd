"""``manage.py run_agent_example``: two runs of a toy agent over the in-process memory.

Guarantees: the second run is ranked after the first was scored and credited; both are real runs of skill
``agent-example``, with rows that every other command can read. A second call plays nothing: it shows what
is stored. A run that was left half way is gone on with. Finishes in this process whatever runs wait, so
that no worker is needed.

Does not prove that a memory helps: four rules are a demonstration.
"""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.core.management import call_command
from django.core.management.base import BaseCommand
from rich.table import Table

from contextgraph.agent import memory_store
from contextgraph.examples.agent_loop import play
from memory.models import Retrieval, Run
from memory.store import RunClosed
from memory.terminal import plain, print_all

if TYPE_CHECKING:
    from argparse import ArgumentParser

SKILL: Final = "agent-example"
RUNS: Final = ("toy-run-1", "toy-run-2")
VERDICTS: Final = {True: "passed", False: "failed", None: "no verdict"}


class Step(NamedTuple):
    """One attempt: the tip that was obeyed, its composite, and the verdict (None: there is none)."""

    rule: str
    tip: str
    score: float
    passed: bool | None


class Command(BaseCommand):
    """Play what is not stored yet, and show both runs."""

    help = "Let a toy agent work through four rules twice, with the memory in between."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The form of the answer."""
        parser.add_argument("--json", action="store_true", help="the steps of both runs as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Play, score, play, score, show."""
        call_command("migrate", verbosity=0, interactive=False)
        store = memory_store(SKILL)
        played = []
        for name in RUNS:
            try:
                play(store, name)
            except RunClosed:
                pass
            else:
                played.append(name)
            call_command("reap_runs", "--inline", "--until-done", stdout=StringIO())
        steps = {name: _steps(name) for name in RUNS}
        if options["json"]:
            found = {name: [step._asdict() for step in steps[name]] for name in RUNS}
            self.stdout.write(json.dumps({"played": played, "runs": found}, indent=2))
            return
        print_all(self.stdout, [_table(name, steps[name]) for name in RUNS])
        if not played:
            self.stdout.write("Both runs were stored before; nothing was played.")
        self.stdout.write(
            f"Look closer: manage.py show_run {RUNS[1]}\n"
            f"What the next attempt would get, and why: manage.py rank_tips {SKILL} "
            "sshd_disable_root_login --category ssh --explain"
        )


def _steps(name: str) -> list[Step]:
    rows = Retrieval.objects.filter(run=Run.objects.named(name, skill=SKILL))
    return [
        Step(row.rule_id, row.shown_text, row.similarity_score or 0.0, row.attempt.passed)
        for row in rows.select_related("attempt").order_by("attempt_id", "rank")
    ]


def _table(name: str, steps: list[Step]) -> Table:
    passed = sum(step.passed is True for step in steps)
    table = Table(title=plain(f"{name}: {passed} of {len(steps)} passed"), title_justify="left")
    for column in ("rule", "tip that was obeyed", "score", "verdict"):
        table.add_column(column)
    for step in steps:
        table.add_row(plain(step.rule), plain(step.tip), f"{step.score:.3f}", VERDICTS[step.passed])
    return table
