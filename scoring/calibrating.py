"""One calibration, from labels to figures: the signals of labelled pairs, and what they are worth.

Guarantees: every signal is measured on the same pairs with the same resamples, save a judge that was
never asked about some of them: these are not in its figures; the combined signal is measured on rules
that its coefficients have not seen, and compared with the coefficients in use on the same pairs; a
signal that cannot be measured is left out with a note that says why, never shown as zero. Writes
nothing.

Shaped by signals that were each measured on a file of their own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Protocol

from memory.rates import rounded
from scoring.calibration import MIN_RULES, RESAMPLES, SEED, SignalReport, measure
from scoring.following_fit import Fit, TooFewLabels, fit, log_loss
from scoring.following_model import HAND_SET, Coefficients, Signals, probability
from scoring.judge.verdict import followed_of
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
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scoring.calibration import Labelled, Scored
    from scoring.judge.pair_asking import PairVerdict
    from scoring.labelled_pairs import LabelledPair, PairFile


class AskPairs(Protocol):
    """Asks a judge about pairs: a verdict each, None where none came; tells how many are done."""

    def __call__(
        self, pairs: Sequence[LabelledPair], advance: Callable[[int], None], /
    ) -> Sequence[PairVerdict | None]: ...


class NothingAnswered(LookupError):
    """The judge was asked about every pair and gave no verdict on any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """What a server said it was, and on how many pairs it gave a yes or no as that."""

    model: str
    fingerprint: str
    decided: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"model": self.model, "fingerprint": self.fingerprint, "decided": self.decided}


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """Whose verdicts are measured, as what it answered and how it was asked. Empty: none.

    ``mode`` as JUDGE_MODE; ``tips``: of one question, None where they were not counted;
    ``sampling``: the parameters that were sent, empty where they are not known.
    """

    model: str = ""
    prompt_sha256: str = ""
    mode: str = ""
    tips: int | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    served: tuple[Served, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.model)

    @property
    def source(self) -> str:
        """As ``llm_source`` names it."""
        return source_name(self.model, self.prompt_sha256)

    @property
    def asked(self) -> dict[str, Any]:
        """Plain data on how it was asked."""
        return (
            {"mode": self.mode, "tips": self.tips, "sampling": dict(self.sampling)} if self else {}
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """Labels and what the signals say about them; one entry of `signals` and `asked` a pair.

    ``asked``: whether the judge was asked about it. One that was, and has no label, has failed.
    """

    pairs: Sequence[Labelled]
    signals: Sequence[Signals]
    asked: Sequence[bool]
    judge: Judge
    labels: str
    sha256: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Rivals:
    """A fit against the coefficients in use, on the same pairs. Log losses in nats, less is better.

    ``in_use``: their versions, for labels of this judge and for rows without a label. The loss of the
    fit is that on rules it has not seen; those in use may have seen some of them.
    """

    in_use: tuple[str, str]
    loss: float | None
    loss_in_use: float | None
    adopted: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "adopted": self.adopted,
            "held_out_log_loss": rounded(self.loss),
            "log_loss_of_those_in_use": rounded(self.loss_in_use),
            "in_use_before": {"with_label": self.in_use[0], "without_label": self.in_use[1]},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibrated:
    """The figures of one calibration. ``rivals`` is there where ``fitted`` is."""

    gathered: Gathered
    reports: tuple[SignalReport, ...]
    fitted: Fit | None
    rivals: Rivals | None = None
    notes: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Plain data with everything that it takes to compute the figures again."""
        pairs, judge = self.gathered.pairs, self.gathered.judge
        return {
            "labels": {
                "from": self.gathered.labels,
                "sha256": self.gathered.sha256,
                "n": len(pairs),
                "rules": len({pair.rule for pair in pairs}),
            },
            "judge": {
                "model": judge.model,
                "prompt_sha256": judge.prompt_sha256,
                "served": [one.as_dict() for one in judge.served],
                "asked": judge.asked,
            },
            "method": {
                "intervals": "95 % percentile bootstrap over rules",
                "resamples": RESAMPLES,
                "seed": SEED,
                "min_rules": MIN_RULES,
            },
            "signals": [report.as_dict() for report in self.reports],
            "attribution": None if self.fitted is None else self.fitted.coefficients.as_dict(),
            "fit": None if self.rivals is None else self.rivals.as_dict(),
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
        JudgeError: it cannot be asked any more.
        NothingAnswered: it gave no verdict on any pair.
        EmbeddingError: the cosine cannot be computed.
    """
    pairs = file.pairs
    signals = _computed_here(pairs, names)
    notes: tuple[str, ...] = ()
    if JUDGE in names and ask is not None:
        verdicts = _asked(pairs, judge, ask, advance)
        judge = replace(judge, served=served_as(_identities(verdicts)))
        labels = [verdict.label.value if verdict else "" for verdict in verdicts]
        signals = [replace(said, judge=at) for said, at in zip(signals, labels, strict=True)]
    else:
        judge = Judge()
        if JUDGE in names:
            notes = ("judge: left out, there is none to ask (set JUDGE_BASE_URL and JUDGE_MODEL)",)
    return Gathered(
        pairs=pairs, signals=signals, asked=[bool(judge)] * len(pairs), judge=judge, labels="pairs",
        sha256=file.sha256, notes=notes,
    )  # fmt: skip


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
    pairs: Sequence[LabelledPair], judge: Judge, ask: AskPairs, advance: Callable[[int], None]
) -> Sequence[PairVerdict | None]:
    if too_small(judge.model):
        raise ModelTooSmall(judge.model)
    verdicts = ask(pairs, advance)
    if len(verdicts) != len(pairs):
        raise ValueError(f"asked about {len(pairs)} pairs, got {len(verdicts)} answers")
    if not any(verdicts):
        raise NothingAnswered(f"the judge gave no verdict on any of {len(pairs)} pairs")
    return verdicts


def _identities(verdicts: Iterable[PairVerdict | None]) -> Iterable[tuple[str, str, bool]]:
    for verdict in verdicts:
        if verdict is not None:
            decided = followed_of(verdict.label) is not None
            yield verdict.served.model, verdict.served.fingerprint, decided


def served_as(answers: Iterable[tuple[str, str, bool]]) -> tuple[Served, ...]:
    """Count what answered: (served model, fingerprint, whether it was a yes or no); most first."""
    counts: Counter[tuple[str, str]] = Counter()
    for model, fingerprint, decided in answers:
        counts[model, fingerprint] += decided
    return tuple(
        Served(model=model, fingerprint=fingerprint, decided=n)
        for (model, fingerprint), n in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    )


# --- Figures --------------------------------------------------------------------------------------


def calibrate(
    gathered: Gathered,
    names: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    in_use: Callable[[str], Coefficients] = lambda _: HAND_SET,
    adopt: bool = False,
) -> Calibrated:
    """Measure the signals *names*; the combined one by coefficients fitted to other rules.

    *in_use* gives the coefficients in use for a judge's labels, and for "" those for rows without a
    label; *adopt*: those fitted here are to be in use from now on.
    """
    notes = [*gathered.notes, *_exchanged(gathered.judge)]
    answers = _answers(gathered, names)
    fitted, rivals = None, None
    if COMBINED in names:
        followed = [pair.followed for pair in gathered.pairs]
        try:
            fitted = fit(gathered.signals, followed, [pair.rule for pair in gathered.pairs])
        except TooFewLabels as error:
            notes.append(f"combined: left out, {error}")
        else:
            answers[COMBINED] = by_probability(fitted.held_out)
            rivals = _rivals(gathered, followed, fitted, in_use, adopt=adopt)
    asked = list(compress(gathered.pairs, gathered.asked))
    reports = tuple(
        measure(
            name,
            asked if name == JUDGE else gathered.pairs,
            scored,
            graded=name not in UNGRADED,
            resamples=resamples,
        )
        for name, scored in answers.items()
    )
    return Calibrated(
        gathered=gathered, reports=reports, fitted=fitted, rivals=rivals, notes=tuple(notes)
    )


def _answers(gathered: Gathered, names: Sequence[str]) -> dict[str, list[Scored]]:
    """What each single signal says; the judge's are about the pairs that it was asked about."""
    answers: dict[str, list[Scored]] = {}
    if TRACE in names:
        answers[TRACE] = by_trace(gathered.signals)
    if EMBEDDING in names:
        answers[EMBEDDING] = by_cosine(gathered.signals)
    if JUDGE in names and any(gathered.asked):
        answers[JUDGE] = by_judge(list(compress(gathered.signals, gathered.asked)))
    return answers


def _exchanged(judge: Judge) -> Iterable[str]:
    if len(judge.served) > 1:
        names = ", ".join(
            f"{one.model or 'unnamed'} {one.fingerprint} ({one.decided} decided)"
            for one in judge.served
        )
        yield f"judge: several models or servers answered: {names}; each is calibrated by its own"


def _rivals(
    gathered: Gathered,
    followed: Sequence[bool],
    fitted: Fit,
    in_use: Callable[[str], Coefficients],
    *,
    adopt: bool,
) -> Rivals:
    labelled = in_use(gathered.judge.source if gathered.judge else "")
    silent = in_use("")
    rows = [probability(said, labelled if said.judge else silent) for said in gathered.signals]
    return Rivals(
        in_use=(labelled.version, silent.version),
        loss=log_loss(fitted.held_out, followed),
        loss_in_use=log_loss(rows, followed),
        adopted=adopt,
    )
