"""HTTP to the judge: any server that speaks OpenAI's ``/v1/chat/completions`` (vLLM first).

One call of `JudgeClient.ask` returns the text of one finished choice, or raises a `JudgeError`
(the tree is drawn in ``scoring.judge.errors``, the statuses in ``scoring.judge.statuses``). This is
the only retry layer: bounded by the call's budget (tries, seconds, tokens), full jitter on top of
what ``Retry-After`` asks for. Whether the text is a verdict is the business of
``scoring.judge.verdict``; how many calls run at once, whether anything is asked after an error that
pauses, and when a question is put again, that of the caller. Keys, requests and replies are never
logged.

Shaped by retry layers stacked on each other (4 x 4 calls for one question), by instant retries
that tripled a gateway's 429s, and by calls that hung for ten minutes on a default timeout.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import threading
import time
import weakref
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, Self

import requests
import requests.auth
import urllib3.exceptions
from tenacity import RetryCallState, Retrying, retry_if_exception

from scoring.judge.config import CallBudget, JudgeConfig
from scoring.judge.decoding import storable
from scoring.judge.errors import (
    JudgeError,
    JudgeMisconfigured,
    JudgeTimeout,
    JudgeUnreachable,
    ReplyTooLarge,
)
from scoring.judge.reply import JudgeReply, json_object, read_reply, text_of
from scoring.judge.statuses import row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from pydantic import SecretStr

__all__ = ["CallBudget", "JudgeClient", "JudgeConfig", "JudgeProbe"]

MAX_BODY_BYTES: Final = 1_048_576
"""Bytes of a reply that are read at most; a verdict needs about a thousand."""
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


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    retry_after: str | None
    body: bytes
    seconds: float


class _Bearer(requests.auth.AuthBase):
    """Sets our key or none: without an explicit auth, requests would send a ~/.netrc password."""

    def __init__(self, key: SecretStr | None) -> None:
        self._key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._key is not None:
            request.headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        return request


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
        new_session: Callable[[], requests.Session] = requests.Session,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.config = config
        self._new_session = new_session
        self._sleep, self._clock, self._wall_clock = sleep, clock, wall_clock
        self._jitter = jitter
        self._local = threading.local()
        self._sessions: weakref.WeakSet[requests.Session] = weakref.WeakSet()

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
        for session in list(self._sessions):
            session.close()
        self._local = threading.local()

    def ask(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        schema: Mapping[str, object],
        schema_name: str = "verdicts",
        budget: CallBudget | None = None,
    ) -> JudgeReply:
        """Send one question and return the text of its answer; raises a `JudgeError`.

        ``budget`` is that of the configuration unless given. The error carries ``tries`` and, where
        the server gave one, ``retry_after_s``.
        """
        budget = budget or self.config.budget
        payload = self._payload(messages, schema, schema_name, budget.max_tokens)
        deadline_at = self._clock() + budget.deadline_s

        def give_up(state: RetryCallState) -> bool:
            too_late = self._clock() + state.upcoming_sleep >= deadline_at
            return state.attempt_number >= budget.tries or too_late

        sent = 0
        try:
            for attempt in Retrying(
                sleep=self._sleep,
                wait=self._pause,
                stop=give_up,
                retry=retry_if_exception(_is_retryable),
                before_sleep=_log_retry,
                reraise=True,
            ):
                with attempt:
                    sent += 1
                    answer = self._exchange("POST", "/chat/completions", payload, deadline_at)
                    return read_reply(
                        self._object(answer, sent=payload),
                        raw=self._shown(answer.body),
                        requested_model=self.config.model,
                        latency_s=answer.seconds,
                        tries=sent,
                    )
        except JudgeError as exc:
            exc.tries = sent
            raise
        raise AssertionError("tenacity ended a loop without result or error")

    def probe(self, *, timeout_s: float = 3.0) -> JudgeProbe:
        """Ask once which models are served, within about ``timeout_s``; no `JudgeError` leaves."""
        status: int | None = None
        models: tuple[str, ...] = ()
        try:
            answer = self._exchange("GET", "/models", None, self._clock() + timeout_s)
            status = answer.status
            models = _model_names(self._object(answer))
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

    def _session(self) -> requests.Session:
        pid = os.getpid()
        if getattr(self._local, "pid", None) != pid:
            session = self._new_session()
            session.auth = _Bearer(self.config.api_key)
            session.headers["User-Agent"] = "contextgraph-judge"
            session.headers["Accept-Encoding"] = "identity"  # replies are small
            self._sessions.add(session)
            self._local.session, self._local.pid = session, pid
        found: requests.Session = self._local.session
        return found

    def _exchange(
        self, method: str, path: str, payload: bytes | None, deadline_at: float
    ) -> _Answer:
        """Send one request and read its body, or raise what the connection did."""
        started = self._clock()
        left = deadline_at - started
        if left <= 0:
            raise JudgeTimeout("the deadline of the call passed before it could be sent")
        config = self.config
        limits = (min(config.connect_timeout_s, left), min(config.read_timeout_s, left))
        try:
            with self._session().request(
                method,
                config.api_root + path,
                data=payload,
                headers={"Content-Type": "application/json"} if payload is not None else None,
                timeout=limits,
                allow_redirects=False,
                stream=True,
            ) as response:
                body = self._body(response, deadline_at)
                pause = response.headers.get("Retry-After")
                return _Answer(response.status_code, pause, body, self._clock() - started)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as exc:
            raise _transport_error(exc) from exc

    def _body(self, response: requests.Response, deadline_at: float) -> bytes:
        """Read piece by piece: one ``read`` would wait for a slow server beyond the deadline."""
        body = bytearray()
        while piece := response.raw.read1(65_536, decode_content=True):
            body += piece
            if len(body) > MAX_BODY_BYTES:
                if response.status_code != 200:
                    break  # the status says it all
                raise ReplyTooLarge(f"the reply is larger than {MAX_BODY_BYTES} bytes", status=200)
            if self._clock() >= deadline_at:
                raise JudgeTimeout("the reply was not whole when the deadline of the call passed")
        return bytes(body)

    def _object(self, answer: _Answer, *, sent: bytes | None = None) -> dict[str, object]:
        """Return the JSON object of a 200, or raise what the status or the body means."""
        if answer.status == 200:
            return json_object(answer.body)
        said = self._shown(answer.body[:MAX_ERROR_BYTES])
        row = row_of(answer.status, body=said, sent=(sent or b"").decode("ascii"))
        raise row.error(
            f"the judge server answered {answer.status}",
            mend=row.mend,
            status=answer.status,
            retry_after_s=self._retry_after(answer.retry_after),
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


def _transport_error(exc: Exception) -> JudgeError:
    """Name what the connection did. The texts of requests hold addresses, so none is quoted."""
    if isinstance(exc, requests.exceptions.SSLError | urllib3.exceptions.SSLError):
        return JudgeMisconfigured("the certificate of the judge server is not accepted")
    timeouts = (requests.Timeout, urllib3.exceptions.TimeoutError)
    if isinstance(exc, timeouts):
        return JudgeTimeout("the judge server did not answer in time")
    return JudgeUnreachable(
        f"the connection to the judge server failed ({type(exc).__name__})",
        mend="check JUDGE_BASE_URL and that the server runs",
    )


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
