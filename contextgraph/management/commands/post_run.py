"""``manage.py post_run FILE…``: post run logs or envelopes to the intake queue.

Guarantees: returns after the broker has taken every file; with ``--follow`` after every run of every
file is final, or one was refused (the reason is printed), or time is up. Exit status 0, 1 or 2.

Does not read the files, nor touch the database, unless it follows: the consumer decides what is a run.

Shaped by: senders that were told "posted" and learnt days later that nothing had been stored.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError
from django.db import ProgrammingError
from kombu import Connection
from kombu.exceptions import KombuError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from contextgraph.client import PublishError, RunPublisher, intake_queue
from contextgraph.following import Followed, Follower, Posted
from contextgraph.outage import database_is_away
from contextgraph.runlogs import FORMATS
from memory.terminal import visible

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator

REFUSED, TIMED_OUT = 1, 2

HINT_AFTER_S = 20.0
"""Without a sign of a consumer; one that runs takes a message at once."""

BROKER_S = 3.0
UNMIGRATED = frozenset({"42P01", "42703"})
"""SQLSTATE: undefined table, undefined column."""

NOT_TAKEN = (
    "no consumer has taken it yet: make up, or manage.py consume_runs; manage.py doctor says more"
)


class Command(BaseCommand):
    """See the module's description."""

    help = "Post run logs or envelopes to the intake queue; --follow waits until they are scored."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare files and options."""
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument("--skill", default="", help="skill of runs whose log names none")
        parser.add_argument("--format", choices=["auto", *FORMATS], default="auto")
        parser.add_argument(
            "--side-file", type=Path, metavar="F", help="JSON lines with full tip texts and scripts"
        )
        parser.add_argument(
            "--revise", action="store_true", help="store as a new revision of a known run"
        )
        parser.add_argument(
            "--claim", action="store_true", help="post where the file is, not the file"
        )
        parser.add_argument("--follow", action="store_true", help="wait until the runs are final")
        parser.add_argument(
            "--timeout", type=float, default=3600.0, metavar="S", help="seconds to follow"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Post, and follow if asked."""
        if options["claim"] and options["side_file"]:
            msg = "--claim cannot carry a --side-file: post the files themselves"
            raise CommandError(msg)
        if not options["follow"]:
            self._report(self._post(options), [], as_json=options["json"])
            return
        with _database_named():
            follower = Follower()  # before posting: what is refused from now on is ours
            posted = self._post(options)
            for item in posted:
                follower.add(item)
            found = self._follow(follower, options)
        self._report(posted, found, as_json=options["json"])
        _raise_unless_final(found, options["timeout"])

    def _post(self, options: dict[str, Any]) -> list[Posted]:
        settled = {name: options[name] for name in ("format", "skill", "revise")}
        posted = []
        try:
            with RunPublisher(settings.CELERY_BROKER_URL, queue=settings.INTAKE_QUEUE) as publisher:
                for path in options["files"]:
                    if options["claim"]:
                        receipt = publisher.post_claim(path, **settled)
                    else:
                        receipt = publisher.post(path, side_file=options["side_file"], **settled)
                    posted.append(
                        Posted(
                            path=path,
                            receipt=receipt,
                            format=options["format"],
                            skill=options["skill"],
                            side_file=options["side_file"],
                        )
                    )
        except (PublishError, OSError) as error:
            msg = f"{len(posted)} of {len(options['files'])} files posted, then: {error}"
            raise CommandError(msg) from error
        return posted

    def _follow(self, follower: Follower, options: dict[str, Any]) -> list[Followed]:
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, disable=options["json"]) as bar:
            tasks = [bar.add_task(_title(item), total=None) for item in follower.items()]
            hint_at: float | None = time.monotonic() + HINT_AFTER_S
            for items in follower.watch(timeout=options["timeout"]):
                if hint_at is not None and time.monotonic() > hint_at:
                    said = not all(item.taken for item in items) and _is_queued()
                    if said:
                        bar.console.print(NOT_TAKEN, markup=False, soft_wrap=True)
                    hint_at = None if said else time.monotonic() + HINT_AFTER_S
                for task, item in zip(tasks, items, strict=True):
                    bar.update(
                        task,
                        description=_title(item),
                        completed=item.scored,
                        total=item.rows or None,
                    )
        return follower.items()

    def _report(self, posted: list[Posted], found: list[Followed], *, as_json: bool) -> None:
        if as_json:
            files = [{"file": str(i.path), **asdict(i.receipt)} for i in posted]
            runs = [item.as_dict() for item in found]
            self.stdout.write(json.dumps({"files": files, "runs": runs}))
            return
        for item in posted:
            receipt = item.receipt
            parts = f"{receipt.parts} message{'s' if receipt.parts > 1 else ''}"
            self.stdout.write(f"{visible(item.path.name)}: posted, {parts}")
        for run in found:
            style = self.style.SUCCESS if run.final else self.style.ERROR
            self.stdout.write(style(_title(run)))


@contextmanager
def _database_named() -> Iterator[None]:
    """An error of the database becomes one line that says what to do."""
    try:
        yield
    except ProgrammingError as error:
        if getattr(error.__cause__, "sqlstate", "") not in UNMIGRATED:
            raise
        msg = "the database lacks tables that --follow reads; run: manage.py migrate"
        raise CommandError(msg) from error
    except DatabaseError as error:
        if not database_is_away(error):
            raise
        cause = (str(error).strip().splitlines() or [type(error).__name__])[0]
        msg = f"the database does not answer, and --follow reads it: {cause} (see doctor)"
        raise CommandError(msg) from error


def _is_queued() -> bool:
    """Whether the intake queue holds a message; a broker that cannot be asked is no reason to be calm."""
    with Connection(settings.CELERY_BROKER_URL, connect_timeout=BROKER_S) as link:
        try:
            queue = intake_queue(settings.INTAKE_QUEUE)(link.default_channel)
            return int(queue.queue_declare().message_count) > 0
        except (KombuError, OSError, *link.connection_errors, *link.channel_errors):
            return True


def _title(item: Followed) -> str:
    name = visible(f"{item.skill}/{item.external_id}" if item.external_id else item.path.name)
    if item.refusal:
        return f"{name}: refused: {visible(item.refusal, limit=500)}"
    return f"{name}: {item.status}"


def _raise_unless_final(found: list[Followed], timeout: float) -> None:
    refused = sum(bool(item.refusal) for item in found)
    if refused:
        msg = f"{refused} of {len(found)} runs were refused: see replay_rejected"
        raise CommandError(msg, returncode=REFUSED)
    waiting = sum(not item.final for item in found)
    if waiting:
        msg = f"{waiting} of {len(found)} runs are not final after {timeout:g} s: see doctor"
        raise CommandError(msg, returncode=TIMED_OUT)
