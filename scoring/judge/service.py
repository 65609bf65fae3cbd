"""Judge step of a batch: ask, verify, store. The only judge module that knows the database.

Guarantees: every call leaves a Judgement, also a failed one; a failure leaves ``tip_followed_llm``
NULL with a reason and the time of the next try, never a label; a label is written only onto a row
that has none, so a late duplicate changes nothing. The try is counted before the call: a row that
kills its process is left alone after JUDGE_MAX_TRIES. A server that is away costs no try for some hours.

Not guaranteed: at most one call per row. A worker killed between the call and the commit pays twice.

Shaped by: judgements marked as computed when the server was away, and never asked for again.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from pydantic import SecretStr

from memory.models import Attempt, Retrieval
from memory.reasons import Reason
from scoring import batches
from scoring.judge.client import JudgeClient, JudgeConfig
from scoring.judge.errors import JudgeError, JudgeUnavailable
from scoring.judge.prompt import JudgePrompt, PromptLibrary, build_messages
from scoring.judge.verdict import VERDICT_SCHEMA, Verdict, parse_verdict, storable
from scoring.models import Judgement

if TYPE_CHECKING:
    from scoring.batches import Lease
    from scoring.judge.reply import JudgeReply
    from scoring.models import ScoreBatch

logger = logging.getLogger(__name__)

RAW_CHARS: Final = 8_000
RETRIABLE: Final = {Reason.JUDGE_UNAVAILABLE.value, Reason.JUDGE_ERROR.value}
FAILURES_TO_OPEN: Final = 5
OPEN_FOR_S: Final = 10.0
LONGEST_BACKOFF: Final = 8
"""Rounds over which the pause doubles, and for which an outage is borne: hours, by default."""

PROBE_TIMEOUT_S: Final = 2.0
AWAY_STATUS: Final = {502, 503, 504, 529}
"""What a gateway says of a server that is not there; other statuses may be about /models alone."""

WORKER_LOST: Final = "its process died during the call, every time"


class PromptUnusable(JudgeError):
    """The skill's prompt file is missing or does not fit: an operator must act first."""


def configured() -> bool:
    """Whether a judge is configured; without one the signal is skipped."""
    return bool(settings.JUDGE_BASE_URL and settings.JUDGE_MODEL)


def config() -> JudgeConfig:
    """The judge of the settings. Raises ValueError on what can never work."""
    return JudgeConfig(
        base_url=settings.JUDGE_BASE_URL,
        model=settings.JUDGE_MODEL,
        api_key=SecretStr(settings.JUDGE_API_KEY) if settings.JUDGE_API_KEY else None,
        connect_timeout_s=settings.JUDGE_CONNECT_TIMEOUT_S,
        read_timeout_s=settings.JUDGE_READ_TIMEOUT_S,
        deadline_s=settings.JUDGE_DEADLINE_S,
        max_tries=settings.JUDGE_HTTP_TRIES,
        max_tokens=settings.JUDGE_MAX_TOKENS,
    )


def is_away() -> bool:
    """Whether one cheap probe (PROBE_TIMEOUT_S at most) finds nobody to ask."""
    try:
        probe = _bench(config()).client.probe(timeout_s=PROBE_TIMEOUT_S)
    except ValueError:
        logger.exception("judge.misconfigured")
        return True
    return not probe.reachable or probe.status in AWAY_STATUS


class Breaker:
    """Stops asking a server that is away: after a few failures in a row, for a few seconds.

    Per process, shared by its threads. Without it a run of thousands of rows would wait out every
    timeout of a dead server.
    """

    def __init__(self) -> None:
        self.failures = 0
        self.open_until = 0.0
        self._lock = threading.Lock()

    def is_open(self) -> bool:
        """Whether calls are to be left out now."""
        return time.monotonic() < self.open_until

    def record(self, *, unavailable: bool) -> None:
        """Count one call's end."""
        with self._lock:
            self.failures = self.failures + 1 if unavailable else 0
            if self.failures >= FAILURES_TO_OPEN:
                self.open_until = time.monotonic() + OPEN_FOR_S


@dataclass(frozen=True, slots=True)
class Bench:
    """What a process needs to judge: built once, shared by its threads."""

    config: JudgeConfig
    client: JudgeClient
    prompts: PromptLibrary
    breaker: Breaker


@lru_cache(maxsize=4)
def _bench(chosen: JudgeConfig) -> Bench:
    return Bench(
        config=chosen,
        client=JudgeClient(chosen),
        prompts=PromptLibrary(settings.PROMPTS_DIR),
        breaker=Breaker(),
    )


def score(lease: Lease) -> int:
    """Ask the judge about the open rows of a batch, least tried first; returns their number."""
    batch = lease.batch
    bench = _bench(config())
    rows = list(
        batches.rows_of(batch)
        .only("pk", "skill", "attempt_id", "shown_text", "llm_tries")
        .order_by("llm_tries", "pk")
    )
    scripts = dict(
        Attempt.objects.filter(pk__in={row.attempt_id for row in rows}).values_list("pk", "script")
    )
    for row in rows:
        batches.renew(lease)
        if bench.breaker.is_open():
            _leave_for_later(batch)
            break
        judge_row(row, script=scripts[row.attempt_id] or "", bench=bench, batch=batch)
    return len(rows)


def judge_row(row: Retrieval, *, script: str, bench: Bench, batch: ScoreBatch) -> None:
    """Ask about one retrieval of *batch*; store the answer, or the reason why there is none."""
    prompt = _prompt_for(row.skill, bench)  # before the count: what fails here cost no call
    unanswered = Retrieval.objects.filter(pk=row.pk, tip_followed_llm__isnull=True)
    counted = unanswered.filter(llm_tries__lt=settings.JUDGE_MAX_TRIES)
    if not counted.update(llm_tries=F("llm_tries") + 1):
        _give_up(row)
        return
    row.llm_tries += 1
    if isinstance(prompt, PromptUnusable):
        _store_failure(row, prompt, reply=None, prompt=None, bench=bench, batch=batch)
        return
    reply: JudgeReply | None = None
    try:
        messages = build_messages(prompt, tip=row.shown_text, script=script)
        reply = bench.client.ask(messages, schema=VERDICT_SCHEMA)
        verdict = parse_verdict(reply.content)
    except JudgeError as error:
        bench.breaker.record(unavailable=isinstance(error, JudgeUnavailable))
        _store_failure(row, error, reply=reply, prompt=prompt, bench=bench, batch=batch)
        return
    except Exception as error:  # a fault of ours is stored too, or the try could not be explained
        logger.exception("judge.fault", extra={"retrieval_id": row.pk})
        fault = JudgeError(f"the product failed ({type(error).__name__})", mend="see the log")
        _store_failure(row, fault, reply=reply, prompt=prompt, bench=bench, batch=batch)
        return
    bench.breaker.record(unavailable=False)
    _store_verdict(row, verdict, reply=reply, prompt=prompt)


def _prompt_for(skill: str, bench: Bench) -> JudgePrompt | PromptUnusable:
    try:
        return bench.prompts.for_skill(skill)
    except (ValueError, OSError) as error:  # PromptError is a ValueError
        return PromptUnusable(str(error), mend="mend the file: the row is asked again")


def _give_up(row: Retrieval) -> None:
    """No try is left. When no failure was stored, the process died in the call every time."""
    failures = Judgement.objects.filter(retrieval=row, followed__isnull=True).order_by("-pk")
    last = failures.values_list("reason", flat=True).first()
    unanswered = Retrieval.objects.filter(pk=row.pk, tip_followed_llm__isnull=True)
    if not unanswered.update(llm_reason=last or Reason.JUDGE_ERROR, llm_retry_at=None):
        return
    if last:
        logger.error("judge.out_of_tries", extra={"retrieval_id": row.pk, "reason": last})
    else:
        logger.error("judge.worker_lost", extra={"retrieval_id": row.pk, "cause": WORKER_LOST})


def _store_verdict(
    row: Retrieval, verdict: Verdict, *, reply: JudgeReply, prompt: JudgePrompt
) -> None:
    model = reply.served_model or reply.requested_model
    with transaction.atomic():
        written = Retrieval.objects.filter(pk=row.pk, tip_followed_llm__isnull=True).update(
            tip_followed_llm=verdict.followed,
            tip_followed_computed_at=Now(),
            llm_source=f"{model[:120]}@{prompt.sha256}",
            llm_reason="",
            llm_retry_at=None,
        )
        if written:
            Judgement.objects.create(
                retrieval=row,
                followed=verdict.followed,
                reasoning=verdict.reasoning,
                **_facts(reply, prompt),
            )


def _store_failure(
    row: Retrieval,
    error: JudgeError,
    *,
    reply: JudgeReply | None,
    prompt: JudgePrompt | None,
    bench: Bench,
    batch: ScoreBatch,
) -> None:
    # an outage is not the row's fault: the same few rows are asked first each time, and would be
    # out of tries after minutes
    away = isinstance(error, (JudgeUnavailable, PromptUnusable))
    excused = away and batch.round <= LONGEST_BACKOFF
    delay = _time_to_next_try(row, error, batch=batch, excused=excused)
    facts = (
        _facts(reply, prompt)
        if reply and prompt
        else {
            "requested_model": bench.config.model,
            "prompt_sha256": prompt.sha256 if prompt else "",
            "http_tries": error.tries,
            "raw_reply": storable(error.provider_text)[:RAW_CHARS],
        }
    )
    with transaction.atomic():
        written = Retrieval.objects.filter(pk=row.pk, tip_followed_llm__isnull=True).update(
            llm_reason=error.reason,
            llm_retry_at=None if delay is None else Now() + delay,
            llm_tries=F("llm_tries") - int(excused),
        )
        if written:
            Judgement.objects.create(
                retrieval=row,
                reason=error.reason,
                error=storable(f"{type(error).__name__}: {error}")[:500],
                **facts,
            )


def _time_to_next_try(
    row: Retrieval, error: JudgeError, *, batch: ScoreBatch, excused: bool
) -> timedelta | None:
    """None: not again. An excused failure is counted by the run's rounds, not by the row's tries."""
    out_of_tries = not excused and row.llm_tries >= settings.JUDGE_MAX_TRIES
    if error.reason not in RETRIABLE or out_of_tries:
        return None
    failures = batch.round if excused else row.llm_tries
    return timedelta(seconds=retry_delay(failures, of=batch, asked_for=error.retry_after_s))


def _facts(reply: JudgeReply, prompt: JudgePrompt) -> dict[str, object]:
    return {
        "requested_model": reply.requested_model[:200],
        "served_model": storable(reply.served_model or "")[:200],
        "system_fingerprint": storable(reply.system_fingerprint or "")[:200],
        "prompt_sha256": prompt.sha256,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "latency_s": reply.latency_s,
        "http_tries": reply.tries,
        "raw_reply": reply.raw[:RAW_CHARS],
    }


def _leave_for_later(batch: ScoreBatch) -> None:
    """The breaker is open: no call, no try counted; asked again later, and later each round."""
    delay = retry_delay(batch.round, of=batch)
    batches.rows_of(batch).update(
        llm_reason=Reason.JUDGE_UNAVAILABLE,
        llm_retry_at=Now() + timedelta(seconds=delay),
    )


def retry_delay(failures: int, *, of: ScoreBatch, asked_for: float | None = None) -> float:
    """Seconds until a failed row is asked again: doubled each time, jittered, never sooner than asked.

    Rows that fail in one round of a run have one jitter, so that their retries make one round too;
    with a jitter each they made a round per sweep, and the pauses grew by rounds that had one row.
    """
    longest: float = settings.JUDGE_RETRY_AFTER_S * 2 ** (min(failures, LONGEST_BACKOFF) - 1)
    dice = random.Random(f"{of.run_id}/{of.round}")  # noqa: S311 - spreads load, guards nothing
    return max(longest * dice.uniform(0.5, 1.0), asked_for or 0.0)
