"""``audit_memory``: which tips help, which mislead, which only stood by; and how far the signals reach.

Guarantees: reads only; the JSON is complete and ASCII, so that hostile text stays text in a pipe; an
unknown run, skill or policy is an error with exit code 1 that names the key (and the skills there are).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memory.audit import LIMIT, ScopeError, audit
from memory.audit.render import render_report
from memory.credit import POLICIES, UnknownPolicy, policy_named
from memory.management.arguments import positive_number
from memory.models import Run
from memory.querysets import AmbiguousRun, UnknownRun
from memory.snapshot import one_moment
from memory.terminal import print_all

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Print the audit of one run, one skill, or everything."""

    help = (
        "Audit the memory: pool, activity, cohorts, misleading and stale tips, outcomes, signals."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Scope, policy and form of the report."""
        parser.add_argument("--skill", help="only rows of this skill")
        parser.add_argument("--run", help="only this run: its external id or primary key")
        parser.add_argument(
            "--policy",
            default=settings.CREDIT_POLICY,
            choices=sorted(POLICIES),
            help="credit policy (default: %(default)s)",
        )
        parser.add_argument("--json", action="store_true", help="the whole report as JSON")
        parser.add_argument(
            "--limit",
            type=positive_number,
            default=LIMIT,
            metavar="N",
            help="entries per list (default: %(default)s)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compute and print."""
        skill, key = options["skill"], options["run"]
        try:
            with one_moment():
                report = audit(
                    skill=skill,
                    run=Run.objects.named(key, skill=skill) if key is not None else None,
                    policy=policy_named(options["policy"]),
                    limit=options["limit"],
                )
        except (UnknownRun, AmbiguousRun, ScopeError, UnknownPolicy) as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(report.as_dict(), indent=2))
        else:
            print_all(self.stdout, render_report(report))
