"""``manage.py status``: what runs here, and where the admin is. Starts nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand

from contextgraph import embedded, supervisor
from contextgraph.web_address import address

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """One line per server and process."""

    help = "Say what of this checkout runs, and where the admin is."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Look and print; exit code 0 either way."""
        facts = [*self._servers(), *self._processes()]
        admin = address()
        if options["json"]:
            self.stdout.write(json.dumps({"parts": facts, "admin": admin}))
            return
        for fact in facts:
            pid = f"pid {fact['pid']}" if fact["running"] and fact["pid"] else ""
            state = "running" if fact["running"] else "down"
            self.stdout.write(f"{fact['name']:<10} {state:<8} {pid}")
        up = any(fact["name"] == "web" and fact["running"] for fact in facts)
        self.stdout.write(f"admin      {admin if up else '`make up` starts it at ' + admin}")

    def _servers(self) -> list[dict[str, Any]]:
        pair = embedded.status(settings.BASE_DIR)
        return [
            {"name": server.name, "running": server.answers, "pid": server.pid}
            for server in (pair.postgres, pair.valkey)
        ]

    def _processes(self) -> list[dict[str, Any]]:
        found = supervisor.running(settings.BASE_DIR)
        if found is None:
            return [{"name": "processes", "running": False, "pid": None}]
        return [
            {"name": child.name, "running": child.alive, "pid": child.pid}
            for child in found.children
        ]
