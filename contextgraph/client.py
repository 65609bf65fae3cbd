"""Post a completed run to the intake queue. Needs kombu and the standard library, nothing else.

Guarantees: ``post`` returns only after the broker has taken every message (publisher confirms on AMQP,
the push reply on Redis); no message is larger than 1 MiB; a file is compressed to disk and never held
in memory; the same file posted twice gives the same messages, which intake stores once.

Does not guarantee that the run is valid: the consumer decides, and keeps what it refuses.

Three kinds of message, see below; all are JSON, ``content_type: application/json``.

Shaped by: a publish that returned OK for a message of 150 MB which the broker then threw away.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self, cast

from kombu import Connection, Exchange, Producer, Queue
from kombu.exceptions import KombuError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

DEFAULT_QUEUE: Final = "contextgraph.runs"
MAX_MESSAGE_BYTES: Final = 1024 * 1024
SLICE_BYTES: Final = 700 * 1024
"""Bytes of a part before base64: 933 KiB after it, which leaves room for the part's header."""

# On the wire, one of:
#  - an envelope as it is, {"schema": "contextgraph.run/1", ...}, for senders in any language;
#  - {"message": "part/1", ...}: slice `part` of `parts` of a gzip stream, in base64. The stream holds
#    the log and then, optionally, its side file; `sections` gives their lengths in bytes. `document`
#    names the whole: sha256 over the gzip stream followed by options_line(), so that one file posted
#    with other options is another document;
#  - {"message": "claim/1", ...}: where the consumer finds the file, and its sha256.

CHUNK: Final = 256 * 1024
MAX_NAME: Final = 200
RETRY: Final = {"max_retries": 3, "interval_start": 0.2, "interval_step": 0.5, "interval_max": 2.0}


class PublishError(Exception):
    """The broker has not taken the run. ``cause`` and ``mend`` are one phrase each."""

    def __init__(self, cause: str, *, mend: str) -> None:
        self.cause = cause
        self.mend = mend
        super().__init__(f"{cause} ({mend})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What was posted.

    ``document_sha256`` names the document on the wire, ``log_sha256`` is the sha256 of the log as it
    was read. ``size`` counts compressed bytes, ``bytes_on_wire`` the message bodies.
    """

    document_sha256: str
    log_sha256: str
    parts: int
    size: int
    bytes_on_wire: int


def intake_queue(name: str) -> Queue:
    """The durable queue that sender and consumer declare alike; whoever comes first makes it."""
    return Queue(name, Exchange(""), routing_key=name, durable=True)


def options_line(*, format: str, skill: str, revise: bool, sections: Mapping[str, int]) -> bytes:
    """What follows the gzip stream in the digest of a document: its options as canonical JSON."""
    options = {"format": format, "revise": revise, "sections": dict(sections), "skill": skill}
    return json.dumps(options, sort_keys=True, separators=(",", ":")).encode()


class RunPublisher:
    """Posts runs over one connection; a context manager.

    Args:
        broker_url: as kombu reads it: ``amqp://``, ``redis://``, ``redis+socket://``.
        queue: the consumer's queue.
        connect_timeout: seconds to wait for a connection.
        confirm_timeout: seconds to wait for the broker to take one message.

    Raises:
        PublishError: on entering, when the broker cannot be reached; while posting, when it did not
            take a message. Posting again is safe: what has arrived already is stored once.
    """

    def __init__(
        self,
        broker_url: str,
        *,
        queue: str = DEFAULT_QUEUE,
        connect_timeout: float = 5.0,
        confirm_timeout: float = 30.0,
    ) -> None:
        self._confirm_timeout = confirm_timeout
        self._queue = intake_queue(queue)
        self._connection = Connection(
            broker_url,
            connect_timeout=connect_timeout,
            transport_options=_transport_options(broker_url, connect_timeout, confirm_timeout),
        )
        self._producer: Any = None

    def __enter__(self) -> Self:
        try:
            self._connection.ensure_connection(**RETRY)
            self._producer = Producer(self._connection)
            self._queue(self._connection.default_channel).declare()
        except self._errors() as error:
            self._connection.release()
            raise PublishError(
                f"{self._connection.as_uri()} cannot be used: {error}",
                mend="check the broker URL, and that the broker runs",
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.release()

    def post(
        self,
        document: str | Path | Mapping[str, Any],
        *,
        format: str = "auto",
        skill: str = "",
        revise: bool = False,
        side_file: Path | None = None,
    ) -> Receipt:
        """Post a run log (a path) or an envelope (a mapping).

        Args:
            format: the log's format, for logs that cannot be told by their first bytes.
            skill: for logs that do not name it.
            revise: store the run as a new revision when another one has its id.
            side_file: full tip texts and uncut scripts that the log does not hold.

        Raises:
            PublishError: the broker did not take it.
            OSError: a file cannot be read.
            ValueError, TypeError: the mapping is not JSON.
        """
        options = {"format": format, "skill": skill, "revise": revise}
        with tempfile.TemporaryFile() as spool:
            packed = _pack(document, side_file, spool)
            header = _part_header(packed, options)
            on_wire = sum(self._send(body) for body in _part_messages(header, spool))
        return Receipt(
            document_sha256=header["document"],
            log_sha256=packed.log_sha256,
            parts=header["parts"],
            size=packed.size,
            bytes_on_wire=on_wire,
        )

    def post_claim(
        self,
        path: str | Path,
        *,
        format: str = "auto",
        skill: str = "",
        revise: bool = False,
        run_id: str = "",
    ) -> Receipt:
        """Post where the file is, instead of the file; the consumer must be allowed to read there.

        Args:
            run_id: the run's id, for logs that do not name it.
        """
        resolved = Path(path).resolve(strict=True)
        digest, size = hashlib.sha256(), 0
        with resolved.open("rb") as file:
            for chunk in _chunks(file):
                digest.update(chunk)
                size += len(chunk)
        claim = {
            "message": "claim/1",
            "run_id": run_id,
            "sha256": digest.hexdigest(),
            "uri": resolved.as_uri(),
            "format": format,
            "skill": skill,
            "revise": revise,
        }
        sha = digest.hexdigest()
        return Receipt(
            document_sha256=sha,
            log_sha256=sha,
            parts=1,
            size=size,
            bytes_on_wire=self._send(claim | {"document": sha}),
        )

    def _send(self, message: Mapping[str, Any]) -> int:
        headers = {"document": message["document"], "part": message.get("part", 1)}
        body = json.dumps(message, separators=(",", ":")).encode()
        if len(body) > MAX_MESSAGE_BYTES:
            raise PublishError(
                f"a message of {len(body)} bytes is over the limit of {MAX_MESSAGE_BYTES}",
                mend="shorten skill and format",
            )
        publish = self._connection.ensure(self._producer, self._producer.publish, **RETRY)
        try:
            publish(
                body,
                routing_key=self._queue.name,
                content_type="application/json",
                content_encoding="utf-8",
                delivery_mode=2,
                mandatory=True,
                headers=headers,
                confirm_timeout=self._confirm_timeout,
            )
        except self._errors() as error:
            raise PublishError(
                f"the broker did not take part {headers['part']}: {error}",
                mend="post again: parts that arrive twice are stored once",
            ) from error
        return len(body)

    def _errors(self) -> tuple[type[BaseException], ...]:
        link = self._connection
        again = (*link.recoverable_connection_errors, *link.recoverable_channel_errors)
        return (*link.connection_errors, *link.channel_errors, *again, KombuError, OSError)


@dataclass(slots=True)
class _Packed:
    name: str
    log_sha256: str
    size: int
    digest: hashlib._Hash
    sections: dict[str, int]


class _Hashing:
    """A file that hashes and counts what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def _pack(
    document: str | Path | Mapping[str, Any], side_file: Path | None, spool: IO[bytes]
) -> _Packed:
    """Compress log and side file into *spool*; the same bytes in give the same bytes out."""
    sink = _Hashing(spool)
    log = hashlib.sha256()
    sections: dict[str, int] = {}
    with gzip.GzipFile("", "wb", 6, cast("IO[bytes]", sink), mtime=0) as packer:
        for name, chunks in _sections(document, side_file):
            sections[name] = 0
            for chunk in chunks:
                if name == "log":
                    log.update(chunk)
                sections[name] += len(chunk)
                packer.write(chunk)
    name = "envelope.json" if isinstance(document, Mapping) else Path(document).name
    return _Packed(name[:MAX_NAME], log.hexdigest(), sink.size, sink.digest, sections)


def _sections(
    document: str | Path | Mapping[str, Any], side_file: Path | None
) -> Iterator[tuple[str, Iterator[bytes]]]:
    if isinstance(document, Mapping):
        yield "log", iter([json.dumps(document, allow_nan=False).encode()])
    else:
        with Path(document).open("rb") as file:
            yield "log", _chunks(file)
    if side_file is not None:
        with side_file.open("rb") as file:
            yield "side", _chunks(file)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _part_header(packed: _Packed, options: Mapping[str, Any]) -> dict[str, Any]:
    """What all parts of a document say alike."""
    packed.digest.update(options_line(**options, sections=packed.sections))
    return {
        "message": "part/1",
        "document": packed.digest.hexdigest(),
        "parts": max(1, -(-packed.size // SLICE_BYTES)),
        "size": packed.size,
        "name": packed.name,
        **options,
        "sections": packed.sections,
    }


def _part_messages(header: Mapping[str, Any], spool: IO[bytes]) -> Iterator[dict[str, Any]]:
    spool.seek(0)
    for part in range(1, header["parts"] + 1):
        data = spool.read(SLICE_BYTES)
        yield {
            **header,
            "part": part,
            "sha256": hashlib.sha256(data).hexdigest(),
            "data": base64.b64encode(data).decode("ascii"),
        }


def _transport_options(url: str, connect_timeout: float, timeout: float) -> dict[str, Any]:
    scheme = url.split(":", 1)[0]
    if scheme.startswith(("redis", "rediss", "sentinel")):
        return {"socket_connect_timeout": connect_timeout, "socket_timeout": timeout}
    return {"confirm_publish": True}  # without it a lost publish returns as if it had arrived
