"""``manage.py consume_runs``: the intake process.

Guarantees: starts only when the system checks pass and every migration is applied, because a consumer
that cannot store anything would refuse good messages; stops on SIGTERM after the message in hand.

Does not fork and does not score.

Shaped by: a deployment where the consumer came up before the migrations had run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from contextgraph.consumer import RunConsumer
from contextgraph.outage import wait_for_database

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """See the module's description."""

    help = "Take completed runs from the intake queue and store them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare when to stop."""
        parser.add_argument("--once", type=int, metavar="N", help="stop after N messages")
        parser.add_argument("--drain", action="store_true", help="stop when the queue is empty")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Consume until stopped."""
        if options["once"] is not None and options["once"] < 1:
            msg = "--once wants a number of messages, 1 or more"
            raise CommandError(msg)
        consumer = RunConsumer(limit=options["once"], drain=options["drain"])
        consumer.stop_on_signals()
        self._wait_for_tables(consumer)
        consumer.run()
        if options["once"] or options["drain"]:
            stored = consumer.handled - consumer.refused
            self.stdout.write(f"{stored} messages stored, {consumer.refused} refused")

    def _wait_for_tables(self, consumer: RunConsumer) -> None:
        """Wait for the database; refuse to start when a migration is missing."""
        while not consumer.should_stop:
            try:
                executor = MigrationExecutor(connection)
                plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
            except OperationalError:
                wait_for_database(lambda: bool(consumer.should_stop))
                continue
            if plan:
                msg = f"{len(plan)} migrations are not applied: run manage.py migrate first"
                raise CommandError(msg)
            return
