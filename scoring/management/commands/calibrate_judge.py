"""``manage.py calibrate_judge``: how well judge, embedding, trace and their combination answer labels.

Guarantees: figures per kind with intervals and n, as Markdown or JSON, and one Calibration row per
signal that decided a pair, so that verdicts of this judge with this prompt are no longer shown as
uncalibrated. Bad input, a report that cannot be written, or a judge too small for figures to be shown,
is refused with exit code 2 before any call. A judge that fails, or answers nothing, ends it with exit
code 1 and nothing stored. What p(followed) is computed with changes only where --adopt asks for it.

Does not change a retrieval: `p(followed)` is refilled when a run is finalized. Answers that were paid
for before a judge failed are not kept. Shaped by a judge that gated every credit and had been compared
with a person on five tips, and by a calibration of a server that was not there, stored as a success.
"""

from __future__ import annotations

import contextlib
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
from scoring.attribution import StoredCoefficients
from scoring.calibrating import (
    Calibrated,
    Gathered,
    Judge,
    NothingAnswered,
    calibrate,
    gather_pairs,
)
from scoring.calibration_text import markdown
from scoring.embed_step import ENCODER_SHA256
from scoring.judge import service
from scoring.judge.bench import bench_for_model
from scoring.judge.errors import JudgeError
from scoring.judge.pair_asking import TIPS_SHOWN, tips_per_question
from scoring.judge.prompt import DEFAULT_SKILL, PromptError, PromptLibrary
from scoring.labelled_pairs import PairFileError, read_pairs
from scoring.model_size import ModelTooSmall, too_small
from scoring.pair_signals import COMBINED, EMBEDDING, JUDGE, SIGNALS, TRACE
from scoring.reviewed_rows import NoReviews, gather_reviews
from scoring.trace import TRACE_VERSION
from scoring.vectors import EmbeddingError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO

    from scoring.calibrating import AskPairs
    from scoring.judge.pair_asking import PairVerdict
    from scoring.labelled_pairs import LabelledPair

REPORT_FILES: Final = ("calibration.json", "calibration.md")
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
        _add_judge(parser)
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
        parser.add_argument(
            "--adopt",
            action="store_true",
            help="compute p(followed) with the fit of this calibration from now on",
        )
        parser.add_argument("--dry-run", action="store_true", help="store nothing")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Gather, measure, store, print."""
        _refuse_contradictions(options)
        source = str(options["pairs"] or "reviews in the database")
        try:
            with _report_files(options["out"]) as files:
                found = self._found(options)
                if not options["dry_run"]:
                    _store(found)
                as_json = json.dumps(found.as_dict() | {"source": source}, indent=2)
                as_text = markdown(found, source=source)
                self.stdout.write(as_json if options["json"] else as_text)
                for file, text in zip(files, (f"{as_json}\n", as_text), strict=False):
                    file.write(text)
        except (PairFileError, PromptError, NoReviews, ModelTooSmall, OSError) as error:
            raise CommandError(str(error), returncode=BAD_INPUT) from error
        except EmbeddingError as error:
            raise CommandError(f"the cosine cannot be computed: {error}") from error
        except (JudgeError, NothingAnswered) as error:
            kind = type(error).__name__
            raise CommandError(f"nothing was stored, the judge failed: {kind}: {error}") from error
        if options["adopt"] and found.fitted is None:
            raise CommandError("there is no fit to adopt; the notes say why")

    def _found(self, options: dict[str, Any]) -> Calibrated:
        names: tuple[str, ...] = options["signals"]
        gathered = self._gathered(names, options)
        return calibrate(
            gathered, names, in_use=StoredCoefficients().of, adopt=bool(options["adopt"])
        )

    def _gathered(self, names: tuple[str, ...], options: dict[str, Any]) -> Gathered:
        prompts = PromptLibrary(settings.PROMPTS_DIR)
        if options["against"]:
            return gather_reviews(
                names, prompts=prompts, prompt=options["prompt"], model=options["model"]
            )
        file = read_pairs(options["pairs"])
        judge, ask = _judge(names, prompts, options)
        shown = Console(file=sys.stderr)
        with Progress(console=shown, disable=ask is None or not shown.is_terminal) as bar:
            task = bar.add_task("asking the judge", total=len(file.pairs))
            return gather_pairs(
                file, names, judge=judge, ask=ask, advance=functools.partial(bar.advance, task)
            )


def _add_judge(parser: ArgumentParser) -> None:
    """Which judge, and how it is asked."""
    parser.add_argument("--model", help="the judge (default: JUDGE_MODEL)")
    parser.add_argument(
        "--prompt",
        metavar="NAME",
        help="the judge prompt of this skill; with --against human also skill@version or the "
        "beginning of a sha256 (default: the prompt in use)",
    )
    parser.add_argument(
        "--tips",
        type=at_least_one,
        default=TIPS_SHOWN,
        metavar="N",
        help="with JUDGE_MODE=per_attempt, tips of a question: the labelled ones, and others as "
        "companions that are not counted; as many as your attempts are shown (default: %(default)s)",
    )


def _refuse_contradictions(options: dict[str, Any]) -> None:
    if (options["pairs"] is None) == (options["against"] is None):
        raise CommandError("give either --pairs FILE or --against human", returncode=BAD_INPUT)
    if options["adopt"] and options["dry_run"]:
        raise CommandError("--dry-run stores nothing to --adopt", returncode=BAD_INPUT)
    if options["adopt"] and COMBINED not in options["signals"]:
        raise CommandError("--adopt needs the signal combined", returncode=BAD_INPUT)


@contextlib.contextmanager
def _report_files(folder: Path | None) -> Iterator[list[TextIO]]:
    """The files of the report, opened before a call is paid for; they take their names at the end.

    Without a folder there are none. A report that was there stays until the new one is whole.
    """
    if folder is None:
        yield []
        return
    folder.mkdir(parents=True, exist_ok=True)
    parts = {folder / name: folder / f"{name}.part" for name in REPORT_FILES}
    if taken := [str(path) for path in parts if path.is_dir()]:
        raise IsADirectoryError(f"{', '.join(taken)}: a report is to be written here")
    try:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(part.open("w", encoding="utf-8")) for part in parts.values()]
        for path, part in parts.items():
            part.replace(path)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _judge(
    names: tuple[str, ...], prompts: PromptLibrary, options: dict[str, Any]
) -> tuple[Judge, AskPairs | None]:
    """Who is asked, and how. (nobody, None): none is configured."""
    model = options["model"] or settings.JUDGE_MODEL
    if JUDGE not in names or not (settings.JUDGE_BASE_URL and model):
        return Judge(), None
    if too_small(model):
        raise ModelTooSmall(model)
    skill: str = options["prompt"] or DEFAULT_SKILL
    if not (prompts.root / skill).is_dir():
        raise CommandError(
            f"{skill!r} is no skill with a prompt below {prompts.root}: with --pairs, --prompt names one",
            returncode=BAD_INPUT,
        )
    prompt = prompts.for_skill(skill)
    try:
        config = bench_for_model(model).config
    except ValueError as error:
        raise CommandError(f"the judge cannot be asked: {error}", returncode=BAD_INPUT) from error
    tips: int = options["tips"]

    def ask(
        pairs: Sequence[LabelledPair], advance: Callable[[int], None], /
    ) -> Sequence[PairVerdict | None]:
        texts = [(pair.tip, pair.script) for pair in pairs]
        return service.ask_pairs(texts, skill=skill, model=model, tips=tips, advance=advance)

    judge = Judge(
        model=model,
        prompt_sha256=prompt.sha256,
        mode=settings.JUDGE_MODE,
        tips=tips_per_question(tips),
        sampling=config.sampling(config.max_tokens),
    )
    return judge, ask


@transaction.atomic
def _store(found: Calibrated) -> None:
    """A row per signal that decided any pair; one that decided none was not measured."""
    gathered, judge = found.gathered, found.gathered.judge
    fitted = None if found.fitted is None else found.fitted.coefficients
    adopted = found.rivals is not None and found.rivals.adopted
    versions = {
        TRACE: TRACE_VERSION,
        EMBEDDING: ENCODER_SHA256,
        JUDGE: judge.prompt_sha256,
        COMBINED: fitted.version if fitted else "",
    }
    for report in found.reports:
        if not report.overall.figures["accuracy"].n:
            continue
        of = judge if report.signal in (JUDGE, COMBINED) else Judge()
        combined = report.signal == COMBINED
        calibrations.store(
            report,
            model=of.model,
            prompt_sha256=of.prompt_sha256,
            served=[one.as_dict() for one in of.served],
            asked=of.asked,
            version=versions[report.signal],
            labels=gathered.labels,
            pairs_sha256=gathered.sha256,
            coefficients=fitted.as_dict() if fitted and combined else None,
            adopted=adopted and combined,
        )


def at_least_one(text: str) -> int:
    """A whole number from 1 on. ValueError on another."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def signal_names(text: str) -> tuple[str, ...]:
    """The signals of a comma-separated list, in the order of SIGNALS. ValueError on another name."""
    asked = {name.strip() for name in text.split(",") if name.strip()}
    if not asked or asked - set(SIGNALS):
        raise ValueError(text)
    return tuple(name for name in SIGNALS if name in asked)
