"""Asks a judge about pairs of tip and script that are no rows: labelled pairs, to be measured.

Guarantees: one entry per pair, in order; a pair is asked as the product asks (same prompt, redaction,
mode, verification, limit on calls at once), always anew, and nothing is stored. Where the product puts
several tips of an attempt into one question, a question is filled up with tips of other pairs, of
which nothing is reported: the same ones each time for the same pairs. None: no verdict came. An error
that an operator must mend is raised at once, any other when it has met several questions in a row.

The companions are not the ones that retrieval would have brought: those are nearer to the script.
Shaped by a calibration that measured another prompt and another parser than production used, and by
one that asked about each tip alone while production asked about five at once.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.conf import settings

from scoring.calibration import SEED
from scoring.judge.asking import Failure, Question, ask_about
from scoring.judge.bench import FAILURES_TO_PAUSE, bench_for_model
from scoring.judge.cache import Served
from scoring.judge.errors import JudgeContextExceeded, JudgeRequestRefused, JudgeUnavailable
from scoring.judge.prompt import MAX_SCRIPT_CHARS, MAX_TIP_CHARS, QuestionRefused
from scoring.judge.redact import redact_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scoring.judge.bench import Bench
    from scoring.judge.errors import JudgeError
    from scoring.judge.prompt import JudgePrompt
    from scoring.judge.verdict import Label

TIPS_SHOWN: Final = 5
"""Tips that an attempt is usually shown, and so asked about in one question."""
UNUSABLE_TO_STOP: Final = 20
"""Questions in a row without a usable verdict: a judge that cannot do it is not paid to the end."""


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """A label after its quotes were looked up, and what the server said it was."""

    label: Label
    served: Served


@dataclass(frozen=True, slots=True)
class _PairQuestion:
    """Pairs of one script (their places among all), and their tips with the companions behind."""

    places: tuple[int, ...]
    script: str
    tips: tuple[str, ...]


def tips_per_question(wanted: int = TIPS_SHOWN) -> int:
    """How many tips one question holds, in the mode and within the limit of the settings."""
    return min(wanted, settings.JUDGE_TIPS_PER_CALL) if settings.JUDGE_MODE == "per_attempt" else 1


def ask_pairs(
    pairs: Sequence[tuple[str, str]],
    *,
    skill: str,
    model: str | None = None,
    tips: int = TIPS_SHOWN,
    advance: Callable[[int], None] = lambda _: None,
) -> list[PairVerdict | None]:
    """Return the verified label of each (tip, script), None where no verdict came.

    Args:
        pairs: tips and scripts as stored; secrets are taken out here.
        skill: whose prompt is used.
        model: JUDGE_MODEL unless given.
        tips: of one question in mode per_attempt, companions included.
        advance: told how many pairs are done since the last time.

    Raises:
        ValueError: no judge is configured.
        PromptError: the skill's prompt file does not fit.
        JudgeError: an operator must act first (key, model, bill), or the questions failed in a row.
    """
    judge = bench_for_model(model)
    asking = _Asking(judge, judge.prompts.for_skill(skill))
    verdicts: list[PairVerdict | None] = [None] * len(pairs)
    with ThreadPoolExecutor(settings.JUDGE_CONCURRENCY) as pool:
        questions = _questions(pairs, tips_per_question(tips))
        asked = {pool.submit(asking.ask, question): question for question in questions}
        try:
            for future in as_completed(asked):
                for place, verdict in future.result().items():
                    verdicts[place] = verdict
                advance(len(asked[future].places))
        except BaseException:
            asking.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return verdicts


def _questions(pairs: Sequence[tuple[str, str]], per_question: int) -> Iterator[_PairQuestion]:
    """Cut the pairs into questions about one script, each filled up with tips of other scripts."""
    by_script: dict[str, list[int]] = defaultdict(list)
    for place, (_, script) in enumerate(pairs):
        by_script[script].append(place)
    pool = sorted({tip for tip, _ in pairs if tip.strip()})
    for script, places in by_script.items():
        own = {pairs[place][0] for place in places}
        for start in range(0, len(places), per_question):
            part = tuple(places[start : start + per_question])
            # seeded by the text: a file in another order asks the same questions
            dice = random.Random(f"{SEED} {start} {script}")  # noqa: S311 - no secret
            drawn = dice.sample(pool, min(len(pool), per_question + len(own)))
            companions = [tip for tip in drawn if tip not in own][: per_question - len(part)]
            tips = tuple(pairs[place][0] for place in part)
            yield _PairQuestion(places=part, script=script, tips=(*tips, *companions))


class _Asking:
    """The questions of one measurement. `stop`: set in the thread that met the error, so that the
    others need not wait to be told."""

    def __init__(self, judge: Bench, prompt: JudgePrompt) -> None:
        self._judge, self._prompt = judge, prompt
        self._in_a_row = 0
        self._lock = threading.Lock()
        self.stop = threading.Event()

    def ask(self, question: _PairQuestion) -> dict[int, PairVerdict]:
        """The verdicts by place; raises the JudgeError that ends the measurement."""
        if self.stop.is_set():
            return {}
        try:
            verdicts, error = self._verdicts(question)
            self._count(verdicts, error)
        except BaseException:
            self.stop.set()
            raise
        return verdicts

    def _verdicts(
        self, question: _PairQuestion
    ) -> tuple[dict[int, PairVerdict], JudgeError | None]:
        """What came of a question, and the last thing that went wrong with it."""
        verdicts: dict[int, PairVerdict] = {}
        last: JudgeError | None = None
        sent = Question(
            prompt=self._prompt,
            script=redact_within(question.script, MAX_SCRIPT_CHARS).text,
            tips=tuple(redact_within(tip, MAX_TIP_CHARS).text for tip in question.tips),
            budget=self._judge.config.budget,
        )
        for step in ask_about(self._judge.ask, sent, [range(len(sent.tips))]):
            reply, error = (step.call.reply, step.call.error) if step.call else (None, None)
            if error is not None and error.pauses:
                raise error
            served = Served(
                (reply.served_model if reply else None) or "",
                (reply.system_fingerprint if reply else None) or "",
            )
            for index, outcome in step.outcomes.items():
                if isinstance(outcome, Failure):
                    last = outcome.error
                elif index < len(question.places):
                    label = outcome.verified.label
                    verdicts[question.places[index]] = PairVerdict(label, served)
        return verdicts, last

    def _count(self, verdicts: dict[int, PairVerdict], error: JudgeError | None) -> None:
        """Raise *error* when it is the last of too many in a row."""
        with self._lock:
            if verdicts:
                self._in_a_row = 0
            elif error is not None and not isinstance(error, QuestionRefused):
                self._in_a_row += 1
                if self._in_a_row >= _bearable(error):
                    raise error


def _bearable(error: JudgeError) -> int:
    """Failures in a row that end it: few where no reply comes at all, whatever the question."""
    for_any = isinstance(error, JudgeUnavailable | JudgeRequestRefused)
    if for_any and not isinstance(error, JudgeContextExceeded):
        return FAILURES_TO_PAUSE
    return UNUSABLE_TO_STOP
