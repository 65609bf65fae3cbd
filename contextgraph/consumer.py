"""The intake process: takes messages from the queue, stores runs, acknowledges afterwards.

Guarantees: a message is acknowledged only when its runs, its part, or its refusal are committed, so a
kill at any moment loses nothing and repeats at most a no-op. A bad message is stored as rejected and
the next one is taken. A database that is away is no bad message: nothing is acknowledged, the
connection is closed so that the broker keeps the messages, and work resumes when it is back. A broker
that is away is asked again for ever. SIGTERM finishes the message in hand.

Does not guarantee order, nor that scoring starts at once: the announcement is a hint.

Shaped by: a consumer inside a worker's event loop, where one exception killed the worker and the
message came back with the restart.
"""

from __future__ import annotations

import logging
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections
from kombu.mixins import ConsumerMixin

from contextgraph.celery import app
from contextgraph.client import intake_queue
from contextgraph.intake_transport import IntakeConnection
from contextgraph.outage import database_is_away, wait_for_database
from contextgraph.refusals import Reason, Refusal
from contextgraph.rejected import handled_or_refused, reject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

PREFETCH: Final = 8
"""Messages held unacknowledged: at most 8 MiB of bodies."""

HEARTBEAT_S: Final = 5.0
HEARTBEAT_FILE: Final = settings.STATE_DIR / "consumer.alive"
"""Touched while the loop turns, for container health checks; a stuck consumer has an old one."""

DRAIN_IDLE_S: Final = 1.5
RECONNECT: Final = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 3.0}


class DatabaseAway(Exception):
    """The message in hand waits for the database."""


class Stopped(Exception):
    """Asked to stop while there was no broker to be disconnected from."""


def announce_dispatch(run_id: int) -> None:
    """Hint that a run waits for scoring. When it fails, the reaper finds the run.

    By name: this process stores runs, and need not load what scores them.
    """
    app.send_task("contextgraph.dispatch_run", args=(run_id,), ignore_result=True)


def transport_options(broker_url: str) -> dict[str, Any]:
    """Options of the consuming connection. On Redis its unacknowledged messages have keys of their
    own, because the workers that share the server use another redelivery time."""
    if not broker_url.startswith(("redis", "rediss", "sentinel")):
        return {}
    return {
        "visibility_timeout": settings.INTAKE_REDELIVER_AFTER_S,
        "unacked_restore_throttle": 1,  # look at every idle second, not at every tenth
        "unacked_key": "contextgraph_intake_unacked",
        "unacked_index_key": "contextgraph_intake_unacked_index",
        "unacked_mutex_key": "contextgraph_intake_unacked_mutex",
    }


class RunConsumer(ConsumerMixin):
    """Consumes one queue until it is stopped.

    Args:
        limit: stop after so many messages.
        drain: stop when the queue has been empty for a moment.
        announce: called with each new run's primary key after its commit.
    """

    def __init__(
        self,
        *,
        broker_url: str | None = None,
        queue: str | None = None,
        limit: int | None = None,
        drain: bool = False,
        announce: Callable[[int], None] | None = announce_dispatch,
    ) -> None:
        url = broker_url or settings.CELERY_BROKER_URL
        self.connection = IntakeConnection(url, transport_options=transport_options(url))
        self.queue = intake_queue(queue or settings.INTAKE_QUEUE)
        self.handled = 0
        self.refused = 0
        self._limit = limit
        self._drain = drain
        self._announce = announce
        self._last_message = time.monotonic()
        self._last_heartbeat = 0.0

    # -- running --

    def run(self, **kwargs: Any) -> None:
        """Consume until :meth:`stop`, the limit, or the end of the queue."""
        while not self.should_stop:
            try:
                super().run(**kwargs)
            except DatabaseAway:
                if wait_for_database(lambda: self.should_stop):
                    self._last_message = time.monotonic()
            except Stopped:
                break
        logger.info("consumer.stopped after %d messages, %d refused", self.handled, self.refused)

    def stop(self, *_args: Any) -> None:
        """Finish the message in hand, then return from :meth:`run`. Usable as a signal handler."""
        self.should_stop = True

    def stop_on_signals(self) -> None:
        """SIGTERM and SIGINT call :meth:`stop`."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.stop)

    # -- kombu's hooks --

    @contextmanager
    def establish_connection(self) -> Iterator[Any]:
        """Wait for the broker for ever, in steps short enough to notice a stop."""
        with self.create_connection() as connection:
            connection.ensure_connection(self.on_connection_error, **RECONNECT)
            yield connection

    def on_connection_error(self, exc: Exception, interval: float) -> None:
        """Say that the broker is away; it is asked again after *interval* seconds."""
        if self.should_stop:
            raise Stopped
        logger.warning("consumer.broker_away: %s; next try in %.1f s", exc, interval)

    def get_consumers(self, consumer: Any, channel: Any) -> list[Any]:
        """One consumer, raw bodies, acknowledgement by hand."""
        return [
            consumer(
                queues=[self.queue],
                on_message=self.on_message,
                prefetch_count=PREFETCH,
                accept=["json"],
            )
        ]

    def on_consume_ready(self, connection: Any, channel: Any, consumers: Any, **_kw: Any) -> None:
        """Start counting idle time only once messages can come."""
        self._last_message = time.monotonic()
        logger.info("consumer.ready on %s at %s", self.queue.name, connection.as_uri())

    def on_iteration(self) -> None:
        """Show that the loop turns; stop draining when nothing has come for a moment."""
        if time.monotonic() - self._last_heartbeat > HEARTBEAT_S:
            self._last_heartbeat = time.monotonic()
            with suppress(OSError):  # a read-only disk must not stop intake
                HEARTBEAT_FILE.touch()
        if self._drain and time.monotonic() - self._last_message > DRAIN_IDLE_S:
            self.should_stop = True

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """kombu could not make the body bytes."""
        self._take(message, Refusal(Reason.NOT_JSON, f"undecodable body: {exc}"))

    def on_message(self, message: Any) -> None:
        """Store what *message* carries, then acknowledge it.

        Raises:
            DatabaseAway: nothing was stored and nothing acknowledged.
        """
        self._take(message, None)

    # -- one message --

    def _take(self, message: Any, refusal: Refusal | None) -> None:
        if self.should_stop:
            return  # prefetched; the broker gives it to the next consumer
        body = _raw_body(message)
        content_type, headers = str(message.content_type or ""), _headers(message)
        close_old_connections()
        try:
            try:
                if refusal is not None:
                    raise refusal
                handled_or_refused(
                    body, content_type=content_type, headers=headers, announce=self._announce
                )
            except Refusal as why:
                self.refused += 1
                reject(
                    why,
                    body=body,
                    content_type=content_type,
                    headers=headers,
                    redelivered=_redelivered(message),
                )
        except DatabaseError as error:
            if not database_is_away(error):
                raise
            logger.warning("consumer.database_away: %s", str(error).strip().split("\n")[0])
            raise DatabaseAway from error
        message.ack()
        self.handled += 1
        self._last_message = time.monotonic()
        if self._limit is not None and self.handled >= self._limit:
            self.should_stop = True


def _raw_body(message: Any) -> bytes:
    body = message.body
    if isinstance(body, memoryview):
        return body.tobytes()
    if isinstance(body, str):  # AMQP without a content encoding
        return body.encode("utf-8", "surrogatepass")
    return bytes(body or b"")


def _headers(message: Any) -> dict[str, Any]:
    headers = dict(message.headers) if isinstance(message.headers, dict) else {}
    if message.content_encoding:
        headers.setdefault("content-encoding", message.content_encoding)
    return headers


def _redelivered(message: Any) -> bool:
    info = message.delivery_info if isinstance(message.delivery_info, dict) else {}
    headers = message.headers if isinstance(message.headers, dict) else {}
    return bool(info.get("redelivered") or headers.get("redelivered"))
