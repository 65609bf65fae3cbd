"""Which judges have been calibrated: asked wherever a verdict is shown.

Guarantees: a judge is its model and its prompt's bytes, both; a calibration on too few answered
pairs does not count, and a model too small for figures never does. The answer is at most a minute
old in other processes, and exact in the one that stored it.

Does not say that a calibrated judge is good: the stored report does.

Shaped by a prompt that was edited while reports went on quoting the figures of the old one.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from scoring.model_size import ModelTooSmall, too_small
from scoring.models import Calibration
from scoring.pair_signals import JUDGE

if TYPE_CHECKING:
    from scoring.calibration import SignalReport

MIN_DECIDED: Final = 30
"""Answered pairs from which a judge counts as calibrated."""
FRESH_FOR_S: Final = 60.0

_lock = threading.Lock()
_known: tuple[float, frozenset[tuple[str, str]]] | None = None


def is_calibrated(model: str, prompt_sha256: str) -> bool:
    """Whether this judge was compared with labels. False: show its verdicts as "uncalibrated"."""
    return not too_small(model) and (model, prompt_sha256) in _calibrated()


def source_is_calibrated(llm_source: str) -> bool:
    """`is_calibrated` for the `llm_source` of a retrieval: model @ prompt sha256."""
    model, _, prompt_sha256 = llm_source.rpartition("@")
    return is_calibrated(model, prompt_sha256)


def _calibrated() -> frozenset[tuple[str, str]]:
    global _known
    with _lock:
        if _known is None or time.monotonic() >= _known[0]:
            rows = Calibration.objects.filter(signal=JUDGE, decided__gte=MIN_DECIDED)
            # llm_source holds at most 120 characters of the model's name
            pairs = (
                (model[:120], sha) for model, sha in rows.values_list("model", "prompt_sha256")
            )
            _known = (time.monotonic() + FRESH_FOR_S, frozenset(pairs))
        return _known[1]


def forget() -> None:
    """Read the table again at the next question."""
    global _known
    with _lock:
        _known = None


def store(
    report: SignalReport, *, model: str = "", prompt_sha256: str = "", **fields: Any
) -> Calibration:
    """Append one signal's report.

    Args:
        report: what was measured.
        model: the judge's, where a judge had a part in it.
        prompt_sha256: of the judge's prompt file.
        fields: version, labels, pairs_sha256 and coefficients of the row.

    Raises:
        ModelTooSmall: figures of this model are never kept.
    """
    if model and too_small(model):
        raise ModelTooSmall(model)
    row = Calibration.objects.create(
        signal=report.signal,
        model=model,
        prompt_sha256=prompt_sha256,
        n=report.overall.n,
        decided=report.overall.figures["accuracy"].n,
        report=report.as_dict(),
        **fields,
    )
    forget()
    return row
