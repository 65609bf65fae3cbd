"""kombu transports that hand every message to intake, however broken, and unpack none of them.

Guarantees: on Redis, an item that is no kombu message (a bare LPUSH of JSON, garbage, a message with
missing parts) reaches the consumer as a message instead of being popped and lost; on both brokers a
``compression`` header is renamed, so that intake unpacks the body itself, within a bound.

Does not close the gap between BRPOP and kombu's note that a message is unacknowledged: a consumer
killed between these two commands loses that one message. AMQP has no such gap.

Shaped by: kombu raising KeyError inside its transport after BRPOP had already removed the item.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import uuid
from typing import Any, Final

from kombu import Connection
from kombu.transport import pyamqp, redis
from kombu.utils.json import dumps, loads

from contextgraph.intake import COMPRESSION

MAX_DEPTH: Final = 32
"""Deepest nesting of a kombu message (its body is a string): kombu writes it back as JSON."""


# --- Redis ----------------------------------------------------------------------------------------


class RedisChannel(redis.Channel):  # type: ignore[misc]  # kombu is untyped
    """Pops items as whole kombu messages, whatever they were."""

    def _get_client(self) -> Any:
        made = super()._get_client()
        if isinstance(made, functools.partial):  # a key prefix is configured
            return functools.partial(_popping(made.func), **made.keywords)
        return _popping(made)


class RedisTransport(redis.Transport):  # type: ignore[misc]  # kombu is untyped
    """kombu's Redis transport over :class:`RedisChannel`."""

    Channel = RedisChannel


@functools.cache
def _popping(base: type) -> type:
    """*base*, a Redis client class, with replies to pops made whole."""

    class PoppingClient(base):  # type: ignore[misc]  # the class is only known at run time
        def parse_response(self, connection: Any, command_name: str, **options: Any) -> Any:
            reply = super().parse_response(connection, command_name, **options)
            if command_name != "BRPOP" or not reply:
                return reply
            key, item = reply
            return key, whole_message(item, key=key)

    return PoppingClient


def whole_message(item: bytes, *, key: bytes = b"") -> bytes:
    """*item* if kombu can take it; else a kombu message whose body is *item*."""
    try:
        message = loads(item.decode())
    except Exception:  # noqa: BLE001 - kombu's decoders of typed values raise what they like
        return _wrapped(item, key)
    if not _is_kombu_message(message) or not _is_shallow(message, MAX_DEPTH):
        return _wrapped(item, key)
    headers = message.get("headers") or {}
    if "compression" not in headers:
        return item
    headers[COMPRESSION] = headers.pop("compression")
    return str(dumps(message)).encode()


def _is_kombu_message(message: Any) -> bool:
    """True when kombu finds all that it looks up, and can decode the body's base64."""
    match message:
        case {
            "body": str() as body,
            "properties": {
                "delivery_tag": str(),
                "delivery_info": {"exchange": str(), "routing_key": str()},
                "body_encoding": "base64",
            },
        } if isinstance(message.get("headers"), dict | None):
            return _is_base64(body)
    return False


def _is_shallow(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return True
    return depth > 0 and all(_is_shallow(item, depth - 1) for item in value)


def _is_base64(body: str) -> bool:
    try:
        base64.b64decode(body)
    except (binascii.Error, ValueError):
        return False
    return True


def _wrapped(item: bytes, key: bytes) -> bytes:
    """Content type JSON: a bare envelope is welcome, and anything else is refused as not JSON."""
    message = {
        "body": base64.b64encode(item).decode("ascii"),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"x-intake-bare": True},
        "properties": {
            "delivery_tag": str(uuid.uuid4()),
            "delivery_info": {"exchange": "", "routing_key": key.decode("utf-8", "replace")},
            "body_encoding": "base64",
            "delivery_mode": 2,
            "priority": 0,
        },
    }
    return json.dumps(message).encode()


# --- AMQP -----------------------------------------------------------------------------------------


class AmqpMessage(pyamqp.Message):  # type: ignore[misc]  # kombu is untyped
    """A message that kombu does not unpack."""

    def __init__(self, msg: Any, channel: Any = None, **kwargs: Any) -> None:
        headers = msg.properties.get("application_headers")
        if isinstance(headers, dict) and "compression" in headers:
            headers[COMPRESSION] = headers.pop("compression")
        super().__init__(msg, channel=channel, **kwargs)


class AmqpChannel(pyamqp.Channel):  # type: ignore[misc]  # kombu is untyped
    """kombu's AMQP channel over :class:`AmqpMessage`."""

    Message = AmqpMessage


class _AmqpConnection(pyamqp.Connection):  # type: ignore[misc]  # kombu is untyped
    Channel = AmqpChannel


class AmqpTransport(pyamqp.Transport):  # type: ignore[misc]  # kombu is untyped
    """kombu's AMQP transport over :class:`AmqpChannel`."""

    Connection = _AmqpConnection


# --- Both -----------------------------------------------------------------------------------------


class IntakeConnection(Connection):  # type: ignore[misc]  # kombu is untyped
    """A connection for consuming: Redis, Valkey and AMQP get the transports of this module."""

    def get_transport_cls(self) -> Any:
        """The transport for the URL in use; asked again after a failover to another one."""
        made = super().get_transport_cls()
        return {redis.Transport: RedisTransport, pyamqp.Transport: AmqpTransport}.get(made, made)
