"""p(followed) of one retrieval from whatever signals it has: a small logistic model, pure.

Guarantees: a prediction is plain arithmetic on stored numbers (no learning library is loaded) and
lies strictly between 0 and 1, or is None where no signal says anything; coefficients carry a
version that is a hash of their values. A feature that the labelled pairs do not show often enough
keeps its hand-set weight: a fit without a judge must not teach the model to ignore judges.

Does not guarantee calibration elsewhere: see the cross-validated report stored with each fit.

Shaped by a chain of signals in which the first with an opinion silenced all others (ADR-0019).
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from memory.rates import rounded

if TYPE_CHECKING:
    from collections.abc import Mapping

JUDGE_LABELS: Final = ("followed", "contradicted", "not_followed", "not_applicable", "unclear")
TRACE_VERDICTS: Final = ("followed", "violated", "not_followed", "abstained")
ABSENT: Final = "absent"
MIDDLE: Final = 0.5
"""Cosine and trace score are taken from here, so that an absent one neither helps nor harms."""

FEATURES: Final = (
    *(f"judge_{label}" for label in (*JUDGE_LABELS, ABSENT)),
    *(f"trace_{verdict}" for verdict in (*TRACE_VERDICTS, ABSENT)),
    "trace_score",
    "cosine",
    "cosine_absent",
)
_SURE: Final = 30.0
"""Log-odds beyond which a double cannot tell the probability from 0 or 1."""


class CoefficientsError(ValueError):
    """Stored coefficients cannot be used; says which and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Signals:
    """What is known about one retrieval. "" and None: the signal said nothing.

    `judge`: one of JUDGE_LABELS; `cosine` in [-1, 1]; `trace_verdict`: one of TRACE_VERDICTS;
    `trace_score` in [0, 1].
    """

    judge: str = ""
    cosine: float | None = None
    trace_verdict: str = ""
    trace_score: float | None = None

    @property
    def silent(self) -> bool:
        """Whether no signal says anything, so that there is nothing to combine."""
        return not self.judge and self.cosine is None and self.trace_verdict in ("", "abstained")


@dataclass(frozen=True, kw_only=True)  # no slots: the version is kept, as every row is given it
class Coefficients:
    """Log-odds: an intercept and a weight per feature. `hand_set`: features that were not fitted."""

    origin: str
    intercept: float
    weights: Mapping[str, float]
    hand_set: tuple[str, ...]

    @cached_property
    def version(self) -> str:
        """Origin and hash of the numbers; at most 40 characters."""
        numbers = json.dumps([self.intercept, sorted(self.weights.items())])
        return f"{self.origin}@{hashlib.sha256(numbers.encode()).hexdigest()[:12]}"

    def as_dict(self) -> dict[str, Any]:
        """Plain data that `coefficients_from` reads back."""
        return {
            "version": self.version,
            "origin": self.origin,
            "intercept": self.intercept,
            "weights": dict(self.weights),
            "hand_set": list(self.hand_set),
        }


_HAND_SET_WEIGHTS: Final = {
    "judge_followed": 3.0,
    "judge_contradicted": -3.5,
    "judge_not_followed": -2.5,
    "judge_not_applicable": -2.5,
    "trace_followed": 1.0,
    "trace_violated": -1.5,
    "trace_not_followed": -0.5,
    "trace_score": 1.0,
    "cosine": 1.0,
}

HAND_SET: Final = Coefficients(
    origin="hand-set",
    intercept=0.0,
    weights={name: _HAND_SET_WEIGHTS.get(name, 0.0) for name in FEATURES},
    hand_set=FEATURES,
)
"""Used until there is a fit. Chosen by hand and fitted to nothing: ADR-0019's order put into log-odds.

A judge's yes is 0.95 by itself; no machine signal overturns a judge, but a trace that disagrees
moves the row into doubt; "unclear" and absent signals move nothing. The cosine measures topic, not
following, so its whole range is worth less than a judge's word by far.
"""


def coefficients_from(stored: object) -> Coefficients:
    """Read what `as_dict` wrote. Raises CoefficientsError on a missing, unknown or infinite number."""
    if not isinstance(stored, dict) or not isinstance(stored.get("weights"), dict):
        raise CoefficientsError("coefficients must be an object with `weights`; calibrate again")
    weights = stored["weights"]
    strange = sorted(set(map(str, weights)) ^ set(FEATURES))
    if strange:
        raise CoefficientsError(
            f"other features than today's ({', '.join(strange)}); calibrate again"
        )
    numbers = {**weights, "intercept": stored.get("intercept")}
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise CoefficientsError(f"{name} is no number; calibrate again")
        if not math.isfinite(number):
            raise CoefficientsError(f"{name} is not finite; calibrate again")
    return Coefficients(
        origin=str(stored.get("origin", "fitted"))[:20],
        intercept=float(numbers.pop("intercept")),
        weights={name: float(number) for name, number in numbers.items()},
        hand_set=tuple(name for name in FEATURES if name in stored.get("hand_set", ())),
    )


def features(signals: Signals) -> dict[str, float]:
    """The features of *signals*, in the order of FEATURES. Raises ValueError on an unknown label."""
    values = dict.fromkeys(FEATURES, 0.0)
    for prefix, said in (("judge", signals.judge), ("trace", signals.trace_verdict)):
        name = f"{prefix}_{said or ABSENT}"
        if name not in values:
            raise ValueError(f"{said!r} is no answer of the {prefix}")
        values[name] = 1.0
    if signals.trace_score is not None:
        values["trace_score"] = signals.trace_score - MIDDLE
    if signals.cosine is None:
        values["cosine_absent"] = 1.0
    else:
        values["cosine"] = max(0.0, signals.cosine) - MIDDLE
    return values


def probability(signals: Signals, coefficients: Coefficients) -> float | None:
    """p(followed), in (0, 1) with six digits; None where every signal is silent."""
    if signals.silent:
        return None
    log_odds = coefficients.intercept + sum(
        coefficients.weights[name] * value for name, value in features(signals).items()
    )
    return rounded(1.0 / (1.0 + math.exp(-max(-_SURE, min(_SURE, log_odds)))))
