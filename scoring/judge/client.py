"""Questions to the judge: any server that speaks OpenAI's ``/v1/chat/completions`` (vLLM first).

One call of `JudgeClient.ask` returns the text of one finished choice, or raises a `JudgeError`
(the tree is drawn in ``scoring.judge.errors``, the statuses in ``scoring.judge.statuses``). This is
the only retry layer: bounded by the call's budget (tries, seconds, tokens), full jitter on top of
what ``Retry-After`` asks for. Whether the text is a verdict is the business of
``scoring.judge.verdict``; how one request is sent, and ended in time, that of
``scoring.judge.transport``; how many run at once, whether anything is asked after an error that
pauses, and when a question is put again, that of the caller. Keys, requests and replies are never
logged.

Shaped by retry layers stacked on each other (4 x 4 calls for one question), by instant retries
that tripled a gateway's 429s, and by calls that hung for ten minutes on a default timeout.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import time
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from tenacity import RetryCallState, Retrying, retry_if_exception

from scoring.judge.config import CallBudget, JudgeConfig
from scoring.judge.decoding import storable
from scoring.judge.errors import JudgeError, JudgeTimeout
from scoring.judge.reply import JudgeReply, json_object, read_body, text_of
from scoring.judge.statuses import row_of
from scoring.judge.transport import JudgeSession, Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    import requests

    from scoring.judge.transport import Answer, Prepared

__all__ = ["CallBudget", "JudgeClient", "JudgeConfig", "JudgeProbe"]

MAX_ERROR_BYTES: Final = 65_536
MAX_PROVIDER_CHARS: Final = 500
MAX_RETRY_AFTER_S: Final = 86_400.0
"""A server may send us away for a day; for longer, it is an operator's business."""
BACKOFF_BASE_S: Final = 0.5
BACKOFF_CAP_S: Final = 20.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JudgeProbe:
    """What ``GET /v1/models`` says. ``problem`` is empty when the judge can be used."""

    reachable: bool
    status: int | None
    models: tuple[str, ...]
    lists_model: bool
    problem: str


@dataclass(slots=True)
class _Call:
    """One call under way: what it may cost, when it must be over, requests sent so far."""

    budget: CallBudget
    ends_at: float
    sent: int = 0


class JudgeClient:
    """Asks one server. Safe to share between threads: each thread gets its own session.

    ``new_session``, ``sleep``, ``clock`` (monotonic seconds), ``wall_clock`` (epoch seconds) and
    ``jitter(low, high)`` are seams. A fork gets new sessions, so that no socket is shared.
    Close it, or use it as a context manager, when no call is running.
    """

    def __init__(
        self,
        config: JudgeConfig,
        *,
        new_session: Callable[[], requests.Session] = JudgeSession,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.config = config
        self._sleep, self._clock, self._wall_clock = sleep, clock, wall_clock
        self._jitter = jitter
        self._transport = Transport(config, new_session=new_session, clock=clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the sessions of all threads; a later call opens a new one."""
        self._transport.close()

    def ask(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        schema: Mapping[str, object],
        schema_name: str = "verdicts",
        budget: CallBudget | None = None,
        turn: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> JudgeReply:
        """Send one question and return the text of its answer; raises a `JudgeError`.

        ``budget`` is that of the configuration unless given. Each try, and no pause between two,
        runs inside a ``turn()`` of its own, which sees the error of the exchange (a 200 that nobody
        can read is read after it, and is none); waiting for a turn is not on the budget. The error
        carries ``tries`` and, where there are some, ``retry_after_s`` and what a 200 that cannot be
        used had cost (``received``).
        """
        budget = budget or self.config.budget
        payload = self._payload(messages, schema, schema_name, budget.max_tokens)
        call = _Call(budget, self._clock() + budget.deadline_s)
        try:
            prepared = self._transport.prepared("POST", "/chat/completions", payload)
            for attempt in Retrying(
                sleep=self._sleep,
                wait=self._pause,
                stop=partial(self._gives_up, call),
                retry=retry_if_exception(_is_retryable),
                before_sleep=_log_retry,
                reraise=True,
            ):
                with attempt:
                    return self._try(call, prepared, turn)
        except JudgeError as exc:
            exc.tries = call.sent
            raise
        raise AssertionError("tenacity ended a loop without result or error")

    def _try(
        self, call: _Call, prepared: Prepared, turn: Callable[[], AbstractContextManager[object]]
    ) -> JudgeReply:
        wanted_at = self._clock()
        left = call.ends_at - wanted_at
        if left <= 0:
            raise JudgeTimeout("the deadline of the call passed before it could be sent")
        with turn():
            call.ends_at += self._clock() - wanted_at
            call.sent += 1
            answer = self._transport.exchange(prepared, within_s=left)
            if answer.status != 200:
                raise self._refusal(answer, sent=prepared.payload)
        return read_body(  # the turn is over: the server has answered, whatever it said
            answer.body,
            whole=answer.whole,
            raw=self._shown(answer.body),
            requested_model=self.config.model,
            latency_s=answer.seconds,
            tries=call.sent,
        )

    def _gives_up(self, call: _Call, state: RetryCallState) -> bool:
        too_late = self._clock() + state.upcoming_sleep >= call.ends_at
        return state.attempt_number >= call.budget.tries or too_late

    def probe(self, *, timeout_s: float = 3.0) -> JudgeProbe:
        """Ask once which models are served, within ``timeout_s``; no `JudgeError` leaves."""
        status: int | None = None
        models: tuple[str, ...] = ()
        try:
            asked = self._transport.prepared("GET", "/models", None)
            answer = self._transport.exchange(asked, within_s=timeout_s)
            status = answer.status
            if status != 200:
                raise self._refusal(answer)
            models = _model_names(json_object(answer.body))
        except JudgeError as exc:
            problem = str(exc)
        else:
            listed = self.config.model in models
            problem = "" if listed else f"the server does not list {self.config.model!r}"
        return JudgeProbe(
            reachable=status is not None,
            status=status,
            models=models,
            lists_model=self.config.model in models,
            problem=problem,
        )

    def _payload(
        self,
        messages: Sequence[Mapping[str, object]],
        schema: Mapping[str, object],
        name: str,
        max_tokens: int,
    ) -> bytes:
        request = {
            "model": self.config.model,
            "messages": [dict(message) for message in messages],
            **self.config.sampling(max_tokens),
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": name, "schema": dict(schema), "strict": True},
            },
        }
        return json.dumps(request).encode("ascii")

    def _refusal(self, answer: Answer, *, sent: bytes = b"") -> JudgeError:
        """What an answer that is not 200 means."""
        said = self._shown(answer.body[:MAX_ERROR_BYTES])
        pause = self._retry_after(answer.retry_after)
        row = row_of(answer.status, body=said, sent=sent.decode("ascii"), retry_after_s=pause)
        return row.error(
            f"the judge server answered {answer.status}",
            mend=row.mend,
            status=answer.status,
            retry_after_s=pause,
            provider_text=said[:MAX_PROVIDER_CHARS],
        )

    def _shown(self, body: bytes) -> str:
        """Return the body as text that can be stored; some servers echo the key they were sent."""
        text = storable(body.decode("utf-8", errors="replace"))
        key = self.config.api_key
        return text if key is None else text.replace(key.get_secret_value(), "[key]")

    def _pause(self, state: RetryCallState) -> float:
        """Full jitter, on top of what the server asked for: it must not get all of us at once."""
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after_s if isinstance(error, JudgeError) else None
        ceiling = min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2.0 ** (state.attempt_number - 1))
        return (asked or 0.0) + self._jitter(0.0, ceiling)

    def _retry_after(self, header: str | None) -> float | None:
        """Seconds from now, from either form of the header (RFC 9110 10.2.3); None if neither."""
        value = (header or "").strip()
        if value.isascii() and value.isdigit():
            return min(float(value), MAX_RETRY_AFTER_S)
        with contextlib.suppress(ValueError, OverflowError):
            when = parsedate_to_datetime(value)
            when = when if when.tzinfo else when.replace(tzinfo=UTC)
            return min(max(0.0, when.timestamp() - self._wall_clock()), MAX_RETRY_AFTER_S)
        return None


def _model_names(body: Mapping[str, object]) -> tuple[str, ...]:
    cards = body.get("data")
    if not isinstance(cards, list):
        return ()
    names = (text_of(card.get("id")) for card in cards if isinstance(card, dict))
    return tuple(name for name in names if name)


def _log_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    _log.info(
        "judge call failed (%s); try %d, next in %.1f s",
        type(error).__name__,
        state.attempt_number,
        state.upcoming_sleep,
    )


def _is_retryable(error: BaseException) -> bool:
    return isinstance(error, JudgeError) and error.retryable
