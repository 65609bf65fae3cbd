"""``audit_holdout``: recompute every coin of the hold-out and test the shares that were shown.

Guarantees: reads only; exit code 1 when a stored coin is not the one that the seed gives, when a coin
was not obeyed, or when a share is one that a fair coin does not give; the message names a row. An
unknown run or skill is an error. Does not need the seed on the command line: it is a setting.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from memory.audit.scope import Scope, ScopeError
from memory.holdout_audit import HoldoutAudit, WrongCoin, audit_holdout
from memory.models import Run
from memory.querysets import AmbiguousRun, UnknownRun
from memory.snapshot import one_moment
from memory.terminal import plain, print_all, visible

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator

    from rich.console import RenderableType


class Command(BaseCommand):
    """Print what was tossed, what was shown, and what does not fit."""

    help = "Recompute the coins of the hold-out; test the shares of tips that were shown."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which rows, in which form."""
        parser.add_argument("--run", help="only this run: its external id or primary key")
        parser.add_argument("--skill", help="only rows of this skill")
        parser.add_argument("--json", action="store_true", help="everything, as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Audit, print, and fail when something does not fit."""
        skill, key = options["skill"], options["run"]
        try:
            run = Run.objects.named(key, skill=skill) if key is not None else None
            Scope(skill=skill).require_known_skill()
        except (UnknownRun, AmbiguousRun, ScopeError) as error:
            raise CommandError(visible(error)) from error
        found = self._audited(skill, run, quiet=options["json"])
        if options["json"]:
            self.stdout.write(json.dumps(found.as_dict(), indent=2))
        else:
            print_all(self.stdout, _report(found))
        if complaint := _complaint(found):
            raise CommandError(complaint)

    def _audited(self, skill: str | None, run: Run | None, *, quiet: bool) -> HoldoutAudit:
        bar = Progress(console=Console(stderr=True), transient=True, disable=quiet)
        with bar, one_moment():
            task = bar.add_task("Coins", total=None)
            return audit_holdout(
                skill=skill,
                run=run,
                progress=lambda done, all_: bar.update(task, completed=done, total=all_),
            )


def _report(found: HoldoutAudit) -> Iterator[RenderableType]:
    yield plain(
        f"{found.rows} retrievals, {found.coins} with a coin, {found.wrong_coins} of these wrong"
    )
    if found.withheld_without_coin:
        yield plain(f"{found.withheld_without_coin} withheld without a coin: nothing to recompute")
    if not found.shares:
        yield plain("No coin was tossed: the hold-out rate was 0, or all tips were exempt.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("kind", "propensity", "coins", "shown", "share", "p of such a share"):
        table.add_column(column, justify="left" if column == "kind" else "right")
    for share in found.shares:
        mark = "  !" if share in found.suspicious else ""
        table.add_row(
            "canary" if share.canary else "hold-out",
            f"{share.propensity:.4g}",
            str(share.rows),
            str(share.shown),
            f"{share.shown / share.rows:.4f}",
            f"{share.p_value:.3g}{mark}",
        )
    yield table
    for row in found.wrong:
        yield plain(f"wrong: {_row(row)}")


def _row(row: WrongCoin) -> str:
    return (
        f"retrieval {row.id} (run {row.run}, rule {row.rule_id}, attempt {row.attempt}, tip {row.tip}): "
        f"stored {row.stored!r}, recomputed {row.recomputed!r}"
    )


def _complaint(found: HoldoutAudit) -> str:
    if found.wrong_coins:
        cause = (
            "every coin is: CONTEXTGRAPH_HOLDOUT_SEED is not the seed they were tossed with"
            if found.wrong_coins == found.coins
            else "these rows were written or changed by something else than the ranker's log"
        )
        first = visible(_row(found.wrong[0]))
        return f"{found.wrong_coins} of {found.coins} coins are wrong, first {first}; {cause}"
    if found.suspicious:
        share = found.suspicious[0]
        return (
            f"{share.shown} of {share.rows} tips with propensity {share.propensity:g} were shown: a "
            f"fair coin gives a share that far off with p={share.p_value:.2g}; look for a filter that "
            "keeps rows out of tip_retrievals"
        )
    return ""
