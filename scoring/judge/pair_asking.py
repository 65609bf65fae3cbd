"""Asks a judge about pairs of tip and script that are no rows: labelled pairs, to be measured.

Guarantees: one entry per pair, in order; a pair is asked as the product asks (same prompt, redaction,
mode, verification, limit on calls at once), always anew, and nothing is stored. None: the call
failed. An error that an operator must mend is raised at once instead of being met by every pair.

Shaped by a calibration that measured another prompt and another parser than production used.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

from django.conf import settings

from scoring.judge.asking import Answer, Question, ask_about, groups_of
from scoring.judge.bench import bench_for_model
from scoring.judge.prompt import MAX_SCRIPT_CHARS, MAX_TIP_CHARS
from scoring.judge.redact import redact_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scoring.judge.bench import Bench
    from scoring.judge.prompt import JudgePrompt
    from scoring.judge.verdict import Label


def ask_pairs(
    pairs: Sequence[tuple[str, str]], *, skill: str, model: str | None = None
) -> list[Label | None]:
    """Return the verified label of each (tip, script), None where the call failed.

    Args:
        pairs: tips and scripts as stored; secrets are taken out here.
        skill: whose prompt is used.
        model: JUDGE_MODEL unless given.

    Raises:
        ValueError: no judge is configured.
        PromptError: the skill's prompt file does not fit.
        JudgeUnavailable: an operator must act first (key, model, bill, address).
    """
    judge = bench_for_model(model)
    prompt = judge.prompts.for_skill(skill)
    by_script: dict[str, list[int]] = defaultdict(list)
    for at, (_, script) in enumerate(pairs):
        by_script[script].append(at)
    labels: list[Label | None] = [None] * len(pairs)

    stop = Event()  # set in the thread that met the error: the others must not wait to be told

    def ask(script: str) -> dict[int, Label]:
        if stop.is_set():
            return {}
        at = by_script[script]
        try:
            found = _labels(judge, prompt, script, [pairs[number][0] for number in at])
        except BaseException:
            stop.set()
            raise
        return {at[index]: label for index, label in found.items()}

    with ThreadPoolExecutor(settings.JUDGE_CONCURRENCY) as pool:
        asked = [pool.submit(ask, script) for script in by_script]
        try:
            for future in asked:
                for number, label in future.result().items():
                    labels[number] = label
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return labels


def _labels(
    judge: Bench, prompt: JudgePrompt, script: str, tips: Sequence[str]
) -> dict[int, Label]:
    question = Question(
        prompt=prompt,
        script=redact_within(script, MAX_SCRIPT_CHARS).text,
        tips=tuple(redact_within(tip, MAX_TIP_CHARS).text for tip in tips),
        budget=judge.config.budget,
    )
    together = settings.JUDGE_TIPS_PER_CALL if settings.JUDGE_MODE == "per_attempt" else 1
    labels: dict[int, Label] = {}
    for step in ask_about(judge.ask, question, groups_of(len(tips), per_call=together)):
        if step.call is not None and step.call.error is not None and step.call.error.pauses:
            raise step.call.error
        labels |= {
            index: outcome.verified.label
            for index, outcome in step.outcomes.items()
            if isinstance(outcome, Answer)
        }
    return labels
