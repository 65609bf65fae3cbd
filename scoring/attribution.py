"""p(followed) on the rows of a run, and the rows that a better judge or a person should look at.

Guarantees: `fill` is a recount: the same rows and coefficients give the same numbers, and a row
whose signals all fell silent loses its number; a fit is used once somebody has adopted it, and one
made with one judge is never applied to a label of another (another model behind the same name is
another judge), which gets the hand-set ones. A review is not read: it outranks p wherever credit is
computed.

Does not guarantee that p is calibrated: `tip_followed_p_version` says which numbers gave it.

Shaped by ADR-0019's chain, in which two signals that disagreed left no mark on the row, and by a fit
to twenty pairs that became everybody's by being the latest.
"""

from __future__ import annotations

import enum
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from django.db import connection

from memory.models import Retrieval
from memory.reasons import STRUCTURAL
from scoring.calibrated import answered_as, measured_as
from scoring.following_model import (
    HAND_SET,
    JUDGE_LABELS,
    TRACE_VERDICTS,
    Coefficients,
    CoefficientsError,
    Signals,
    coefficients_from,
    probability,
)
from scoring.model_size import source_name
from scoring.models import Calibration
from scoring.pair_signals import COMBINED

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)

DOUBT_WITHIN: Final = 0.2
"""|p - 0.5| up to which a row is in doubt."""
FAR_TEXTS: Final = 0.3
NEAR_TEXTS: Final = 0.8
"""Cosines at which a judge who says the opposite is looked at. The cosine measures topic: it may
draw attention to a row, it never outvotes."""

_WRITE_AT_ONCE: Final = 2_000
_COLUMNS: Final = (
    "pk", "shown", "llm_source", "llm_label", "tip_followed_llm", "tip_followed_emb",
    "tip_followed_trace", "tip_followed_trace_verdict", "tip_followed_p", "tip_followed_p_version",
)  # fmt: skip


class Signalled(Protocol):
    """The columns that the machine signals stand in: a Retrieval, or a row of their values."""

    @property
    def llm_label(self) -> str:
        """One of JUDGE_LABELS, or ""."""

    @property
    def tip_followed_llm(self) -> bool | None:
        """The judge's yes or no; of an older row without its label."""

    @property
    def tip_followed_emb(self) -> float | None:
        """Cosine, [-1, 1]."""

    @property
    def tip_followed_trace(self) -> float | None:
        """[0, 1]."""

    @property
    def tip_followed_trace_verdict(self) -> str:
        """One of TRACE_VERDICTS, or ""."""


def signals_of(row: Signalled) -> Signals:
    """The machine signals of a stored retrieval; a value of an unknown vocabulary counts as absent."""
    label = row.llm_label
    if label not in JUDGE_LABELS:
        label = {True: "followed", False: "not_followed", None: ""}[row.tip_followed_llm]
    verdict = row.tip_followed_trace_verdict
    return Signals(
        judge=label,
        cosine=row.tip_followed_emb,
        trace_verdict=verdict if verdict in TRACE_VERDICTS else "",
        trace_score=row.tip_followed_trace,
    )


class StoredCoefficients:
    """The fit in use per judge, read once: the latest adopted one, HAND_SET where there is none.

    A fit answers for its judge's labels only while that name answers as what the fit was made with. One
    that is older than this knowledge (``served`` is empty) is compared by the name alone: it was in use.
    """

    def __init__(self) -> None:
        self._of_judge: dict[str, Coefficients] = {}
        self._latest = HAND_SET
        made_with: dict[str, Calibration] = {}
        for row in Calibration.objects.filter(signal=COMBINED, adopted=True).order_by("pk"):
            try:
                found = coefficients_from(row.coefficients)
            except CoefficientsError as error:
                logger.warning(
                    "attribution.unusable_fit", extra={"id": row.pk, "cause": str(error)}
                )
                continue
            self._latest = found
            if row.model:
                source = source_name(row.model, row.prompt_sha256)
                self._of_judge[source], made_with[source] = found, row
        known = {source: row for source, row in made_with.items() if row.served}
        answered = answered_as() if known else {}
        for source, row in known.items():
            if not answered.get(source, set()) <= measured_as(row):
                logger.warning("attribution.judge_exchanged", extra={"id": row.pk, "judge": source})
                del self._of_judge[source]

    def of(self, source: str) -> Coefficients:
        """Those for labels of the judge named as in ``llm_source``; "": for rows without a label."""
        return self._of_judge.get(source, HAND_SET) if source else self._latest


def fill(run_id: int) -> int:
    """Recompute `tip_followed_p` and its version on the run's rows; returns how many changed.

    Idempotent; call it before credit is counted.
    """
    stored = StoredCoefficients()
    # rows of one judge have few answers between them: each combination is computed once
    said: dict[tuple[str, Signals], tuple[float | None, str]] = {}
    changed: list[tuple[int, float | None, str]] = []
    rows = Retrieval.objects.filter(run_id=run_id).order_by("pk")
    for row in rows.values_list(*_COLUMNS, named=True).iterator():
        found: tuple[float | None, str] = (None, "")
        if row.shown:
            signals = signals_of(row)
            source = row.llm_source if signals.judge else ""
            key = (source, signals)
            if key not in said:
                said[key] = _answer(signals, stored.of(source))
            found = said[key]
        if found != (row.tip_followed_p, row.tip_followed_p_version):
            changed.append((row.pk, *found))
    for start in range(0, len(changed), _WRITE_AT_ONCE):
        _write(changed[start : start + _WRITE_AT_ONCE])
    return len(changed)


def _answer(signals: Signals, coefficients: Coefficients) -> tuple[float | None, str]:
    """p(followed) and the version of the numbers that gave it; None and "" where nothing is known."""
    p = probability(signals, coefficients)
    return p, "" if p is None else coefficients.version


def _write(rows: list[tuple[int, float | None, str]]) -> None:
    """One statement: a CASE per row, as bulk_update makes it, is quadratic in the rows.

    One parameter: an array is quoted value by value.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tip_retrievals AS row "
            "SET tip_followed_p = (new ->> 1)::float8, tip_followed_p_version = new ->> 2 "
            "FROM json_array_elements(%s::json) AS new WHERE row.id = (new ->> 0)::bigint",
            [json.dumps(rows)],
        )


# --- Who should look again? -----------------------------------------------------------------------


class Cause(enum.StrEnum):
    """Why a row is in doubt."""

    UNCERTAIN = "uncertain"
    JUDGE_AGAINST_TRACE = "judge_against_trace"
    JUDGE_AGAINST_COSINE = "judge_against_cosine"
    JUDGE_UNCLEAR = "judge_unclear"


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """A row whose machine signals do not settle whether the tip was followed."""

    row: Retrieval
    p: float
    causes: tuple[Cause, ...]


def doubt(row: Retrieval) -> Doubt | None:
    """What is doubtful about *row*. None: settled, reviewed, not shown, or nothing is known.

    Reads the stored p; a row without one is judged by the hand-set coefficients.
    """
    if not row.shown or row.tip_followed_review is not None:
        return None
    signals = signals_of(row)
    p = row.tip_followed_p
    if p is None:
        p = probability(signals, HAND_SET)
    if p is None:
        return None
    causes = tuple(cause for cause, holds in _causes(signals, p).items() if holds)
    return Doubt(row=row, p=p, causes=causes) if causes else None


def _causes(signals: Signals, p: float) -> dict[Cause, bool]:
    yes = signals.judge == "followed"
    no = signals.judge in ("not_followed", "contradicted")
    near = signals.cosine is not None and signals.cosine >= NEAR_TEXTS
    far = signals.cosine is not None and signals.cosine < FAR_TEXTS
    refuted = signals.trace_verdict in ("violated", "not_followed")
    return {
        Cause.UNCERTAIN: abs(p - 0.5) <= DOUBT_WITHIN,
        Cause.JUDGE_AGAINST_TRACE: (yes and refuted)
        or (no and signals.trace_verdict == "followed"),
        Cause.JUDGE_AGAINST_COSINE: (yes and far) or (no and near),
        Cause.JUDGE_UNCLEAR: signals.judge == "unclear",
    }


def rows_to_escalate(rows: Iterable[Retrieval]) -> list[Doubt]:
    """Those of *rows* that a stronger judge could settle, in order of doubt.

    Rows that no judge can be asked about (cut or missing script, unknown tip text) are left out.
    """
    askable = (row for row in rows if row.llm_reason not in STRUCTURAL)
    return in_order_of_doubt(seen for row in askable if (seen := doubt(row)))


def in_order_of_doubt(found: Iterable[Doubt]) -> list[Doubt]:
    """Most causes first, then nearest to an even chance, then the older row."""
    return sorted(found, key=lambda seen: (-len(seen.causes), abs(seen.p - 0.5), seen.row.pk))
