"""The one door for a message: bytes in, stored runs or a refusal out.

Guarantees: the consumer and the replay of a rejected message come through here, so both decide alike;
a body is only ever decoded as JSON, with a bound on its size before and after decompression; whatever
a sender can cause ends as :class:`~contextgraph.refusals.Refusal`.

Does not acknowledge, and does not store refusals: that is for consumer.py and rejected.py.

Shaped by: libraries that decode a body by the content type that the sender names, pickle included.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar

from django.conf import settings
from pydantic import BaseModel, ValidationError

from contextgraph.claims import ClaimMessage, ingest_claim
from contextgraph.envelope import EnvelopeError, check_version
from contextgraph.ingest import IngestResult, ingest_document
from contextgraph.parts import PartMessage, store_part
from contextgraph.refusals import Reason, Refusal, refusal_of
from contextgraph.runlogs import RunLogError, UnknownRunLogVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

M = TypeVar("M", bound=BaseModel)

MAX_UNPACKED_BYTES: Final = 16 * 1024 * 1024
"""Limit of a compressed message once it is unpacked; it is parsed in memory."""

COMPRESSION: Final = "x-intake-compression"
"""Header under which the transports hand over a message's ``compression``, not yet unpacked."""

ZLIB_NAMES: Final = frozenset({"gzip", "x-gzip", "zlib", "deflate", "application/x-gzip"})
JSON_TYPES: Final = frozenset({"", "application/json", "text/json"})

Kind = Literal["envelope", "part", "claim"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Handled:
    """``results`` is empty for a part that did not complete its document."""

    kind: Kind
    results: tuple[IngestResult, ...] = ()


def handle(
    body: bytes,
    *,
    content_type: str = "",
    headers: Mapping[str, Any] | None = None,
    announce: Callable[[int], None] | None = None,
) -> Handled:
    """Store what one message carries.

    Args:
        headers: of the message; ``content-encoding`` and :data:`COMPRESSION` are looked at.
        announce: called with each new run's primary key after the commit.

    Raises:
        Refusal: the message cannot be stored.
        django.db.Error: the database cannot do it now; the message is not to blame.
    """
    if len(body) > settings.MAX_MESSAGE_BYTES:
        cause = f"a message of {len(body)} bytes is over the limit of {settings.MAX_MESSAGE_BYTES}"
        raise Refusal(Reason.TOO_LARGE, cause, mend="post it in parts, as contextgraph.client does")
    _check_type(content_type)
    body = _unpacked(body, headers or {})
    message = _decoded(body)
    match message.get("message"):
        case None:
            return Handled(kind="envelope", results=_envelope(message, body, announce))
        case "part/1":
            stored = store_part(_validated(PartMessage, message), announce=announce)
            return Handled(kind="part", results=stored.results)
        case "claim/1":
            results = ingest_claim(_validated(ClaimMessage, message), announce=announce)
            return Handled(kind="claim", results=tuple(results))
        case other:
            cause = f"unknown message {str(other)[:100]!r}; this build reads part/1 and claim/1"
            raise Refusal(Reason.VERSION, cause)


def _check_type(content_type: str) -> None:
    plain = content_type.split(";", 1)[0].strip().lower()
    if plain not in JSON_TYPES and not plain.endswith("+json"):
        cause = f"content type {content_type[:100]!r}"
        raise Refusal(Reason.CONTENT_TYPE, cause, mend="send application/json")


def _unpacked(body: bytes, headers: Mapping[str, Any]) -> bytes:
    names = {str(headers.get(COMPRESSION) or "")}
    encoding = str(headers.get("content-encoding") or "")
    if encoding in ZLIB_NAMES:
        names.add(encoding)
    names.discard("")
    if not names:
        return body
    if not names <= ZLIB_NAMES:
        cause = f"compression {', '.join(sorted(names))[:100]!r}"
        raise Refusal(Reason.CONTENT_TYPE, cause, mend="send it as it is, or as gzip")
    try:
        reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # zlib or gzip, by its header
        plain = reader.decompress(body, MAX_UNPACKED_BYTES)
    except zlib.error as error:
        raise Refusal(Reason.NOT_JSON, f"the compressed body is corrupt: {error}") from error
    if reader.unconsumed_tail:
        cause = f"the body unpacks to more than {MAX_UNPACKED_BYTES} bytes"
        raise Refusal(Reason.TOO_LARGE, cause, mend="post it in parts")
    if not reader.eof:
        raise Refusal(Reason.NOT_JSON, "the compressed body is incomplete")
    return plain


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body, parse_constant=_no_constant, parse_int=_integer)
    except _NumberTooLong as error:
        raise Refusal(Reason.SCHEMA, str(error), mend="send it as a string") from error
    except (ValueError, RecursionError) as error:
        raise Refusal(Reason.NOT_JSON, f"not JSON: {error}", mend="send one JSON object") from error
    if not isinstance(message, dict):
        raise Refusal(Reason.SCHEMA, f"a message is a JSON object, this is a {_kind_of(message)}")
    return message


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON number"
    raise ValueError(msg)


class _NumberTooLong(Exception):
    """Valid JSON, and more digits than Python converts."""


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        msg = f"a number of {len(digits)} characters is beyond what can be read: {digits[:20]}…"
        raise _NumberTooLong(msg) from None


def _kind_of(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def _validated(model: type[M], message: dict[str, Any]) -> M:
    try:
        return model.model_validate(message)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "message"
        raise Refusal(Reason.SCHEMA, f"{place}: {first['msg']}") from None
    except RecursionError as error:
        raise Refusal(Reason.SCHEMA, "nested too deeply") from error


def _envelope(
    message: dict[str, Any], body: bytes, announce: Callable[[int], None] | None
) -> tuple[IngestResult, ...]:
    if "schema" not in message:
        cause = "neither an envelope (schema) nor one of our messages (message)"
        raise Refusal(Reason.SCHEMA, cause)
    try:
        check_version(message["schema"])
        results = ingest_document(
            io.BytesIO(body),
            name="",
            log_sha256=hashlib.sha256(body).hexdigest(),
            format="envelope",
            announce=announce,
        )
    except RunLogError as error:
        version = isinstance(error, UnknownRunLogVersion)
        raise Refusal(Reason.VERSION if version else Reason.SCHEMA, str(error)) from error
    except EnvelopeError as error:
        raise refusal_of(error) from error
    except RecursionError as error:
        raise Refusal(Reason.SCHEMA, "nested too deeply") from error
    return tuple(results)
