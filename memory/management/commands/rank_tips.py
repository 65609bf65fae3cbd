"""``rank_tips SKILL RULE``: which tips an attempt at a rule would get now, and why.

Guarantees: reads only: nothing is logged and no coin is tossed, so that the list is what the hold-out
would choose from. The JSON is complete and ASCII. A skill that nothing is stored about, an unknown
policy and a skill file that makes no sense are errors with exit code 1 that name it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from contextgraph.skills import SkillError
from memory.audit.scope import Scope, ScopeError
from memory.credit import POLICIES, UnknownPolicy
from memory.management.arguments import positive_number
from memory.ranking_render import render_ranking
from memory.retrieval import RankRequest, rank
from memory.snapshot import one_moment
from memory.terminal import print_all, visible

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Print the ranking for one rule."""

    help = "Rank the tips for a rule, as the next attempt at it would get them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The request, and the form of the answer."""
        parser.add_argument("skill", metavar="SKILL")
        parser.add_argument("rule", metavar="RULE", help="rule id")
        parser.add_argument("--category", default="", help="category of the rule")
        parser.add_argument("--environment", default="", help="environment tag of the run")
        parser.add_argument("--query", default="", metavar="TEXT", help="also search by this text")
        parser.add_argument("--run", default="", help="external id of the run that asks")
        parser.add_argument(
            "--policy", choices=sorted(POLICIES), help="credit policy (default: the skill's)"
        )
        parser.add_argument("--k", type=positive_number, metavar="N", help="tips wanted")
        parser.add_argument(
            "--explain", action="store_true", help="every term of every score, and what is missing"
        )
        parser.add_argument("--json", action="store_true", help="the whole ranking as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Rank and print."""
        request = RankRequest(
            skill=options["skill"],
            rule_id=options["rule"],
            category=options["category"],
            environment_tag=options["environment"],
            query=options["query"],
            run=options["run"],
            policy=options["policy"],
            k=options["k"],
        )
        try:
            with one_moment():
                Scope(skill=request.skill).require_known_skill()
                ranking = rank(request, explain=options["explain"])
        except (ScopeError, SkillError, UnknownPolicy, ValueError) as error:
            raise CommandError(visible(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(ranking.as_dict(), indent=2))
        else:
            print_all(self.stdout, render_ranking(ranking, explain=options["explain"]))
