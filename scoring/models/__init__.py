"""Tables of scoring: the judge's bench, and what people say.

Guarantees and limits stand with the tables, in ``bench`` (work units, judgements, calls, vectors),
``calibrations``, ``memos`` and ``reviews``.
"""

from __future__ import annotations

from scoring.models.bench import (
    EscalationBudget,
    JudgeCall,
    Judgement,
    JudgePause,
    ScoreBatch,
    Signal,
    TextEmbedding,
    VerdictCache,
)
from scoring.models.calibrations import Calibration
from scoring.models.memos import Memo
from scoring.models.reviews import Review

__all__ = [
    "Calibration",
    "EscalationBudget",
    "JudgeCall",
    "JudgePause",
    "Judgement",
    "Memo",
    "Review",
    "ScoreBatch",
    "Signal",
    "TextEmbedding",
    "VerdictCache",
]
