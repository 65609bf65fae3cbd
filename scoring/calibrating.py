"""One calibration, from labels to figures: signals over labelled pairs or over reviewed rows.

Guarantees: every signal is measured on the same pairs with the same resamples; the combined signal
is measured on rules that its coefficients have not seen; a signal that cannot be measured is left
out with a note that says why, never shown as zero. Writes nothing.

Does not guarantee unbiased figures against reviews: reviewers see the rows that looked doubtful.

Shaped by signals that were each measured on a file of their own.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from memory.models import Retrieval
from scoring.attribution import signals_of
from scoring.calibration import MIN_RULES, RESAMPLES, SEED, SignalReport, measure
from scoring.following_fit import Fit, TooFewLabels, fit
from scoring.following_model import Signals
from scoring.model_size import ModelTooSmall, source_name, too_small
from scoring.pair_signals import (
    COMBINED,
    EMBEDDING,
    JUDGE,
    TRACE,
    UNGRADED,
    by_cosine,
    by_judge,
    by_probability,
    by_trace,
    cosines,
    traces,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scoring.calibration import Labelled, Scored
    from scoring.labelled_pairs import LabelledPair, PairFile

ASKED_AT_ONCE: Final = 32
"""Pairs handed to the judge between two steps of the progress bar."""


class AskPairs(Protocol):
    """Asks a judge about pairs: one label each, None where the call failed."""

    def __call__(self, pairs: Sequence[LabelledPair], /) -> Sequence[str | None]: ...


class NoReviews(LookupError):
    """There is nothing to compare with, or it mixes several judges; says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reviewed:
    """A label of a person on a stored row."""

    followed: bool
    kind: str
    rule: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """Whose verdicts are measured. Empty: none."""

    model: str = ""
    prompt_sha256: str = ""

    def __bool__(self) -> bool:
        return bool(self.model)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """Labels and what the signals say about them; one entry of `signals` a pair."""

    pairs: Sequence[Labelled]
    signals: Sequence[Signals]
    judge: Judge
    labels: str
    sha256: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibrated:
    """The figures of one calibration."""

    gathered: Gathered
    reports: tuple[SignalReport, ...]
    fitted: Fit | None
    notes: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Plain data with everything that it takes to compute the figures again."""
        pairs = self.gathered.pairs
        return {
            "labels": {
                "from": self.gathered.labels,
                "sha256": self.gathered.sha256,
                "n": len(pairs),
                "rules": len({pair.rule for pair in pairs}),
            },
            "judge": {
                "model": self.gathered.judge.model,
                "prompt_sha256": self.gathered.judge.prompt_sha256,
            },
            "method": {
                "intervals": "95 % percentile bootstrap over rules",
                "resamples": RESAMPLES,
                "seed": SEED,
                "min_rules": MIN_RULES,
            },
            "signals": [report.as_dict() for report in self.reports],
            "attribution": None if self.fitted is None else self.fitted.coefficients.as_dict(),
            "notes": list(self.notes),
        }


# --- Where labels and signals come from -----------------------------------------------------------


def gather_pairs(
    file: PairFile,
    names: Sequence[str],
    *,
    judge: Judge,
    ask: AskPairs | None,
    advance: Callable[[int], None] = lambda _: None,
) -> Gathered:
    """Compute the signals *names* over the pairs of a file.

    Args:
        file: the labelled pairs.
        names: of SIGNALS; the combined one reads whatever else is computed.
        judge: whom `ask` asks.
        ask: None: there is no judge to ask, and a note says so.
        advance: told how many pairs the judge has answered since the last time.

    Raises:
        ModelTooSmall: figures of this judge are never shown, so it is not asked.
        EmbeddingError: the cosine cannot be computed.
    """
    pairs = file.pairs
    signals = _computed_here(pairs, names)
    notes: tuple[str, ...] = ()
    if JUDGE in names and ask is not None:
        if too_small(judge.model):
            raise ModelTooSmall(judge.model)
        labels = _asked(pairs, ask, advance)
        signals = [
            replace(said, judge=label or "") for said, label in zip(signals, labels, strict=True)
        ]
    else:
        judge = Judge()
        if JUDGE in names:
            notes = ("judge: left out, there is none to ask (set JUDGE_BASE_URL and JUDGE_MODEL)",)
    return Gathered(
        pairs=pairs, signals=signals, judge=judge, labels="pairs", sha256=file.sha256, notes=notes
    )


def _computed_here(pairs: Sequence[LabelledPair], names: Sequence[str]) -> list[Signals]:
    """The signals that need no judge."""
    signals = [Signals() for _ in pairs]
    if TRACE in names:
        found = traces(pairs)
        signals = [
            replace(said, trace_verdict=seen.verdict.value, trace_score=seen.score)
            for said, seen in zip(signals, found, strict=True)
        ]
    if EMBEDDING in names:
        near = cosines(pairs)
        signals = [replace(said, cosine=x) for said, x in zip(signals, near, strict=True)]
    return signals


def _asked(
    pairs: Sequence[LabelledPair], ask: AskPairs, advance: Callable[[int], None]
) -> list[str | None]:
    labels: list[str | None] = []
    for start in range(0, len(pairs), ASKED_AT_ONCE):
        part = pairs[start : start + ASKED_AT_ONCE]
        answers = ask(part)
        if len(answers) != len(part):
            raise ValueError(f"asked about {len(part)} pairs, got {len(answers)} answers")
        labels += answers
        advance(len(part))
    return labels


def gather_reviews(*, skill: str | None = None, model: str | None = None) -> Gathered:
    """Reviewed rows of current revisions, with the signals stored on them; kinds are skills.

    Raises NoReviews without any, or where several judges answered and none is chosen; ModelTooSmall.
    """
    rows = Retrieval.objects.counted().filter(shown=True, tip_followed_review__isnull=False)
    if skill:
        rows = rows.filter(skill=skill)
    if model:
        rows = rows.filter(llm_source__startswith=source_name(model, ""))
    found = list(rows.defer("shown_text", "extra", "tip_followed_trace_evidence").order_by("pk"))
    if not found:
        raise NoReviews("no reviewed row matches: review some in the admin, or name other rows")
    sources = sorted({row.llm_source for row in found if row.llm_source})
    if len(sources) > 1:
        raise NoReviews(
            f"the reviewed rows were judged by {len(sources)} judges ({', '.join(sources)}): "
            f"choose one with --model and --prompt"
        )
    name, _, prompt_sha256 = sources[0].rpartition("@") if sources else ("", "", "")
    if too_small(name):
        raise ModelTooSmall(name)
    listing = json.dumps([[row.pk, row.tip_followed_review] for row in found])
    return Gathered(
        pairs=[
            Reviewed(followed=bool(row.tip_followed_review), kind=row.skill, rule=row.rule_id)
            for row in found
        ],
        signals=[signals_of(row) for row in found],
        judge=Judge(model=name, prompt_sha256=prompt_sha256),
        labels="human",
        sha256=hashlib.sha256(listing.encode()).hexdigest(),
        notes=(
            "reviewed rows are no random sample: reviewers are led to doubtful rows, so these "
            "figures are worse than those of all rows",
        ),
    )


# --- Figures --------------------------------------------------------------------------------------


def calibrate(
    gathered: Gathered, names: Sequence[str], *, resamples: int = RESAMPLES
) -> Calibrated:
    """Measure the signals *names*; the combined one by coefficients fitted to other rules."""
    notes = list(gathered.notes)
    answers: dict[str, list[Scored]] = {}
    if TRACE in names:
        answers[TRACE] = by_trace(gathered.signals)
    if EMBEDDING in names:
        answers[EMBEDDING] = by_cosine(gathered.signals)
    if JUDGE in names and gathered.judge:
        answers[JUDGE] = by_judge(gathered.signals)
    fitted = None
    if COMBINED in names:
        try:
            fitted = fit(
                gathered.signals,
                [pair.followed for pair in gathered.pairs],
                [pair.rule for pair in gathered.pairs],
            )
        except TooFewLabels as error:
            notes.append(f"combined: left out, {error}")
        else:
            answers[COMBINED] = by_probability(fitted.held_out)
    reports = tuple(
        measure(name, gathered.pairs, scored, graded=name not in UNGRADED, resamples=resamples)
        for name, scored in answers.items()
    )
    return Calibrated(gathered=gathered, reports=reports, fitted=fitted, notes=tuple(notes))
