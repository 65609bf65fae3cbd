"""How well a signal answers "was it followed?" against labels: one engine for files and reviews.

Guarantees: pure functions of labels and answers; a figure that is not defined is None, never 0;
every figure has its n and, where it can, a 95 % interval. Abstaining is shown three ways: ranked
in the middle in `auc`, left out of `auc_decided` and `accuracy`, counted as wrong in
`accuracy_all`; a call that failed is neither an answer nor an abstention.

Intervals are percentiles of a seeded bootstrap over whole rules, because the pairs of one rule are
not independent. Not guaranteed: that labels are right, or that figures hold on another file.

Shaped by an overall AUC of 0.79 that hid chance level on the only kind that mattered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from memory.rates import rounded, wilson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

ALL_KINDS: Final = "all"
ABSTAINED_SCORE: Final = 0.5
BINS: Final = 10
MIN_FOR_ECE: Final = 2 * BINS
"""Scores below which ten bins of equal mass say nothing: a bin of one pair is never calibrated."""
MIN_RULES: Final = 5
"""Rules below which resampling them gives no interval worth the name."""
RESAMPLES: Final = 1_000
SEED: Final = 19
_AT_ONCE: Final = 100
_MIN_DEFINED: Final = 0.9

METRICS: Final = (
    "accuracy", "accuracy_all", "tpr", "tnr", "kappa", "auc", "auc_decided", "ece",
    "coverage", "abstained", "failed",
)  # fmt: skip
PROPORTIONS: Final = frozenset(METRICS) - {"kappa", "auc", "auc_decided", "ece"}


class Labelled(Protocol):
    """What the engine reads of a labelled pair; `rule` groups pairs that are not independent."""

    @property
    def followed(self) -> bool: ...
    @property
    def kind(self) -> str: ...
    @property
    def rule(self) -> str: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """A signal's score in [0, 1] and its answer; None where it abstains or, `failed`, broke."""

    score: float | None
    followed: bool | None
    failed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A value with its 95 % interval; `n`: pairs in its denominator. None: not defined."""

    value: float | None
    low: float | None
    high: float | None
    n: int

    def as_dict(self) -> dict[str, float | int | None]:
        """Plain data, rounded."""
        return {
            "value": rounded(self.value),
            "low": rounded(self.low),
            "high": rounded(self.high),
            "n": self.n,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class KindFigures:
    """One signal on one kind of pairs; keys of `figures` are METRICS.

    `borrowed`: the kind holds one label only, so its AUC compares it with all pairs of the other.
    """

    kind: str
    n: int
    followed: int
    rules: int
    borrowed: bool
    figures: Mapping[str, Figure]

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kind": self.kind,
            "n": self.n,
            "followed": self.followed,
            "rules": self.rules,
            "auc_borrows_other_label": self.borrowed,
            **{name: self.figures[name].as_dict() for name in METRICS},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalReport:
    """One signal: overall first, then every kind in alphabetical order."""

    signal: str
    kinds: tuple[KindFigures, ...]

    @property
    def overall(self) -> KindFigures:
        """Over all kinds."""
        return self.kinds[0]

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"signal": self.signal, "kinds": [kind.as_dict() for kind in self.kinds]}


def measure(
    signal: str,
    pairs: Sequence[Labelled],
    scored: Sequence[Scored],
    *,
    graded: bool = True,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> SignalReport:
    """Compare a signal with the labels.

    Args:
        signal: its name in the report.
        pairs: at least one.
        scored: exactly one for each pair, in the same order.
        graded: its score is a degree. Without one (a yes or no) there is no ECE.
        resamples: of the bootstrap; 0: no intervals.
        seed: the same seed gives the same resamples for every signal on the same pairs.

    Raises:
        ValueError: no pair, another number of scores, or a score outside [0, 1].
    """
    sample = _Sample(pairs, scored, graded=graded)
    everything = np.ones(len(pairs), dtype=np.bool_)
    kinds = np.array([pair.kind for pair in pairs], dtype=object)
    slices = [(ALL_KINDS, everything)]
    slices += [(kind, kinds == kind) for kind in sorted({pair.kind for pair in pairs})]
    weights = _resampled(sample.rules, resamples, seed)
    return SignalReport(
        signal=signal, kinds=tuple(_kind(name, mask, sample, weights) for name, mask in slices)
    )


class _Sample:
    """Labels and answers as arrays. `unique`: index of each score among the distinct ones."""

    def __init__(
        self, pairs: Sequence[Labelled], scored: Sequence[Scored], *, graded: bool
    ) -> None:
        if not pairs or len(pairs) != len(scored):
            raise ValueError(f"{len(pairs)} pairs but {len(scored)} scores")
        for number, item in enumerate(scored):
            if item.score is not None and not 0.0 <= item.score <= 1.0:
                raise ValueError(f"score {item.score} of pair {number} lies outside [0, 1]")
        self.followed: Mask = np.array([pair.followed for pair in pairs], dtype=np.bool_)
        self.yes: Mask = np.array([item.followed is True for item in scored], dtype=np.bool_)
        self.no: Mask = np.array([item.followed is False for item in scored], dtype=np.bool_)
        self.failed: Mask = np.array([item.failed for item in scored], dtype=np.bool_)
        self.has_score: Mask = np.array([item.score is not None for item in scored], dtype=np.bool_)
        filled = [ABSTAINED_SCORE if item.score is None else item.score for item in scored]
        self.scores: Floats = np.array(filled, dtype=np.float64)
        self.unique = np.unique(self.scores, return_inverse=True)[1]
        self.rules = np.unique(np.array([pair.rule for pair in pairs]), return_inverse=True)[1]
        self.graded = graded

    @property
    def decided(self) -> Mask:
        return self.yes | self.no


def _resampled(rules: npt.NDArray[np.intp], resamples: int, seed: int) -> Floats:
    """Weights of the pairs, shape (resamples, pairs): how often each pair's rule was drawn."""
    count = int(rules.max()) + 1
    dice = np.random.default_rng(seed)
    drawn = dice.multinomial(count, np.full(count, 1.0 / count), size=resamples)
    drawn_of_pair: Floats = drawn[:, rules].astype(np.float64)
    return drawn_of_pair


def _kind(name: str, mask: Mask, sample: _Sample, weights: Floats) -> KindFigures:
    labels = sample.followed[mask]
    one_label = bool(labels.all()) or not bool(labels.any())
    others = sample.followed != bool(labels.all())
    borrowed = one_label and bool(others.any())
    ranked = (mask | others) if borrowed else mask
    bins = _bins_of_equal_mass(sample.scores, mask & sample.has_score) if sample.graded else []
    once = np.ones((1, len(mask)), dtype=np.float64)
    values = {
        key: float(found[0]) for key, found in _figures(once, mask, ranked, bins, sample).items()
    }
    drawn = [
        _figures(weights[start : start + _AT_ONCE], mask, ranked, bins, sample)
        for start in range(0, len(weights), _AT_ONCE)
    ]
    rules = len(np.unique(sample.rules[mask]))
    figures: dict[str, Figure] = {}
    for key, among in _denominators(mask, ranked, sample).items():
        low, high = None, None
        if drawn and rules >= MIN_RULES and not np.isnan(values[key]):
            replicates = np.concatenate([part[key] for part in drawn])
            low, high = _interval(key, values[key], replicates, len(np.unique(sample.rules[among])))
        value = None if np.isnan(values[key]) else values[key]
        figures[key] = Figure(value=value, low=low, high=high, n=int(among.sum()))
    return KindFigures(
        kind=name,
        n=int(mask.sum()),
        followed=int(labels.sum()),
        rules=rules,
        borrowed=borrowed,
        figures=figures,
    )


def _denominators(mask: Mask, ranked: Mask, sample: _Sample) -> dict[str, Mask]:
    """Which pairs each figure is about, in the order of METRICS."""
    decided = mask & sample.decided
    return {
        "accuracy": decided,
        "accuracy_all": mask,
        "tpr": decided & sample.followed,
        "tnr": decided & ~sample.followed,
        "kappa": decided,
        "auc": ranked,
        "auc_decided": ranked & sample.has_score,
        "ece": mask & sample.has_score,
        "coverage": mask,
        "abstained": mask,
        "failed": mask,
    }


def _figures(
    weights: Floats, mask: Mask, ranked: Mask, bins: Sequence[Mask], sample: _Sample
) -> dict[str, Floats]:
    """Every metric for every row of *weights*, shape (resamples, pairs); NaN: not defined."""

    def total(which: Mask) -> Floats:
        summed: Floats = weights @ (mask & which).astype(np.float64)
        return summed

    yes_yes, yes_no = total(sample.followed & sample.yes), total(sample.followed & sample.no)
    no_yes, no_no = total(~sample.followed & sample.yes), total(~sample.followed & sample.no)
    decided, every = yes_yes + yes_no + no_yes + no_no, total(mask)
    silent = ~sample.decided
    return {
        "accuracy": _ratio(yes_yes + no_no, decided),
        "accuracy_all": _ratio(yes_yes + no_no, every),
        "tpr": _ratio(yes_yes, yes_yes + yes_no),
        "tnr": _ratio(no_no, no_yes + no_no),
        "kappa": _kappa(yes_yes, yes_no, no_yes, no_no),
        "auc": _auc(weights, ranked, sample),
        "auc_decided": _auc(weights, ranked & sample.has_score, sample),
        "ece": _ece(weights, bins, sample),
        "coverage": _ratio(decided, every),
        "abstained": _ratio(total(silent & ~sample.failed), every),
        "failed": _ratio(total(silent & sample.failed), every),
    }


def _ratio(hits: Floats, among: Floats) -> Floats:
    undefined = np.full_like(among, np.nan)
    return np.divide(hits, among, out=undefined, where=among > 0)


def _kappa(yes_yes: Floats, yes_no: Floats, no_yes: Floats, no_no: Floats) -> Floats:
    """Cohen's kappa per resample; NaN for one label only, where it is 0 whatever was answered."""
    n = yes_yes + yes_no + no_yes + no_no
    first, second = _ratio(yes_yes + yes_no, n), _ratio(yes_yes + no_yes, n)
    by_chance = first * second + (1 - first) * (1 - second)
    room = 1.0 - by_chance
    room[~((first > 0) & (first < 1) & (room > 1e-12))] = 0.0
    return _ratio(_ratio(yes_yes + no_no, n) - by_chance, room)


def _auc(weights: Floats, among: Mask, sample: _Sample) -> Floats:
    """Area under the ROC curve per resample: chance that a followed pair outranks another; ties half."""
    positive, negative = among & sample.followed, among & ~sample.followed
    found = np.full(len(weights), np.nan)
    size = int(sample.unique.max()) + 1
    for number, row in enumerate(weights):
        ups = np.bincount(sample.unique[positive], weights=row[positive], minlength=size)
        downs = np.bincount(sample.unique[negative], weights=row[negative], minlength=size)
        pairs = ups.sum() * downs.sum()
        if pairs > 0:
            below = np.cumsum(downs) - downs
            found[number] = float((ups * (below + downs / 2)).sum() / pairs)
    return found


def _bins_of_equal_mass(scores: Floats, among: Mask) -> list[Mask]:
    """Ten bins by the mean rank of a score, so that equal scores share a bin; [] for too few."""
    n = int(among.sum())
    if n < MIN_FOR_ECE:
        return []
    ordered = np.sort(scores[among])
    before = np.searchsorted(ordered, scores, side="left")
    until = np.searchsorted(ordered, scores, side="right")
    place = np.minimum((before + until) / 2 / n * BINS, BINS - 1).astype(np.intp)
    return [among & (place == number) for number in range(BINS)]


def _ece(weights: Floats, bins: Sequence[Mask], sample: _Sample) -> Floats:
    """Mean distance of score and share followed over the bins, weighted by their mass.

    The bins are those of the whole sample: a resample changes their mass, not their edges. Noise only
    adds to a distance, so of a well calibrated signal the value lies low in its interval.
    """
    if not bins:
        return np.full(len(weights), np.nan)
    gap = sample.scores - sample.followed
    distance = np.sum([np.abs(weights @ (gap * inside)) for inside in bins], axis=0)
    return _ratio(distance, weights @ np.any(bins, axis=0).astype(np.float64))


def _interval(
    key: str, value: float, replicates: Floats, rules: int
) -> tuple[float | None, float | None]:
    """2.5 and 97.5 percentile of the defined replicates; None where too few are defined.

    Resampling cannot widen a share of 0 or 1; it gets Wilson's interval with the rules as its n.
    """
    if key in PROPORTIONS and value in (0.0, 1.0):
        return wilson(int(value) * rules, rules) or (None, None)
    defined = replicates[~np.isnan(replicates)]
    if len(defined) < _MIN_DEFINED * len(replicates):
        return None, None
    low, high = np.percentile(defined, [2.5, 97.5])
    return float(low), float(high)
