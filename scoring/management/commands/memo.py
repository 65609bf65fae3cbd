"""``manage.py memo PRODUCT ID``: the sourced memo about a run, a tip, a category, or a file of facts.

Guarantees: the text that is printed has passed the gate, with or without a model; an unknown subject,
or a file that cannot be read as facts, is an error with exit code 1 that names it, never another
subject's memo. Asked again about unchanged facts it comes from the cache. The JSON is ASCII and
complete.

Does not score and does not dream: it tells the run's last pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from memory.terminal import plain, print_all
from scoring.memos.facts import FactError
from scoring.memos.facts_file import load_facts
from scoring.memos.memo_text import memo_lines
from scoring.memos.products import PRODUCTS, UnknownProduct, UnknownSubject
from scoring.memos.service import MODES, memo, memo_of

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from scoring.memos.memo_result import MemoResult


class Command(BaseCommand):
    """Print one memo."""

    help = "Show the memo about a run, a tip or a category: what it teaches, every figure sourced."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What about, how, and in which form."""
        parser.add_argument("product", nargs="?", metavar="PRODUCT", help=" | ".join(PRODUCTS))
        parser.add_argument(
            "identifier", nargs="?", metavar="ID", help="external id, primary key or SKILL/NAME"
        )
        parser.add_argument(
            "--facts", type=Path, metavar="FILE", help="a JSON or CSV file of facts"
        )
        parser.add_argument("--skill", help="needed when several skills use the name")
        parser.add_argument(
            "--mode", choices=MODES, default="human", help="prose, or a line a fact"
        )
        parser.add_argument(
            "--high-stakes", action="store_true", help="have the stronger judge look at it"
        )
        parser.add_argument(
            "--no-memo-cache",
            action="store_true",
            help="write it anew; kept unless a model failed to",
        )
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--debate", action="store_true", help="with a model: both sides first")
        form.add_argument("--no-model", action="store_true", help="by the writer, whatever is set")
        parser.add_argument("--json", action="store_true", help="everything, as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Have it written, or served, and print it."""
        made = self._made(options)
        if options["json"]:
            self.stdout.write(json.dumps(made.as_dict(), indent=2))
            return
        print_all(self.stdout, [plain(line) for line in memo_lines(made)])

    def _made(self, options: dict[str, Any]) -> MemoResult:
        how: dict[str, Any] = {
            "mode": options["mode"],
            "high_stakes": options["high_stakes"],
            "use_cache": not options["no_memo_cache"],
            "variant": "debate" if options["debate"] else "writer" if options["no_model"] else None,
        }
        product, identifier = options["product"], options["identifier"]
        if options["facts"] is not None:
            if product or options["skill"]:
                raise CommandError("give PRODUCT and ID, or --facts FILE, not both")
            try:
                snapshot = load_facts(options["facts"])
            except (FactError, OSError) as error:
                raise CommandError(f"{options['facts']}: {error}") from error
            return memo_of(lambda: snapshot, **how)
        if not product or not identifier:
            raise CommandError(f"give PRODUCT ({', '.join(PRODUCTS)}) and ID, or --facts FILE")
        try:
            return memo(product, identifier, skill=options["skill"], **how)
        except (UnknownProduct, UnknownSubject) as error:
            raise CommandError(str(error)) from error
