"""When a judge is not asked: one row per judge that is away or refuses us, shared by all workers.

Guarantees: an error that an operator must mend (a wrong key, no such model, an unpaid bill, a server
that refuses every question) or a server that is away stops all judge calls of that tier for a time,
with one row and one line in the log, however many threads meet it. When the time is over exactly one
worker tries: its failure prolongs the pause, an answer ends it. `resume` ends it by hand, and makes
due what had waited.

Says nothing about overload: that is the business of ``scoring.judge.pace``. Calls that run when the
pause begins are not cut off. Shaped by 3,341 questions that were burnt on an unpaid bill, one by one.
"""

from __future__ import annotations

import enum
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from memory.models import Retrieval
from memory.reasons import Reason
from scoring.judge.decoding import storable
from scoring.judge.errors import JudgeMisconfigured, JudgeRequestRefused
from scoring.models import JudgePause

if TYPE_CHECKING:
    from datetime import datetime

    from scoring.judge.errors import JudgeError

logger = logging.getLogger(__name__)

OUTAGE_S: Final = 10.0
"""Seconds for which a server that is away is left alone; an operator's error waits JUDGE_PAUSE_S."""
LONGEST_S: Final = 3_600.0
"""A server may ask for more time, up to this."""


class Door(enum.StrEnum):
    """Whether the judge may be asked now."""

    OPEN = "open"
    PROBE = "probe"
    PAUSED = "paused"


def door(tier: str) -> Door:
    """Look before a call. PROBE: a pause is over, and it is the caller who must try."""
    pause = JudgePause.objects.filter(tier=tier, cleared_at__isnull=True).first()
    if pause is None:
        return Door.OPEN
    # whoever moves the end may try; if it dies, the pause ends again and another one tries
    trying = timedelta(seconds=settings.JUDGE_DEADLINE_S)
    due = JudgePause.objects.filter(
        pk=pause.pk, cleared_at__isnull=True, until=pause.until, until__lte=Now()
    )
    return Door.PROBE if due.update(until=Now() + trying) == 1 else Door.PAUSED


def begin(tier: str, error: JudgeError) -> bool:
    """Stop asking this judge, or go on not asking. True: this call began the pause."""
    if isinstance(error, JudgeRequestRefused):  # of so many questions that they are not the cause
        error = JudgeMisconfigured(
            f"the judge refuses every question ({type(error).__name__}: {error})",
            mend="check JUDGE_DIALECT, JUDGE_MODEL and what the server says about the last calls",
        )
    seconds = settings.JUDGE_PAUSE_S if error.pauses else OUTAGE_S
    seconds = max(seconds, min(error.retry_after_s or 0.0, LONGEST_S))
    cause = storable(str(error))[:500]
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO scoring_judgepause
                (tier, since, until, cause, error_class, failures, cleared_by)
            VALUES (%(tier)s, now(), now() + %(length)s::interval, %(cause)s, %(name)s, 1, '')
            ON CONFLICT (tier) WHERE cleared_at IS NULL DO UPDATE SET
                until = greatest(scoring_judgepause.until, excluded.until),
                failures = scoring_judgepause.failures + 1,
                cause = excluded.cause, error_class = excluded.error_class
            RETURNING xmax = 0, until""",
            {
                "tier": tier,
                "length": f"{seconds} seconds",
                "cause": cause,
                "name": type(error).__name__,
            },
        )
        began, until = cursor.fetchone()
    if began:
        logger.error(
            "judge.paused: %s (%s) is not asked until %s: %s. manage.py judge_resume ends it sooner",
            tier,
            type(error).__name__,
            until.isoformat(timespec="seconds"),
            cause,
        )
    return bool(began)


def end(tier: str) -> bool:
    """The judge has answered. True: there was a pause, and this call ended it."""
    ended = _clear(tier, by="an answer")
    if ended:
        logger.warning("judge.resumed: %s answers again", tier)
    return ended


def resume(*, by: str) -> tuple[list[str], int]:
    """End every pause by hand; returns the tiers, and how many rows no longer wait for a retry."""
    tiers = list(JudgePause.objects.filter(cleared_at__isnull=True).values_list("tier", flat=True))
    ended = [tier for tier in sorted(tiers) if _clear(tier, by=by)]
    waiting = Retrieval.objects.filter(llm_reason=Reason.JUDGE_UNAVAILABLE, llm_retry_at__gt=Now())
    return ended, waiting.update(llm_retry_at=Now())


def until(tier: str) -> datetime | None:
    """The end of the open pause, None if there is none."""
    found = JudgePause.objects.filter(tier=tier, cleared_at__isnull=True).first()
    return None if found is None else found.until


def _clear(tier: str, *, by: str) -> bool:
    open_ = JudgePause.objects.filter(tier=tier, cleared_at__isnull=True)
    return open_.update(cleared_at=Now(), cleared_by=by[:150]) == 1
