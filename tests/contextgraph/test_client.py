"""The publisher: small messages, confirmed, from kombu and the standard library alone."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import random
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
from kombu import Connection

from contextgraph.client import (
    MAX_MESSAGE_BYTES,
    PublishError,
    RunPublisher,
    intake_queue,
    options_line,
)
from tests.contextgraph.run_documents import envelope

QUEUE = "client.tests"


def messages(url: str, queue: str = QUEUE) -> list[Any]:
    """Everything that waits in the queue, as kombu messages with decoded JSON bodies."""
    taken = []
    with Connection(url) as connection:
        bound = intake_queue(queue)(connection.default_channel)
        while (message := bound.get()) is not None:
            message.ack()
            taken.append(message)
    return taken


def noise(size: int) -> bytes:
    """Bytes that do not compress."""
    return random.Random(7).randbytes(size)


def test_a_sender_needs_kombu_and_the_standard_library_only():
    script = """
import importlib.abc, sys
allowed = {"kombu", "amqp", "vine", "tzdata", "packaging", "contextgraph", "redis"}
class Guard(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        top = name.partition(".")[0]
        if top not in allowed and top not in sys.stdlib_module_names:
            raise ImportError(f"a sender does not have {name}")
        if top == "contextgraph" and name not in ("contextgraph", "contextgraph.client"):
            raise ImportError(f"the client imports {name}")
sys.meta_path.insert(0, Guard())
from contextgraph.client import RunPublisher
RunPublisher("amqp://127.0.0.1:1//")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_a_small_envelope_is_one_part_of_one(broker):
    with RunPublisher(broker, queue=QUEUE) as publisher:
        receipt = publisher.post(envelope(), skill="stig")
    [message] = messages(broker)
    part = message.payload
    assert message.content_type == "application/json"
    assert message.properties["delivery_mode"] == 2
    assert message.headers == {"document": receipt.document_sha256, "part": 1}
    assert (part["part"], part["parts"], part["skill"]) == (1, 1, "stig")
    assert json.loads(gzip.decompress(base64.b64decode(part["data"]))) == envelope()
    assert receipt.bytes_on_wire == len(message.body)


def test_a_large_file_travels_in_messages_of_at_most_one_mebibyte(broker, tmp_path):
    log = tmp_path / ("x" * 180 + ".jsonl")
    log.write_bytes(noise(3_000_000))
    with RunPublisher(broker, queue=QUEUE) as publisher:
        receipt = publisher.post(log)
    taken = messages(broker)
    assert len(taken) == receipt.parts > 1
    assert all(len(message.body) <= MAX_MESSAGE_BYTES for message in taken)
    parts = sorted((message.payload for message in taken), key=lambda part: part["part"])
    whole = b"".join(base64.b64decode(part["data"]) for part in parts)
    assert gzip.decompress(whole) == log.read_bytes()
    assert receipt.log_sha256 == hashlib.sha256(log.read_bytes()).hexdigest()
    line = options_line(format="auto", skill="", revise=False, sections={"log": 3_000_000})
    assert hashlib.sha256(whole + line).hexdigest() == receipt.document_sha256


def test_the_same_file_gives_the_same_document_and_other_options_another(broker, tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_bytes(b"{}\n" * 100)
    with RunPublisher(broker, queue=QUEUE) as publisher:
        plain = [publisher.post(log).document_sha256 for _ in range(2)]
        others = [
            publisher.post(log, **options).document_sha256
            for options in ({"revise": True}, {"skill": "cve"}, {"side_file": log})
        ]
    assert plain[0] == plain[1]
    assert len({plain[0], *others}) == 4


def test_a_side_file_travels_behind_its_log(broker, tmp_path):
    log, side = tmp_path / "run.jsonl", tmp_path / "side.jsonl"
    log.write_bytes(b"log bytes")
    side.write_bytes(b"side bytes!")
    with RunPublisher(broker, queue=QUEUE) as publisher:
        publisher.post(log, side_file=side)
    [message] = messages(broker)
    assert message.payload["sections"] == {"log": 9, "side": 11}
    packed = base64.b64decode(message.payload["data"])
    assert gzip.decompress(packed) == b"log bytesside bytes!"


def test_a_large_file_is_never_in_memory_whole(broker, tmp_path):
    log = tmp_path / "run.jsonl"
    with log.open("wb") as file:
        for _ in range(30):
            file.write(noise(1_000_000))
    with RunPublisher(broker, queue=QUEUE) as publisher:
        tracemalloc.start()
        publisher.post(log)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 12_000_000


def test_a_claim_names_the_file_and_its_digest(broker, tmp_path):
    log = tmp_path / "a run.jsonl"
    log.write_bytes(b"log bytes")
    with RunPublisher(broker, queue=QUEUE) as publisher:
        receipt = publisher.post_claim(log, run_id="night-1")
    [message] = messages(broker)
    claim = message.payload
    assert claim["message"] == "claim/1"
    assert claim["uri"] == log.resolve().as_uri()
    assert claim["sha256"] == receipt.log_sha256 == hashlib.sha256(b"log bytes").hexdigest()


def test_a_broker_that_is_away_is_an_error_with_a_mend():
    publisher = RunPublisher("redis://127.0.0.1:1/0", connect_timeout=0.2)
    with pytest.raises(PublishError, match="check the broker URL") as caught, publisher:
        pass
    assert caught.value.cause
    assert caught.value.mend


def test_a_password_in_the_broker_url_is_not_shown():
    publisher = RunPublisher("redis://:hush-hush@127.0.0.1:1/0", connect_timeout=0.2)
    with pytest.raises(PublishError) as caught, publisher:
        pass
    assert "hush-hush" not in str(caught.value)


def test_a_missing_file_is_not_posted(broker, tmp_path):
    with RunPublisher(broker, queue=QUEUE) as publisher, pytest.raises(FileNotFoundError):
        publisher.post(tmp_path / "none.jsonl")
    assert messages(broker) == []


@pytest.fixture
def rabbitmq() -> str:
    url = os.environ.get("CONTEXTGRAPH_TEST_AMQP_URL", "")
    if not url:
        pytest.skip("needs a RabbitMQ: CONTEXTGRAPH_TEST_AMQP_URL")
    return url


@pytest.mark.services
def test_an_unroutable_message_is_an_error_on_amqp(rabbitmq):
    with RunPublisher(rabbitmq, queue=QUEUE) as publisher:
        with Connection(rabbitmq) as connection:
            connection.default_channel.queue_delete(QUEUE)
        with pytest.raises(PublishError, match="NO_ROUTE"):
            publisher.post(envelope())


@pytest.mark.services
def test_a_confirmed_message_is_in_the_queue_on_amqp(rabbitmq):
    with Connection(rabbitmq) as connection:
        connection.default_channel.queue_delete(QUEUE)
    with RunPublisher(rabbitmq, queue=QUEUE) as publisher:
        receipt = publisher.post(envelope())
    [message] = messages(rabbitmq)
    assert message.payload["document"] == receipt.document_sha256
