"""Which judges have been calibrated: asked wherever a verdict is shown.

Guarantees: a judge is its model and its prompt's bytes, both; a calibration on too few answered
pairs does not count, and a model too small for figures never does. Read from the table at each
question, one query for any number of judges: what one process stores, the next page of another shows.

Does not say that a calibrated judge is good: the stored report does.

Shaped by a prompt that was edited while reports went on quoting the figures of the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory.provenance import Standing
from scoring.model_size import ModelTooSmall, source_name, too_small
from scoring.models import Calibration
from scoring.pair_signals import JUDGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scoring.calibration import SignalReport

MIN_DECIDED: Final = 30
"""Answered pairs from which a judge counts as calibrated."""


def standing(sources: Iterable[str]) -> Standing:
    """What is known about the judges named as in ``llm_source``, for ``memory.provenance``."""
    named = frozenset(sources)
    small = frozenset(source for source in named if too_small(source.rpartition("@")[0]))
    prompts = {source.rpartition("@")[2] for source in named - small}
    rows = Calibration.objects.filter(
        signal=JUDGE, decided__gte=MIN_DECIDED, prompt_sha256__in=prompts
    )
    known = {
        source_name(model, sha)
        for model, sha in rows.order_by().values_list("model", "prompt_sha256").distinct()
    }
    return Standing(uncalibrated=named - (known - small), without_figures=small)


def is_calibrated(model: str, prompt_sha256: str) -> bool:
    """Whether this judge was compared with labels. False: show its verdicts as "uncalibrated"."""
    return not too_small(model) and source_is_calibrated(source_name(model, prompt_sha256))


def source_is_calibrated(llm_source: str) -> bool:
    """`is_calibrated` for one ``llm_source``; of several ask `standing`, which needs one query."""
    return not standing([llm_source]).uncalibrated


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
    return Calibration.objects.create(
        signal=report.signal,
        model=model,
        prompt_sha256=prompt_sha256,
        n=report.overall.n,
        decided=report.overall.figures["accuracy"].n,
        report=report.as_dict(),
        **fields,
    )
