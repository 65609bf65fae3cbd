"""The intake process against a real broker and a real database, both of which go away at times."""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from django.db import connection
from kombu import Connection, Producer

from contextgraph.client import RunPublisher, intake_queue
from contextgraph.consumer import RunConsumer
from contextgraph.models import RejectedMessage
from memory.models import Retrieval, Run
from tests.contextgraph.run_documents import body_of, envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

pytestmark = pytest.mark.django_db(transaction=True)

QUEUE = "contextgraph.runs"
CHECKOUT = Path(__file__).resolve().parents[2]
UNACKED = "contextgraph_intake_unacked"


def raw_redis(url: str) -> redis.Redis:
    return Connection(url).default_channel.client


def publish(url: str, body: Any, **properties: Any) -> None:
    """Post as a foreign producer would, with kombu but without our client."""
    with Connection(url) as link:
        queue = intake_queue(QUEUE)(link.default_channel)
        queue.declare()
        Producer(link.default_channel).publish(body, routing_key=QUEUE, **properties)


def consume(limit: int, **options: Any) -> RunConsumer:
    consumer = RunConsumer(limit=limit, announce=None, **options)
    guard = threading.Timer(30, consumer.stop)
    guard.start()
    try:
        consumer.run()
    finally:
        guard.cancel()
    return consumer


def left_in(url: str) -> int:
    client = raw_redis(url)
    return int(client.llen(QUEUE)) + int(client.hlen(UNACKED))


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@contextmanager
def running(**options: Any) -> Iterator[RunConsumer]:
    """A consumer in a thread of its own."""
    consumer = RunConsumer(announce=None, **options)

    def work() -> None:
        try:
            consumer.run()
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield consumer
    finally:
        consumer.stop()
        thread.join(timeout=20)
        assert not thread.is_alive()


# --- good messages --------------------------------------------------------------------------------


def test_it_stores_documents_and_acknowledges_them(broker):
    with RunPublisher(broker) as publisher:
        publisher.post(envelope("night-1"))
    publish(broker, envelope("night-2"), serializer="json")
    consumer = consume(2)
    assert set(Run.objects.values_list("external_id", flat=True)) == {"night-1", "night-2"}
    assert (consumer.handled, consumer.refused, left_in(broker)) == (2, 0, 0)


def test_it_announces_each_new_run_to_the_control_queue(broker):
    publish(broker, envelope(), serializer="json")
    RunConsumer(limit=1).run()
    [item] = raw_redis(broker).lrange("control", 0, -1)
    message = json.loads(item)
    assert message["headers"]["task"] == "contextgraph.dispatch_run"
    assert json.loads(base64.b64decode(message["body"]))[0] == [Run.objects.get().pk]


def test_a_message_posted_twice_is_one_run(broker):
    for _ in range(2):
        publish(broker, envelope(), serializer="json")
        with RunPublisher(broker) as publisher:
            publisher.post(envelope())
    assert consume(4).refused == 0
    assert (Run.objects.count(), Retrieval.objects.count()) == (1, 4)


def test_a_bare_lpush_of_an_envelope_is_welcome(broker):
    raw_redis(broker).lpush(QUEUE, body_of(envelope()))
    consume(1)
    assert Run.objects.get().external_id == "night-1"
    assert left_in(broker) == 0


def test_draining_ends_when_the_queue_is_empty(broker):
    publish(broker, envelope(), serializer="json")
    consumer = RunConsumer(drain=True, announce=None)
    consumer.run()
    assert consumer.handled == 1


# --- bad messages ---------------------------------------------------------------------------------


def kombu_item(**changes: Any) -> bytes:
    """An item as kombu would push it, with parts changed or, when None, missing."""
    message = {
        "body": base64.b64encode(body_of(envelope("never"))).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {},
        "properties": {
            "delivery_tag": "a-tag",
            "delivery_info": {"exchange": "", "routing_key": QUEUE},
            "body_encoding": "base64",
        },
    } | changes
    return json.dumps({key: value for key, value in message.items() if value is not None}).encode()


NESTED: Any = []
for _ in range(60):
    NESTED = [NESTED]

FOREIGN = {
    "garbage": b"\xff\xfe not json",
    "empty": b"",
    "a number": b"7",
    "other json": b'{"hello": 1}',
    "no properties": kombu_item(properties=None),
    "no delivery info": kombu_item(properties={"delivery_tag": "x", "body_encoding": "base64"}),
    "no body": kombu_item(body=None),
    "broken base64": kombu_item(body="@@@="),
    "typed value that does not decode": kombu_item(
        headers={"__type__": "uuid", "__value__": {"hex": "zz"}}
    ),
    "deep headers": kombu_item(headers={"deep": NESTED}),
    "headers that are no map": kombu_item(headers=[1]),
    "compression bomb": kombu_item(
        body=base64.b64encode(zlib.compress(b" " * 50_000_000)).decode(),
        headers={"compression": "application/x-gzip"},
    ),
    "wrong content type": kombu_item(**{"content-type": "application/x-python-serialize"}),
    "content type that is no text": kombu_item(**{"content-type": {"a": 1}}),
}


def test_whatever_stands_in_the_queue_is_kept_as_rejected_and_the_next_one_is_taken(broker):
    for item in FOREIGN.values():
        raw_redis(broker).lpush(QUEUE, item)
    publish(broker, envelope(), serializer="json")
    consumer = consume(len(FOREIGN) + 1)
    assert consumer.refused == len(FOREIGN)
    assert Run.objects.get().external_id == "night-1"
    assert RejectedMessage.objects.count() == len(FOREIGN)
    assert left_in(broker) == 0
    assert bytes(RejectedMessage.objects.order_by("pk")[0].body) == FOREIGN["garbage"]


class Trap:
    """Unpickling this makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_pickle_is_stored_and_never_opened(broker, tmp_path):
    body = pickle.dumps(Trap(tmp_path / "sprung"))
    publish(broker, body, content_type="application/x-python-serialize", content_encoding="binary")
    consume(1)
    row = RejectedMessage.objects.get()
    assert (row.reason, row.content_type) == ("content_type", "application/x-python-serialize")
    assert bytes(row.body) == body
    assert not (tmp_path / "sprung").exists()


def test_an_error_of_ours_is_kept_with_its_place_and_does_not_stop_the_queue(
    broker, settings, tmp_path
):
    publish(broker, envelope("night-1"), serializer="json", headers={"document": "d1"})
    settings.PROMPTS_DIR = tmp_path  # no skill can be graded
    consume(1)
    row = RejectedMessage.objects.get()
    assert row.reason == "internal"
    assert "SkillError" in row.detail
    assert "skill.toml" in row.detail
    assert row.headers["document"] == "d1"
    assert not Run.objects.exists()


# --- servers that go away -------------------------------------------------------------------------


@contextmanager
def database_closed() -> Iterator[None]:
    """Nobody gets into the test's database, and who is in is thrown out."""
    facts = connection.get_connection_params()
    name = facts["dbname"]
    connection.close()
    address = {"host": facts["host"], "user": facts["user"], "dbname": "postgres"}
    with psycopg.connect(**address, autocommit=True) as outside:
        outside.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        outside.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        try:
            yield
        finally:
            outside.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def test_a_database_that_is_away_is_no_bad_message(broker, caplog):
    caplog.set_level("INFO")
    with running() as consumer:
        until(lambda: "consumer.ready" in caplog.text)
        with database_closed():
            publish(broker, envelope(), serializer="json")
            until(lambda: "consumer.database_away" in caplog.text)
            until(lambda: "intake.database_away" in caplog.text)
            assert left_in(broker) == 1
            assert consumer.handled == 0
        until(lambda: consumer.handled == 1)
    assert Run.objects.get().external_id == "night-1"
    assert not RejectedMessage.objects.exists()
    assert left_in(broker) == 0


def test_it_comes_back_when_the_broker_drops_its_connection(broker, caplog):
    caplog.set_level("INFO")
    with running() as consumer:
        until(lambda: "consumer.ready" in caplog.text)
        client = raw_redis(broker)
        client.client_kill_filter(_type="normal", skipme=True)
        publish(broker, envelope(), serializer="json")
        until(lambda: consumer.handled == 1)
    assert Run.objects.count() == 1


def test_an_unacknowledged_message_of_a_dead_consumer_comes_back(broker, settings):
    settings.INTAKE_REDELIVER_AFTER_S = 1
    publish(broker, envelope(), serializer="json")
    dead = RunConsumer(announce=None)
    channel = dead.create_connection().default_channel
    assert channel.client  # takes the message as a consumer would, and is then forgotten
    taken = channel.basic_get(QUEUE)
    assert taken is not None
    channel.qos._delivered.clear()  # as after SIGKILL: no restore at close
    time.sleep(1.1)
    assert consume(1).handled == 1
    assert Run.objects.count() == 1


# --- the process ----------------------------------------------------------------------------------


@contextmanager
def process(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """``manage.py consume_runs`` on the test's database."""
    facts = connection.get_connection_params()
    url = f"postgresql://{facts['user']}@/{facts['dbname']}?host={facts['host']}"
    child = subprocess.Popen(
        [sys.executable, "manage.py", "consume_runs", *arguments],
        cwd=CHECKOUT,
        env=os.environ | {"DATABASE_URL": url, "PYTHONUNBUFFERED": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def read_until(child: subprocess.Popen[str], word: str) -> str:
    """Output up to the line with *word*; the test's time limit bounds it."""
    lines = []
    for line in child.stdout:  # type: ignore[union-attr]
        lines.append(line)
        if word in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def test_sigterm_stops_the_process(broker):
    with process() as child:
        read_until(child, "consumer.ready")
        publish(broker, envelope(), serializer="json")
        read_until(child, "run.created")
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=15) == 0
    assert Run.objects.count() == 1
    assert left_in(broker) == 0


def test_sigterm_stops_a_process_that_waits_for_its_broker():
    away = "redis+socket:///nowhere/at/all.sock"
    with process(CELERY_BROKER_URL=away) as child:
        read_until(child, "consumer.broker_away")
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=15) == 0


def test_it_refuses_to_start_on_settings_that_lose_work():
    with process(CONTEXTGRAPH_VISIBILITY_TIMEOUT_S="10") as child:
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 1
    assert "contextgraph.E007" in out


# --- RabbitMQ -------------------------------------------------------------------------------------


@pytest.mark.services
def test_on_amqp_bad_messages_are_kept_and_good_ones_stored():
    url = os.environ.get("CONTEXTGRAPH_TEST_AMQP_URL", "")
    if not url:
        pytest.skip("needs a RabbitMQ: CONTEXTGRAPH_TEST_AMQP_URL")
    with Connection(url) as link:
        link.default_channel.queue_delete(QUEUE)
    publish(url, b"garbage", content_type="application/json", content_encoding="utf-8")
    publish(url, pickle.dumps(1), content_type="application/x-python-serialize")
    publish(
        url,
        zlib.compress(b" " * 50_000_000),
        content_type="application/json",
        headers={"compression": "application/x-gzip"},
    )
    publish(url, envelope("packed"), serializer="json", compression="gzip")
    publish(url, body_of(envelope("plain")), content_type="application/json")
    with RunPublisher(url) as publisher:
        publisher.post(envelope("parts"))
    consumer = consume(6, broker_url=url)
    assert (consumer.handled, consumer.refused) == (6, 3)
    assert set(Run.objects.values_list("external_id", flat=True)) == {"packed", "plain", "parts"}
    reasons = RejectedMessage.objects.order_by("pk").values_list("reason", flat=True)
    assert list(reasons) == ["not_json", "content_type", "too_large"]
