"""``manage.py eval_memos``: how good memos are, in numbers that are kept and compared.

Guarantees: the offline suite needs no model, no network and no database; ``--live`` writes and judges
memos anew, past every cache, and says what a debate is worth against one pass. The report is kept as
JSON and compared with a baseline. Exit code 0: as good or better; 1: a case fails or a number fell;
2: nothing was compared (another configuration, no baseline, no model, cases that do not fit).

Does not change a memo that is stored. Source: ADR-0006, issue 5.
"""

from __future__ import annotations

import functools
import io
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import Progress

from scoring.judge.bench import DEFAULT, TIERS, bench
from scoring.judge.prompt_file import PromptError
from scoring.memos import eval_report, eval_text
from scoring.memos.desk import memo_prompts
from scoring.memos.eval_data import BUNDLED, EvalDataError, read_cases
from scoring.memos.eval_live import ARMS, live
from scoring.memos.eval_suites import offline
from scoring.memos.synthesis import prompt_sha
from scoring.model_size import ModelTooSmall, too_small

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from scoring.memos.eval_data import EvalData
    from scoring.memos.eval_live import LiveCase

NOT_COMPARED: Final = 2
COMMITTED: Final = BUNDLED.parent / "eval_baseline.json"
FOLDER: Final = "memo_evals"


class Command(BaseCommand):
    """Evaluate memos: gate, guards, rubric, writer, and with --live the models."""

    help = "Evaluate memos on known cases, keep the report, and compare it with a baseline."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Cases, arms, baseline and form of the report."""
        parser.add_argument("--live", action="store_true", help="also write memos with the model")
        parser.add_argument(
            "--repeats", type=int, default=1, metavar="N", help="live: memos per snapshot and arm"
        )
        parser.add_argument(
            "--judge-tier", choices=TIERS, default=DEFAULT, help="live: which judge grades them"
        )
        parser.add_argument(
            "--cases",
            type=Path,
            default=BUNDLED,
            metavar="DIR",
            help="other cases than the bundled",
        )
        parser.add_argument(
            "--baseline",
            type=Path,
            metavar="FILE",
            help="a report to compare with (default: the committed one, its offline part)",
        )
        parser.add_argument(
            "--no-baseline", action="store_true", help="compare with nothing: to make a first one"
        )
        parser.add_argument(
            "--out", type=Path, metavar="FILE", help="keep the report here (default: state folder)"
        )
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run, keep, print, compare."""
        try:
            report = _report(options)
            kept = _kept(report, options["out"])
            worse = _worse(report, options)
        except (EvalDataError, PromptError, eval_report.BaselineError, ModelTooSmall) as error:
            raise CommandError(str(error), returncode=NOT_COMPARED) from error
        except OSError as error:
            raise CommandError(
                f"the report cannot be kept: {error}", returncode=NOT_COMPARED
            ) from error
        if options["json"]:
            self.stdout.write(json.dumps(report | {"regressions": worse}, indent=2))
        else:
            buffer = io.StringIO()
            eval_text.show(Console(file=buffer, width=110), report, kept=str(kept))
            self.stdout.write(buffer.getvalue().rstrip())
        if worse:
            raise CommandError("worse than it should be:\n  " + "\n  ".join(worse), returncode=1)


def _report(options: dict[str, Any]) -> dict[str, Any]:
    data = read_cases(options["cases"])
    prompts = memo_prompts()
    results = offline(data, prompts)
    cases: list[LiveCase] = []
    config = None
    if options["live"]:
        cases, config = _live(data, repeats=options["repeats"], tier=options["judge_tier"])
    return eval_report.report_of(
        data,
        results,
        prompts,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        live=cases,
        live_config=config,
    )


def _live(data: EvalData, *, repeats: int, tier: str) -> tuple[list[LiveCase], dict[str, Any]]:
    """Ask; returns the cases and the configuration they were made under."""
    try:
        writing, judging = bench(DEFAULT), bench(tier)
    except ValueError as error:
        raise CommandError(f"the judge cannot work: {error}", returncode=NOT_COMPARED) from error
    if writing is None or judging is None:
        raise CommandError(
            f"--live needs a model, and tier {tier!r} has none: set JUDGE_BASE_URL and JUDGE_MODEL",
            returncode=NOT_COMPARED,
        )
    if repeats < 1:
        raise CommandError("--repeats is at least 1", returncode=NOT_COMPARED)
    for model in (writing.config.model, judging.config.model):
        if too_small(model):
            raise ModelTooSmall(model)
    prompts = memo_prompts()
    config = {
        "model": writing.config.model,
        "judge": judging.config.model,
        "tier": tier,
        "repeats": repeats,
        "prompts": {arm: prompt_sha(prompts, arm) for arm in ARMS},
        "judge_prompt": prompts.sha256("judge"),
    }
    shown = Console(file=sys.stderr)
    with Progress(console=shown, disable=not shown.is_terminal) as bar:
        task = bar.add_task("writing memos", total=len(data.snapshots) * len(ARMS) * repeats)
        advance = functools.partial(bar.advance, task)
        found = live(data, bench=writing, judge=judging, repeats=repeats, advance=advance)
    return found, config


def _kept(report: dict[str, Any], out: Path | None) -> Path:
    """Write the report to ``out``, else to a file of its own in the state folder."""
    if out is None:
        folder = Path(settings.STATE_DIR) / FOLDER
        stamp = report["made_at"].replace(":", "").replace("+0000", "Z")
        out = folder / f"{stamp}.json"
        number = 1
        while out.exists():
            number += 1
            out = folder / f"{stamp}.{number}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return out


def _worse(report: dict[str, Any], options: dict[str, Any]) -> list[str]:
    """In what the report is worse than its baseline; without one, the offline cases that fail."""
    failing = [
        f"{case['suite']} / {case['name']} fails: {case['detail']}"
        for case in report["cases"]
        if not case["passed"]
    ]
    if options["no_baseline"]:
        return failing
    now = report
    if options["baseline"] is None:  # the committed one has no live part
        now = report | {"live": None, "config": report["config"] | {"live": None}}
    baseline = eval_report.read_baseline(options["baseline"] or COMMITTED)
    return eval_report.regressions(now, baseline)
