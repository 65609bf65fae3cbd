"""When a judge is not asked: one row per judge that is away or refuses us, shared by all workers.

Guarantees: an error that an operator must mend (a wrong key, no such model, an unpaid bill, a server
that refuses every question) or a server that is away stops all judge calls of that tier for a time,
with one row and one line in the log, however many threads meet it. When the time is over exactly one
worker tries: its failure prolongs the pause, an answer ends it. `resume` ends it by hand, and makes
due what had waited.

Either end makes due, with their try given back, the rows that the judge had refused since its last
answer before the pause: that they are closed for ever was said of questions, and the fault may have
been the server's. What did not fit its context stays closed.

Says nothing about overload: that is the business of ``scoring.judge.pace``. Calls that run when the
pause begins are not cut off.

Shaped by 3,341 questions that were burnt on an unpaid bill, one by one, and by the rows of five scripts,
closed for ever before the server was seen to refuse whatever it is asked.
"""

from __future__ import annotations

import enum
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Value
from django.db.models.functions import Greatest, Now

from memory import locks
from memory.models import Retrieval
from memory.reasons import Reason
from scoring.judge.decoding import storable
from scoring.judge.errors import JudgeMisconfigured, JudgeRequestRefused
from scoring.models import JudgeCall, Judgement, JudgePause

if TYPE_CHECKING:
    from datetime import datetime

    from memory.querysets import RetrievalQuerySet
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
    with (
        connection.cursor() as cursor
    ):  # before every call: the ORM would put it together each time
        cursor.execute(
            "SELECT id, until FROM scoring_judgepause WHERE tier = %s AND cleared_at IS NULL",
            [tier],
        )
        pause = cursor.fetchone()
    if pause is None:
        return Door.OPEN
    key, until = pause
    # whoever moves the end may try; if it dies, the pause ends again and another one tries
    trying = timedelta(seconds=settings.JUDGE_DEADLINE_S)
    due = JudgePause.objects.filter(pk=key, cleared_at__isnull=True, until=until, until__lte=Now())
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
    refused = _clear(tier, by="an answer")
    if refused is None:
        return False
    logger.warning("judge.resumed: %s answers again; %d refused rows are due", tier, refused)
    return True


class Resumed(NamedTuple):
    """The tiers whose pause was ended; the rows that are due now, and those of them once refused."""

    tiers: list[str]
    due: int
    refused: int


def resume(*, by: str) -> Resumed:
    """End every pause by hand."""
    tiers = JudgePause.objects.filter(cleared_at__isnull=True).values_list("tier", flat=True)
    ended = {tier: found for tier in sorted(tiers) if (found := _clear(tier, by=by)) is not None}
    waiting = Retrieval.objects.filter(llm_reason=Reason.JUDGE_UNAVAILABLE, llm_retry_at__gt=Now())
    refused = sum(ended.values())
    return Resumed(list(ended), _make_due(waiting) + refused, refused)


def until(tier: str) -> datetime | None:
    """The end of the open pause, None if there is none."""
    found = JudgePause.objects.filter(tier=tier, cleared_at__isnull=True).first()
    return None if found is None else found.until


@transaction.atomic
def _clear(tier: str, *, by: str) -> int | None:
    """End the pause; how many refused rows are due by that, None if there is no pause."""
    open_ = JudgePause.objects.filter(tier=tier, cleared_at__isnull=True)
    since = open_.values_list("since", flat=True).first()
    if since is None or open_.update(cleared_at=Now(), cleared_by=by[:150]) != 1:
        return None
    given_back = Greatest(F("llm_tries") - 1, Value(0))
    return _make_due(_refused_before(tier, since), llm_tries=given_back)


def _refused_before(tier: str, since: datetime) -> RetrievalQuerySet:
    """The rows without an answer whose latest judgement is a refusal of this tier, newer than its last
    answer (usable or not) before *since*.

    Two queries: the planner must know where to begin, or it reads the calls of all times.
    """
    calls = JudgeCall.objects.filter(tier=tier)
    answered = calls.filter(latency_s__isnull=False, created_at__lt=since)
    last = answered.order_by("-pk").values_list("pk", flat=True).first() or 0
    later = Judgement.objects.filter(retrieval=OuterRef("retrieval"), pk__gt=OuterRef("pk"))
    refusals = Judgement.objects.filter(
        ~Exists(later),
        call__in=calls.filter(pk__gt=last, error_class=JudgeRequestRefused.__name__),
    )
    rows = Retrieval.objects.filter(
        pk__in=list(refusals.values_list("retrieval_id", flat=True)),
        llm_label="",
        llm_reason=Reason.JUDGE_ERROR,
    )
    return rows.exclude(llm_retry_at__lte=Now())


def _make_due(rows: RetrievalQuerySet, **changes: Any) -> int:
    with transaction.atomic():
        found = [row.pk for row in locks.held(rows.only("pk"))]
        return Retrieval.objects.filter(pk__in=found).update(llm_retry_at=Now(), **changes)
