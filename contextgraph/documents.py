"""Compressed bytes of a document -> log and side file on disk, never more than allowed.

Guarantees: not one byte beyond the declared and the permitted size is written, whatever the
compressed stream expands to; a log that is itself compressed is unpacked under the same limit.
Small documents stay in memory, larger ones go to temporary files that vanish with their handle.

Does not look inside: readers do.

Shaped by: a kilobyte of gzip that unpacks to a gigabyte.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, BinaryIO, Final, cast

from contextgraph.refusals import Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

IN_MEMORY: Final = 4 * 1024 * 1024
CHUNK: Final = 256 * 1024
GZIP_MAGIC: Final = b"\x1f\x8b"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unpacked:
    """``log_sha256`` is that of the log as its sender read it, before any unpacking of ours."""

    log: BinaryIO
    log_sha256: str
    side_file: BinaryIO | None = None


def spool() -> BinaryIO:
    """A seekable file that lives in memory while it is small."""
    return cast("BinaryIO", SpooledTemporaryFile(max_size=IN_MEMORY))


@contextmanager
def unpacked_sections(
    packed: IO[bytes], sections: Mapping[str, int], *, limit: int
) -> Iterator[Unpacked]:
    """Unpack a gzip stream that holds the log and, optionally, its side file, one after the other.

    Args:
        sections: length in bytes of ``log`` and ``side``.
        limit: bytes allowed for both together, and again for what compressed ones unpack to.

    Raises:
        Refusal: ``too_large``, ``unreadable``, or ``digest`` when the lengths are not as declared.
    """
    if sum(sections.values()) > limit:
        raise too_large(sum(sections.values()), limit)
    with spool() as log, spool() as side:
        try:
            with gzip.GzipFile(fileobj=packed, mode="rb") as stream:
                reader = cast("IO[bytes]", stream)
                log_sha256 = _copy_exactly(reader, log, sections["log"])
                _copy_exactly(reader, side, sections.get("side", 0))
                if reader.read(1):
                    raise Refusal(Reason.DIGEST, "the document is longer than its sections say")
        except (OSError, EOFError, zlib.error) as error:
            cause = f"the compressed document cannot be read: {error}"
            raise Refusal(Reason.UNREADABLE, cause, mend="post it again") from error
        with plain(log, limit=limit) as plain_log, plain(side, limit=limit) as plain_side:
            has_side = "side" in sections
            yield Unpacked(
                log=plain_log,
                log_sha256=log_sha256,
                side_file=plain_side if has_side else None,
            )


@contextmanager
def plain(stream: BinaryIO, *, limit: int) -> Iterator[BinaryIO]:
    """*stream*, or what it unpacks to when it is a gzip file. At most *limit* bytes.

    Raises:
        Refusal: ``too_large``, or ``unreadable`` when it is compressed twice. A stream that ends too
            early is left to the reader, which keeps what can be read.
    """
    stream.seek(0)
    if stream.read(2) != GZIP_MAGIC:
        stream.seek(0)
        yield stream
        return
    stream.seek(0)
    with spool() as target:
        _gunzip(stream, target, limit=limit)
        target.seek(0)
        if target.read(2) == GZIP_MAGIC:
            raise Refusal(Reason.UNREADABLE, "the log is compressed twice", mend="unpack it once")
        target.seek(0)
        yield target


def _gunzip(stream: BinaryIO, target: BinaryIO, *, limit: int) -> None:
    written = 0
    with gzip.GzipFile(fileobj=stream, mode="rb") as source:
        try:
            while chunk := source.read(CHUNK):
                written += len(chunk)
                if written > limit:
                    raise too_large(written, limit)
                target.write(chunk)
        except EOFError:
            return  # cut in the middle: the reader reports the last line
        except (OSError, zlib.error) as error:
            cause = f"the compressed log is corrupt: {error}"
            raise Refusal(Reason.UNREADABLE, cause, mend="copy the file again") from error


def _copy_exactly(source: IO[bytes], target: BinaryIO, size: int) -> str:
    """Copy *size* bytes and return their sha256."""
    digest, left = hashlib.sha256(), size
    while left:
        chunk = source.read(min(CHUNK, left))
        if not chunk:
            raise Refusal(Reason.DIGEST, f"the document is {left} bytes shorter than it says")
        digest.update(chunk)
        target.write(chunk)
        left -= len(chunk)
    target.seek(0)
    return digest.hexdigest()


def too_large(size: int, limit: int) -> Refusal:
    """The refusal of a document of *size* bytes."""
    return Refusal(
        Reason.TOO_LARGE,
        f"the document takes {size} bytes or more, {limit} are allowed",
        mend="raise CONTEXTGRAPH_MAX_DOCUMENT_BYTES if it is one run all the same",
    )
