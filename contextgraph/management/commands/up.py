"""``manage.py up``: the whole system in the foreground of one terminal; Ctrl-C stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from contextgraph import processes
from contextgraph.supervisor import AlreadyRunningError, Supervisor, running
from contextgraph.web_address import PortTaken, address, choose_port
from scoring.judge.service import configured

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Migrate, then hold consumer, workers, scheduler and admin until told to stop."""

    help = "Run consumer, workers, scheduler and admin in this terminal until Ctrl-C or `down`."
    requires_system_checks = "__all__"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--no-web", action="store_true", help="without the admin")
        parser.add_argument(
            "--quiet", action="store_true", help="write output to .contextgraph/logs instead"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run until stopped."""
        if (found := running(settings.BASE_DIR)) is not None and found.alive:
            msg = f"already running here as pid {found.pid}: `status` says more, `down` stops it"
            raise CommandError(msg)
        call_command("migrate", verbosity=0, interactive=False)
        judged = configured()
        port = None if options["no_web"] else self._port()
        if not options["quiet"]:
            if port is not None:
                self.stdout.write(f"admin   {address()}")
                self._hint_at_login()
            if not judged:
                self.stdout.write("judge   not configured (JUDGE_BASE_URL, JUDGE_MODEL): skipped")
            self.stdout.flush()
        chosen = processes.specs(web_port=port, judge=judged)
        try:
            Supervisor(settings.BASE_DIR, chosen, quiet=options["quiet"]).run()
        except AlreadyRunningError as error:
            raise CommandError(str(error)) from error

    def _hint_at_login(self) -> None:
        """A new database has no account, and the login page does not say so."""
        users = get_user_model()._default_manager
        if not users.filter(is_superuser=True, is_active=True).exists():
            self.stdout.write("        no superuser yet: `manage.py createsuperuser` makes one")

    def _port(self) -> int:
        try:
            return choose_port()
        except PortTaken as error:
            raise CommandError(str(error)) from error
