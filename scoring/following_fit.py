"""Fits p(followed) to labelled pairs, and measures the fit on rules that it has not seen.

Guarantees: the report's probabilities come from models that saw no pair of the same rule; seeded,
so that the same pairs give the same coefficients; too little evidence is a typed error, never a
fit. Pure; loads scikit-learn.

Each pair is learned with and without its judge label (half the weight each), because the model
must also answer where the judge is silent. Does not tune anything: one L2 strength, fixed.

Shaped by fits that were measured on their own training data and looked perfect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from scoring.calibration import SEED
from scoring.following_model import FEATURES, HAND_SET, Coefficients, Signals, features, probability

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = npt.NDArray[np.float64]

FOLDS: Final = 5
MIN_PER_LABEL: Final = 10
MIN_RULES: Final = 10
MIN_SEEN: Final = 5
"""Pairs in which an answer must occur before its weight is fitted."""
L2_STRENGTH: Final = 1.0
"""Inverse of the penalty: scikit-learn's C."""

_SMALLEST: Final = 1e-6
_DEGREES: Final = frozenset({"trace_score", "cosine"})


class TooFewLabels(ValueError):
    """The pairs are too few, or too much of one kind, for coefficients that mean something."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """Coefficients from all pairs, and per pair a probability by a model that saw none of its rule.

    None in `held_out`: every signal of the pair is silent.
    """

    coefficients: Coefficients
    held_out: tuple[float | None, ...]


def fit(signals: Sequence[Signals], followed: Sequence[bool], rules: Sequence[str]) -> Fit:
    """Fit to labelled pairs; the three sequences have one entry a pair.

    Raises TooFewLabels below MIN_PER_LABEL of either label or MIN_RULES rules.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    ups = sum(followed)
    if min(ups, len(followed) - ups) < MIN_PER_LABEL or len(set(rules)) < MIN_RULES:
        raise TooFewLabels(
            f"{ups} followed and {len(followed) - ups} other pairs of {len(set(rules))} rules; a fit "
            f"needs {MIN_PER_LABEL} of each and {MIN_RULES} rules"
        )
    labels = np.array(followed, dtype=np.bool_)
    held_out: list[float | None] = [None] * len(signals)
    folds = StratifiedGroupKFold(n_splits=FOLDS, shuffle=True, random_state=SEED)
    for seen, unseen in folds.split(np.zeros((len(signals), 1)), labels, groups=list(rules)):
        learned = _coefficients([signals[i] for i in seen], labels[seen])
        for i in unseen:
            held_out[i] = probability(signals[i], learned)
    return Fit(coefficients=_coefficients(signals, labels), held_out=tuple(held_out))


def log_loss(probabilities: Sequence[float | None], followed: Sequence[bool]) -> float | None:
    """Mean of -ln(probability of what was so), in nats, over the pairs that have one; less is better.

    ln 2 (0.693) is what tossing a coin is worth. None: no pair has a probability.
    """
    answered = [
        (p, label) for p, label in zip(probabilities, followed, strict=True) if p is not None
    ]
    if not answered:
        return None
    # a probability is rounded to six digits, so a certain one may be 0 or 1
    said = (min(max(p if label else 1.0 - p, _SMALLEST), 1.0) for p, label in answered)
    return -sum(map(math.log, said)) / len(answered)


def _coefficients(signals: Sequence[Signals], labels: npt.NDArray[np.bool_]) -> Coefficients:
    from sklearn.linear_model import LogisticRegression

    matrix, targets, weights = _with_and_without_judge(signals, labels)
    kept = _without_rare_answers(matrix)
    matrix, targets, weights = matrix[kept], targets[kept], weights[kept]
    if len(np.unique(targets)) < 2:
        raise TooFewLabels("the pairs whose answers occur often enough carry one label only")
    varies = np.ptp(matrix, axis=0) > 0
    if not varies.any():
        raise TooFewLabels("no signal tells any two of the pairs apart")
    model = LogisticRegression(C=L2_STRENGTH, max_iter=1_000)
    model.fit(matrix[:, varies], targets, sample_weight=weights)
    chosen = dict(HAND_SET.weights)
    fitted = [name for name, varied in zip(FEATURES, varies, strict=True) if varied]
    chosen.update(zip(fitted, map(float, model.coef_[0]), strict=True))
    # an answer that every pair shares is in the intercept already
    shared = {
        name: float(matrix[0, i])
        for i, name in enumerate(FEATURES)
        if not varies[i] and matrix[0, i]
    }
    intercept = float(model.intercept_[0]) - sum(chosen[name] * x for name, x in shared.items())
    return Coefficients(
        origin="fitted",
        intercept=intercept,
        weights=chosen,
        hand_set=tuple(name for name in FEATURES if name not in fitted),
    )


def _with_and_without_judge(
    signals: Sequence[Signals], labels: npt.NDArray[np.bool_]
) -> tuple[Floats, npt.NDArray[np.bool_], Floats]:
    """Features, labels and weights of the pairs that say anything; those with a judge twice."""
    rows: list[list[float]] = []
    targets: list[bool] = []
    weights: list[float] = []
    for said, followed in zip(signals, labels, strict=True):
        versions = [said] if not said.judge else [said, replace(said, judge="")]
        for version in versions:
            if not version.silent:
                rows.append(list(features(version).values()))
                targets.append(bool(followed))
                weights.append(1.0 / len(versions))
    matrix = np.array(rows, dtype=np.float64).reshape(len(rows), len(FEATURES))
    return matrix, np.array(targets, dtype=np.bool_), np.array(weights, dtype=np.float64)


def _without_rare_answers(matrix: Floats) -> npt.NDArray[np.bool_]:
    """Rows that hold no answer which fewer than MIN_SEEN of the rows give."""
    answers = np.array([name not in _DEGREES for name in FEATURES])
    seen = (matrix != 0).sum(axis=0)
    rare = answers & (seen > 0) & (seen < MIN_SEEN)
    kept: npt.NDArray[np.bool_] = ~(matrix[:, rare] != 0).any(axis=1)
    return kept
