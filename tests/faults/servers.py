"""The servers below a system under test: a pair of our own, or RabbitMQ and Redis named from outside.

Guarantees: the embedded pair is one that only the fault tests use, with the durability of production,
so it may be killed and emptied at will; of the named services only the queues of this product and the
database of the results are emptied, and none is killed.

Does not isolate two test runs on the same named services from each other.
Shaped by tests that flushed a server which somebody else was using.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil
import redis
from kombu import Connection

from contextgraph import embedded
from contextgraph.celery import QUEUES
from contextgraph.client import DEFAULT_QUEUE
from contextgraph.embedded.location import STATE_DIR_ENV
from tests.faults.programs import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

AMQP_ENV, REDIS_ENV = "CONTEXTGRAPH_TEST_AMQP_URL", "CONTEXTGRAPH_TEST_REDIS_URL"


class EmbeddedServers:
    """Postgres and Valkey of a throw-away checkout."""

    kind = "embedded"
    intake_queue = DEFAULT_QUEUE

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="cg-faults-"))
        self.root.chmod(0o755)  # the server account of a root run must pass
        self.start()
        with self._own_state():
            found = embedded.endpoints(self.root)
        self.template_url = found.database_url
        self.broker_url, self.result_backend = found.broker_url, found.result_backend

    @contextlib.contextmanager
    def _own_state(self) -> Iterator[None]:
        """The test run has a pair of its own, named by the same variable."""
        before = os.environ.get(STATE_DIR_ENV)
        os.environ[STATE_DIR_ENV] = str(self.root / ".contextgraph")
        try:
            yield
        finally:
            os.environ.pop(STATE_DIR_ENV)
            if before is not None:
                os.environ[STATE_DIR_ENV] = before

    def start(self) -> None:
        """As every command does at its start."""
        with self._own_state():
            embedded.ensure_started(self.root)

    def remove(self) -> None:
        """Stop and delete."""
        with self._own_state():
            embedded.remove(self.root)
        shutil.rmtree(self.root, ignore_errors=True)

    def kill(self, *names: str) -> None:
        """SIGKILL the main process of ``postgres`` and / or ``valkey``; nothing is restarted."""
        with self._own_state():
            status = embedded.status(self.root)
        for name in names:
            pid = getattr(status, name).pid
            assert pid is not None, f"{name} does not run"
            process = psutil.Process(pid)
            process.send_signal(signal.SIGKILL)
            wait_until(
                lambda process=process: (
                    not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
                ),
                within=5,
                what=f"the end of {name}",
            )

    def wipe_broker(self) -> None:
        """Delete every message, also those in the hands of workers, and kombu's own keys."""
        _redis(self.broker_url).flushdb()

    def wipe_results(self) -> None:
        """Delete every result and every chord's counter."""
        _redis(self.result_backend).flushdb()

    def waiting(self, queue: str) -> int:
        """Messages in *queue*, those in the hands of a worker left out."""
        return int(_redis(self.broker_url).llen(queue))  # type: ignore[arg-type]


class ServiceServers(EmbeddedServers):
    """RabbitMQ as broker, Redis as result store; Postgres stays embedded."""

    kind = "services"
    intake_queue = "contextgraph.runs.faults"

    def __init__(self, amqp_url: str, redis_url: str) -> None:
        super().__init__()
        self.broker_url = amqp_url
        self.result_backend = urlsplit(redis_url)._replace(path="/1").geturl()

    def wipe_broker(self) -> None:
        """Purge the queues; what a worker holds stays with it, as RabbitMQ has it."""
        with Connection(self.broker_url) as connection:
            for name in (*QUEUES, self.intake_queue):
                with (
                    contextlib.suppress(*connection.channel_errors),
                    connection.channel() as channel,
                ):
                    channel.queue_purge(name)

    def waiting(self, queue: str) -> int:
        """Messages in *queue* that no worker holds."""
        with Connection(self.broker_url) as connection, connection.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).message_count)


def _redis(url: str) -> redis.Redis:
    parts = urlsplit(url)
    if parts.scheme == "redis+socket":
        database = int(parts.query.partition("virtual_host=")[2] or 0)
        return redis.Redis(unix_socket_path=parts.path, db=database)
    return redis.Redis.from_url(url)
