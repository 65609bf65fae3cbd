"""``diagnose``: does this memory have the disease, in plain words, each criterion with its figure.

Guarantees: reads only; one diagnosis per skill; an empty memory, or a skill that nothing is stored
about, is an error with exit code 1 that says what to do; the JSON is complete and ASCII. The exit code
does not depend on the verdict.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memory.audit.scope import ScopeError
from memory.credit import POLICIES, UnknownPolicy, policy_named
from memory.diagnosis import NothingToDiagnose, diagnose
from memory.diagnosis_render import render_diagnosis
from memory.terminal import print_all

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Print the diagnosis of one skill, or of each."""

    help = "Diagnose a memory: does success fall with history, and is credit earned?"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which skill, policy and form of the report."""
        parser.add_argument("--skill", help="only this skill (default: each that has runs)")
        parser.add_argument(
            "--policy",
            default=settings.CREDIT_POLICY,
            choices=sorted(POLICIES),
            help="credit policy of the mean credit (default: %(default)s)",
        )
        parser.add_argument("--json", action="store_true", help="a list of diagnoses as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compute and print."""
        try:
            found = diagnose(policy=policy_named(options["policy"]), skill=options["skill"])
        except (ScopeError, NothingToDiagnose, UnknownPolicy) as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps([one.as_dict() for one in found], indent=2))
            return
        for place, one in enumerate(found):
            print_all(self.stdout, ["", *render_diagnosis(one)] if place else render_diagnosis(one))
