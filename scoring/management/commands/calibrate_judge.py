"""``manage.py calibrate_judge``: how well judge, embedding, trace and their combination answer labels.

Guarantees: figures per kind with intervals and n, as Markdown or JSON, and one Calibration row per
signal, so that verdicts of this judge with this prompt are no longer shown as uncalibrated. Bad
input, or a judge too small for figures to be shown, is refused with exit code 2 before any call.

Does not change a retrieval: `p(followed)` is refilled when a run is finalized.

Shaped by a judge that gated every credit and had been compared with a person on five tips.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from rich.console import Console
from rich.progress import Progress

from scoring import calibrated as calibrations
from scoring.calibrating import (
    Calibrated,
    Gathered,
    Judge,
    NoReviews,
    calibrate,
    gather_pairs,
    gather_reviews,
)
from scoring.calibration_text import markdown
from scoring.embed_step import ENCODER_SHA256
from scoring.judge import service
from scoring.judge.prompt import PromptError, PromptLibrary
from scoring.labelled_pairs import PairFileError, read_pairs
from scoring.model_size import ModelTooSmall, too_small
from scoring.pair_signals import COMBINED, EMBEDDING, JUDGE, SIGNALS, TRACE
from scoring.trace import TRACE_VERSION
from scoring.vectors import EmbeddingError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

    from scoring.calibrating import AskPairs
    from scoring.labelled_pairs import LabelledPair

BAD_INPUT: Final = 2


class Command(BaseCommand):
    """Measure the attribution signals against labels, and keep what was found."""

    help = "Compare judge, embedding, trace and their combination with labels, per kind of pair."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Labels, judge, signals and form of the report."""
        parser.add_argument(
            "--pairs",
            type=Path,
            metavar="FILE",
            help="JSON lines: tip, script, followed, kind, and rule_id where known",
        )
        parser.add_argument(
            "--against", choices=("human",), help="compare with the reviews in the database instead"
        )
        parser.add_argument("--model", help="the judge (default: JUDGE_MODEL)")
        parser.add_argument("--prompt", metavar="SKILL", help="the judge prompt of this skill")
        parser.add_argument(
            "--signals",
            type=signal_names,
            default=SIGNALS,
            metavar="LIST",
            help=f"comma-separated (default: {','.join(SIGNALS)})",
        )
        parser.add_argument(
            "--out", type=Path, metavar="DIR", help="write calibration.json and calibration.md here"
        )
        parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Gather, measure, store, print."""
        if (options["pairs"] is None) == (options["against"] is None):
            raise CommandError("give either --pairs FILE or --against human", returncode=BAD_INPUT)
        names: tuple[str, ...] = options["signals"]
        try:
            gathered = self._gathered(names, options)
            found = calibrate(gathered, names)
            _store(found)
        except (PairFileError, PromptError, NoReviews, ModelTooSmall, OSError) as error:
            raise CommandError(str(error), returncode=BAD_INPUT) from error
        except EmbeddingError as error:
            raise CommandError(f"the cosine cannot be computed: {error}") from error
        source = str(options["pairs"] or "reviews in the database")
        as_json = json.dumps(found.as_dict() | {"source": source}, indent=2)
        as_text = markdown(found, source=source)
        if options["out"]:
            options["out"].mkdir(parents=True, exist_ok=True)
            (options["out"] / "calibration.json").write_text(as_json + "\n", encoding="utf-8")
            (options["out"] / "calibration.md").write_text(as_text, encoding="utf-8")
        self.stdout.write(as_json if options["json"] else as_text)

    def _gathered(self, names: tuple[str, ...], options: dict[str, Any]) -> Gathered:
        if options["against"]:
            return gather_reviews(skill=options["prompt"], model=options["model"])
        file = read_pairs(options["pairs"])
        judge, ask = _judge(names, model=options["model"], skill=options["prompt"] or "default")
        shown = Console(file=sys.stderr)
        with Progress(console=shown, disable=ask is None or not shown.is_terminal) as bar:
            task = bar.add_task("asking the judge", total=len(file.pairs))
            return gather_pairs(
                file, names, judge=judge, ask=ask, advance=functools.partial(bar.advance, task)
            )


def _judge(
    names: tuple[str, ...], *, model: str | None, skill: str
) -> tuple[Judge, AskPairs | None]:
    """Who is asked, and how. (nobody, None): none is configured."""
    model = model or settings.JUDGE_MODEL
    if JUDGE not in names or not (settings.JUDGE_BASE_URL and model):
        return Judge(), None
    if too_small(model):
        raise ModelTooSmall(model)
    prompt = PromptLibrary(settings.PROMPTS_DIR).for_skill(skill)

    def ask(pairs: Sequence[LabelledPair], /) -> Sequence[str | None]:
        return service.ask_pairs(
            [(pair.tip, pair.script) for pair in pairs], skill=skill, model=model
        )

    return Judge(model=model, prompt_sha256=prompt.sha256), ask


@transaction.atomic
def _store(found: Calibrated) -> None:
    judge = found.gathered.judge
    fitted = None if found.fitted is None else found.fitted.coefficients
    versions = {
        TRACE: TRACE_VERSION,
        EMBEDDING: ENCODER_SHA256,
        JUDGE: judge.prompt_sha256,
        COMBINED: fitted.version if fitted else "",
    }
    for report in found.reports:
        by_judge = report.signal in (JUDGE, COMBINED)
        calibrations.store(
            report,
            model=judge.model if by_judge else "",
            prompt_sha256=judge.prompt_sha256 if by_judge else "",
            version=versions[report.signal],
            labels=found.gathered.labels,
            pairs_sha256=found.gathered.sha256,
            coefficients=fitted.as_dict() if fitted and report.signal == COMBINED else None,
        )


def signal_names(text: str) -> tuple[str, ...]:
    """The signals of a comma-separated list, in the order of SIGNALS. ValueError on another name."""
    asked = {name.strip() for name in text.split(",") if name.strip()}
    if not asked or asked - set(SIGNALS):
        raise ValueError(text)
    return tuple(name for name in SIGNALS if name in asked)
