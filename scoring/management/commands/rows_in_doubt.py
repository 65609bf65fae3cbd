"""``manage.py rows_in_doubt``: retrievals whose signals do not settle whether the tip was followed.

Guarantees: reads only, and only the rows of the runs named (by default the latest of the skill); most
causes first, then nearest to an even chance; a row to which a person has said yes or no is settled (one
of which none could tell is not); a judge that no calibration covers is marked; with ``--for-judge`` only
rows that a judge can be asked about. Asks no judge and records no review: the review desk in the admin
does.

Shaped by: rows in doubt that were computed for the judge's budget and never shown to a person (issue 3).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from django.core.management.base import BaseCommand, CommandError
from rich.table import Table

from memory.audit.scope import Scope, ScopeError
from memory.management.arguments import positive_number
from memory.models import Retrieval, Run
from memory.provenance import UNCALIBRATED, standing_of
from memory.querysets import AmbiguousRun, UnknownRun
from memory.rates import rounded
from memory.terminal import plain, print_all
from scoring.attribution import doubt, in_order_of_doubt, rows_to_escalate

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from rich.console import RenderableType

    from scoring.attribution import Doubt

RUNS: Final = 5
"""Latest runs of a skill that are looked at."""


class Command(BaseCommand):
    """List the rows that a better judge or a person should look at."""

    help = "Rows whose signals disagree or do not settle whether the tip was followed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which runs, which rows, which form."""
        scope = parser.add_mutually_exclusive_group(required=True)
        scope.add_argument("--run", help="external id or primary key of one run")
        scope.add_argument("--latest", type=positive_number, nargs="?", const=RUNS, metavar="N",
                           help=f"the latest runs (default: {RUNS}) of --skill, or of all")  # fmt: skip
        parser.add_argument("--skill", help="only runs of this skill")
        parser.add_argument(
            "--for-judge", action="store_true", help="only rows that a judge can be asked about"
        )
        parser.add_argument("--limit", type=positive_number, default=50, metavar="N")
        parser.add_argument("--json", action="store_true", help="the rows as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Find and print."""
        runs = _runs(options)
        rows = Retrieval.objects.counted().filter(run__in=runs, shown=True).select_related(
            "run", "attempt", "tip"
        ).defer("attempt__script", "attempt__evaluator_raw", "shown_text", "tip__text")  # fmt: skip
        if options["for_judge"]:
            found = rows_to_escalate(rows.iterator(chunk_size=2_000))
        else:
            doubts = (doubt(row) for row in rows.iterator(chunk_size=2_000))
            found = in_order_of_doubt(one for one in doubts if one is not None)
        shown = found[: options["limit"]]
        unproved = standing_of(one.row.llm_source for one in shown).uncalibrated
        facts = [_as_dict(one, unproved) for one in shown]
        if options["json"]:
            self.stdout.write(json.dumps({"in_doubt": len(found), "rows": facts}, indent=2))
        else:
            print_all(self.stdout, _render(facts, total=len(found), runs=len(runs)))


def _runs(options: dict[str, Any]) -> list[int]:
    skill, key = options["skill"], options["run"]
    try:
        Scope(skill=skill).require_known_skill()
        if key is not None:
            return [Run.objects.named(key, skill=skill).pk]
    except (ScopeError, UnknownRun, AmbiguousRun) as error:
        raise CommandError(str(error)) from error
    runs = Run.objects.current()
    if skill is not None:
        runs = runs.filter(skill=skill)
    found = list(runs.values_list("pk", flat=True)[: options["latest"]])
    if not found:
        msg = "no run is stored yet" if skill is None else f"no run of skill {skill!r} is stored"
        raise CommandError(f"{msg}: post one with manage.py post_run")
    return found


def _as_dict(one: Doubt, unproved: frozenset[str]) -> dict[str, Any]:
    row = one.row
    return {
        "retrieval_id": row.pk,
        "run": row.run.external_id,
        "skill": row.skill,
        "rule_id": row.rule_id,
        "attempt": row.attempt.number,
        "tip": row.tip.external_id,
        "p_followed": rounded(one.p),
        "causes": [str(cause) for cause in one.causes],
        "judge": row.llm_label,
        "judge_source": row.llm_source,
        "judge_uncalibrated": bool(row.llm_label) and row.llm_source in unproved,
        "cosine": rounded(row.tip_followed_emb),
        "trace": row.tip_followed_trace_verdict,
    }


def _render(found: list[dict[str, Any]], *, total: int, runs: int) -> list[RenderableType]:
    head = plain(f"{total} rows in doubt in {runs} runs", "bold")
    if not found:
        return [head]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("row", "run", "rule", "tip", "p", "judge", "cosine", "trace", "causes"):
        table.add_column(column, overflow="fold")
    for facts in found:
        cosine = facts["cosine"]
        mark = f" ({UNCALIBRATED})" if facts["judge_uncalibrated"] else ""
        cells = (
            facts["retrieval_id"], facts["run"], f"{facts['rule_id']} #{facts['attempt']}",
            facts["tip"], f"{facts['p_followed']:.2f}", f"{facts['judge'] or '-'}{mark}",
            "-" if cosine is None else f"{cosine:.2f}", facts["trace"] or "-",
            ", ".join(facts["causes"]).replace("_", " "),
        )  # fmt: skip
        table.add_row(*(plain(cell, limit=60) for cell in cells))
    return [head, table]
