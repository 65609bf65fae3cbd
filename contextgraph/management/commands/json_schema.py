"""``manage.py json_schema``: the envelope's JSON Schema, for senders in other languages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from contextgraph import envelope

if TYPE_CHECKING:
    from argparse import ArgumentParser

COMMITTED = Path(envelope.__file__).with_name("run.schema.json")


class Command(BaseCommand):
    """Print it, write it, or check that the committed one is current."""

    help = "Print the JSON Schema of a completed run; --write updates contextgraph/run.schema.json."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--write", action="store_true", help="update the committed file")
        parser.add_argument("--check", action="store_true", help="exit 1 when it is out of date")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Do one of the three."""
        text = json.dumps(envelope.json_schema(), indent=2, ensure_ascii=False) + "\n"
        if options["write"]:
            COMMITTED.write_text(text, encoding="utf-8")
        elif options["check"]:
            if not COMMITTED.exists() or COMMITTED.read_text(encoding="utf-8") != text:
                msg = f"{COMMITTED.name} is out of date: run `manage.py json_schema --write`"
                raise CommandError(msg)
        else:
            self.stdout.write(text, ending="")
