"""``diff_runs A B``: two runs rule by rule, and whether they differ by more than noise.

Guarantees: reads only; an unknown run, another skill, one run twice, or an unknown rule is an error with
exit code 1 that names the key; the JSON is complete and ASCII, so that hostile text stays text in a pipe.
``--matrix`` compares the last runs of a skill with each other instead.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memory.audit.scope import Scope, ScopeError
from memory.credit import POLICIES, UnknownPolicy, policy_named
from memory.management.arguments import positive_number
from memory.models import Run
from memory.querysets import AmbiguousRun, UnknownRun
from memory.run_diff import (
    LIMIT,
    RUNS,
    RUNS_AT_MOST,
    K,
    RunDiffError,
    TooFewRuns,
    diff_runs,
    matrix_as_dict,
    run_matrix,
)
from memory.run_diff.render import render_diff, render_matrix
from memory.snapshot import one_moment
from memory.terminal import print_all

if TYPE_CHECKING:
    from argparse import ArgumentParser

REFUSED: Final = (UnknownRun, AmbiguousRun, ScopeError, RunDiffError, TooFewRuns, UnknownPolicy)


class Command(BaseCommand):
    """Print the comparison of two runs, or of the last few."""

    help = (
        "Compare two runs of a skill: outcomes, noise, tips, scripts; or --matrix: the last runs."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which runs, and how much of them."""
        parser.add_argument("a", metavar="A", nargs="?", help="external id or primary key: before")
        parser.add_argument("b", metavar="B", nargs="?", help="external id or primary key: after")
        parser.add_argument("--rule", help="only this rule: every attempt, scripts side by side")
        parser.add_argument("--skill", help="needed when several skills use the external ids")
        parser.add_argument(
            "--policy",
            default=settings.CREDIT_POLICY,
            choices=sorted(POLICIES),
            help="credit policy (default: %(default)s)",
        )
        parser.add_argument(
            "--matrix", action="store_true", help="the last runs, each against each"
        )
        for name, default, meaning in (
            ("--k", K, "tips per rule"),
            ("--limit", LIMIT, "entries per list"),
            ("--runs", RUNS, "runs up to B that a chronic failure failed in"),
            ("--last", RUNS, "runs of the matrix"),
        ):
            text = f"{meaning} (default: %(default)s)"
            parser.add_argument(name, type=positive_number, default=default, metavar="N", help=text)
        parser.add_argument("--json", action="store_true", help="the whole report as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compute and print."""
        self._refuse_nonsense(options)
        try:
            with one_moment():
                if options["matrix"]:
                    matrix = run_matrix(skill_of(options["skill"]), last=options["last"])
                    data, parts = matrix_as_dict(matrix), render_matrix(matrix)
                else:
                    report = self._diff(options)
                    data, parts = report.as_dict(), render_diff(report)
        except REFUSED as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(data, indent=2))
        else:
            print_all(self.stdout, parts)

    def _refuse_nonsense(self, options: dict[str, Any]) -> None:
        named = [options[side] for side in ("a", "b") if options[side]]
        if options["matrix"] and (named or options["rule"]):
            msg = "--matrix compares the last runs of a skill: it takes neither runs nor a rule"
            raise CommandError(msg)
        if not options["matrix"] and len(named) < 2:
            msg = "name two runs, A and B, by external id or primary key (or ask for --matrix)"
            raise CommandError(msg)
        for name in ("runs", "last"):
            if not 2 <= options[name] <= RUNS_AT_MOST:
                msg = f"--{name} is a number from 2 to {RUNS_AT_MOST}, not {options[name]}"
                raise CommandError(msg)

    def _diff(self, options: dict[str, Any]) -> Any:
        a, b = (Run.objects.named(options[side], skill=options["skill"]) for side in ("a", "b"))
        return diff_runs(
            a,
            b,
            policy=policy_named(options["policy"]),
            rule=options["rule"],
            k=options["k"],
            limit=options["limit"],
            runs=options["runs"],
        )


def skill_of(name: str | None) -> str:
    """The skill called *name*, or the only one that has runs.

    Raises:
        ScopeError: nothing is stored about it, or there is not exactly one to choose.
    """
    if name is not None:
        Scope(skill=name).require_known_skill()
        return name
    skills = list(
        Run.objects.current().order_by("skill").values_list("skill", flat=True).distinct()
    )
    if len(skills) != 1:
        there = ", ".join(map(repr, skills[:20])) or "none, no run is stored yet"
        msg = f"name a skill with --skill; there are: {there}"
        raise ScopeError(msg)
    return skills[0]
