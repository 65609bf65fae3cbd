"""Which judges have been calibrated: asked wherever a verdict is shown.

Guarantees: a judge is its model, its prompt's bytes, what the server said it was (served model and
fingerprint) and whether tips were put to it together. A name counts as calibrated only while every
verdict under it came from what was measured: an exchanged server gives the whole name the mark until
it is measured too. A calibration on too few answered pairs does not count, and a model too small for
figures never does. Read from the tables at each question, two queries for any number of judges.

Verdicts that no judgement stands behind are compared by name alone. Sampling parameters are kept and
shown, not compared: a judgement does not hold them. Does not say that a calibrated judge is good: the
stored report does. Shaped by a prompt that was edited, and a model that was exchanged behind its name,
while reports went on quoting the figures of the old one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db import connection

from memory.provenance import Standing
from scoring.model_size import ModelTooSmall, source_name, too_small
from scoring.models import Calibration
from scoring.pair_signals import JUDGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scoring.calibration import SignalReport

MIN_DECIDED: Final = 30
"""Answered pairs from which a judge counts as calibrated."""
TOGETHER: Final = "per_attempt"
"""The mode (``JUDGE_MODE``) in which several tips share a question, where more than one is allowed."""

# One look into the index per distinct judge, not one per judgement: there are millions of those.
_ANSWERED_AS: Final = """
WITH RECURSIVE seen AS (
    (SELECT requested_model, prompt_sha256, served_model, system_fingerprint
    FROM scoring_judgement WHERE label <> '' OR followed IS NOT NULL
    ORDER BY requested_model, prompt_sha256, served_model, system_fingerprint LIMIT 1)
    UNION ALL
    SELECT later.* FROM seen CROSS JOIN LATERAL (
        SELECT j.requested_model, j.prompt_sha256, j.served_model, j.system_fingerprint
        FROM scoring_judgement j
        WHERE (j.label <> '' OR j.followed IS NOT NULL)
            AND (j.requested_model, j.prompt_sha256, j.served_model, j.system_fingerprint)
            > (seen.requested_model, seen.prompt_sha256, seen.served_model, seen.system_fingerprint)
        ORDER BY j.requested_model, j.prompt_sha256, j.served_model, j.system_fingerprint LIMIT 1
    ) AS later
)
SELECT seen.*, (
    SELECT COALESCE(j.position, 0) FROM scoring_judgement j
    WHERE (j.label <> '' OR j.followed IS NOT NULL)
        AND j.requested_model = seen.requested_model AND j.prompt_sha256 = seen.prompt_sha256
        AND j.served_model = seen.served_model AND j.system_fingerprint = seen.system_fingerprint
    ORDER BY COALESCE(j.position, 0) DESC LIMIT 1
) > 1 FROM seen"""


class Identity(NamedTuple):
    """What answered under a judge's name; `together`: some tips were not the first of their question."""

    model: str
    fingerprint: str
    together: bool


def answered_as() -> dict[str, set[Identity]]:
    """What answered under each name (as in ``llm_source``), from the judgements that hold a verdict."""
    found: dict[str, set[Identity]] = defaultdict(set)
    with connection.cursor() as cursor:
        cursor.execute(_ANSWERED_AS)
        for model, sha, served_model, fingerprint, together in cursor.fetchall():
            found[source_name(model, sha)].add(Identity(served_model, fingerprint, together))
    return found


def measured_as(row: Calibration, *, at_least: int = 1) -> set[Identity]:
    """What a calibration is about: those that decided *at_least* pairs, asked as they were."""
    # one tip a question measures nothing else, whatever the mode; None: not counted, as with reviews
    several = row.asked.get("mode") == TOGETHER and row.asked.get("tips") != 1
    modes = (False, True) if several else (False,)
    return {
        Identity(one["model"], one["fingerprint"], together)
        for one in row.served
        if one["decided"] >= at_least
        for together in modes
    }


def standing(sources: Iterable[str]) -> Standing:
    """What is known about the judges named as in ``llm_source``, for ``memory.provenance``."""
    named = frozenset(sources)
    small = frozenset(source for source in named if too_small(source.rpartition("@")[0]))
    measured: dict[str, set[Identity]] = defaultdict(set)
    prompts = {source.rpartition("@")[2] for source in named - small}
    rows = Calibration.objects.filter(
        signal=JUDGE, decided__gte=MIN_DECIDED, prompt_sha256__in=prompts
    )
    for row in rows.only("model", "prompt_sha256", "served", "asked"):
        source = source_name(row.model, row.prompt_sha256)
        measured[source] |= measured_as(row, at_least=MIN_DECIDED)
    candidates = (named - small) & measured.keys()
    answered = answered_as() if candidates else {}
    proved = {one for one in candidates if answered.get(one, set()) <= measured[one]}
    return Standing(uncalibrated=named - proved, without_figures=small)


def store(
    report: SignalReport, *, model: str = "", prompt_sha256: str = "", **fields: Any
) -> Calibration:
    """Append one signal's report.

    Args:
        report: what was measured.
        model: the judge's, where a judge had a part in it.
        prompt_sha256: of the judge's prompt file.
        fields: version, labels, pairs_sha256, coefficients, served, asked and adopted of the row.

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
