"""Writes a ranking down: one row per tip that was shown, and one per tip that the coin kept back.

Guarantees: all rows of an attempt in one insert, each with rank, composite, true inclusion propensity,
coin and the ranker's sha256; ``shown_text`` is the text that the agent is about to see, byte for byte,
with its own sha256; a withheld tip has a row and no text. What the prompt makes of it later (cut,
dropped) is the caller's to note on the row. Does not rank, does not toss and does not commit.

Shaped by: logs that held only what was shown, from which no effect of showing can be learned.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from memory.insertion import insert_rows
from memory.models import Retrieval
from memory.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory.holdout import Draw
    from memory.models import Attempt
    from memory.ranking_parts import Ranking


def log(
    attempt: Attempt, ranking: Ranking, draws: Sequence[Draw], *, retrieved_at: datetime
) -> list[Retrieval]:
    """Insert a row per draw; returns them with their primary keys, in the order of the ranking.

    The outcome is copied from the attempt, which may have none yet, and so are the reasons why a signal
    cannot be computed.

    Raises:
        ValueError: the ranking is of another skill, rule or run than the attempt, or the draws are not
            those of its tips: rows that could never be audited.
        django.db.IntegrityError: one of the tips has a row of this attempt already.
    """
    _belongs(attempt, ranking, draws)
    return insert_rows([_row(attempt, ranking, draw, retrieved_at) for draw in draws])


def _belongs(attempt: Attempt, ranking: Ranking, draws: Sequence[Draw]) -> None:
    asked = (ranking.request.skill, ranking.request.rule_id, ranking.request.run)
    own = (attempt.skill, attempt.rule_id, attempt.run.external_id)
    if asked[:2] != own[:2] or asked[2] not in {"", own[2]}:
        msg = f"a ranking for {asked} cannot be logged for an attempt of {own}"
        raise ValueError(msg)
    if [draw.tip for draw in draws] != list(ranking.tips):
        msg = "the draws are not those of the ranking: one for each tip, in its order"
        raise ValueError(msg)


def _row(attempt: Attempt, ranking: Ranking, draw: Draw, retrieved_at: datetime) -> Retrieval:
    run, tip = attempt.run, draw.tip
    text = tip.text if draw.shown else ""
    judge, others = reasons_of(attempt) if draw.shown else (Reason.NOT_SHOWN.value,) * 2
    return Retrieval(
        run=run,
        attempt=attempt,
        tip_id=tip.tip_id,
        rule_id=attempt.rule_id,
        rank=tip.rank,
        similarity_score=tip.score,
        outcome_value=attempt.outcome_value,
        outcome_confidence=attempt.outcome_confidence,
        retrieved_at=retrieved_at,
        skill=attempt.skill,
        category=attempt.category,
        model=run.model,
        environment_tag=run.environment_tag,
        superseded=run.superseded_at is not None,
        shown=draw.shown,
        shown_text=text,
        shown_sha256=hashlib.sha256(text.encode()).hexdigest() if text else "",
        withheld=draw.withheld,
        propensity=draw.propensity,
        canary=tip.canary,
        coin=draw.coin,
        ranker=ranking.ranker,
        llm_reason=judge,
        emb_reason=others,
        trace_reason=others,
    )


def reasons_of(attempt: Attempt) -> tuple[str, str]:
    """Why a tip shown in *attempt* has no signal of the judge, and none of the others; "": it may have.

    Without an outcome the judge is not asked; without a whole script nobody can say what was followed.
    """
    never = ""
    if attempt.script is None:
        never = Reason.NO_SCRIPT.value
    elif attempt.script_truncated:
        never = Reason.SCRIPT_TRUNCATED.value
    if never or attempt.outcome_value is not None:
        return never, never
    return Reason.NO_OUTCOME.value, ""
