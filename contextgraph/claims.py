"""Claim checks: a message that says where the run log lies, instead of carrying it.

Guarantees: only files below the folders named in the settings are opened, after every symbolic link
has been followed; the bytes that are ingested are the bytes whose sha256 was verified, because they
are copied first. No other scheme than ``file://`` is honoured.

Does not guarantee that the file is still there: then the message is kept as rejected, and a replay
after the file is back goes through.

Shaped by: intake that fetched whatever address a message gave it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal
from urllib.parse import unquote, urlsplit

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, model_validator

from contextgraph.documents import plain, spool, too_large
from contextgraph.envelope import EnvelopeError, storable_tree
from contextgraph.ingest import IngestResult, ingest_document
from contextgraph.parts import Sha256
from contextgraph.refusals import Reason, Refusal, refusal_of

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK: Final = 1024 * 1024


class ClaimMessage(BaseModel):
    """Wire form of a claim check. ``run_id`` names the run when its log does not."""

    model_config = ConfigDict(frozen=True, strict=True)

    message: Literal["claim/1"]
    run_id: str = Field(default="", max_length=500)
    sha256: Sha256
    uri: str = Field(max_length=4096)
    format: str = Field(default="auto", max_length=50)
    skill: str = Field(default="", max_length=500)
    revise: bool = False

    @model_validator(mode="before")
    @classmethod
    def _make_storable(cls, data: Any) -> Any:
        return storable_tree(data)


def ingest_claim(
    claim: ClaimMessage, *, announce: Callable[[int], None] | None = None
) -> list[IngestResult]:
    """Fetch, verify and ingest the file that *claim* names.

    Raises:
        Refusal: ``claim`` when it may not or cannot be read, ``digest`` when it is another file,
            ``too_large``, or what the ingest refuses.
    """
    path = _permitted(claim.uri)
    limit = settings.MAX_DOCUMENT_BYTES
    with spool() as copy:
        _fetch(path, copy, claim.sha256, limit=limit)
        with plain(copy, limit=limit) as log:
            try:
                return ingest_document(
                    log,
                    name=path.name,
                    run_id=claim.run_id,
                    log_sha256=claim.sha256,
                    format=claim.format,
                    skill=claim.skill,
                    revise=claim.revise,
                    announce=announce,
                )
            except EnvelopeError as error:
                raise refusal_of(error) from error


def _permitted(uri: str) -> Path:
    """The real path behind *uri*, if it lies below a permitted folder."""
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise Refusal(Reason.CLAIM, f"{uri!r} is no address: {error}") from error
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query:
        cause = f"{uri!r} is not a file:// address of this host"
        raise Refusal(Reason.CLAIM, cause, mend="post the file itself")
    try:
        path = Path(os.path.realpath(unquote(parts.path)))
    except ValueError as error:  # a NUL byte
        raise Refusal(Reason.CLAIM, f"{uri!r} names no file: {error}") from error
    roots = [Path(os.path.realpath(root)) for root in settings.CLAIM_ROOTS]
    if not any(path.is_relative_to(root) for root in roots):
        raise Refusal(
            Reason.CLAIM,
            f"{uri!r} is not below a folder that claims may name",
            mend="post the file itself, or add its folder to CONTEXTGRAPH_CLAIM_ROOTS",
        )
    return path


def _fetch(path: Path, copy: BinaryIO, sha256: str, *, limit: int) -> None:
    try:
        # O_NONBLOCK: opening a fifo must not wait for its writer
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise Refusal(Reason.CLAIM, f"{path} cannot be opened: {error}") from error
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode):
        os.close(handle)
        raise Refusal(Reason.CLAIM, f"{path} is not a file")
    with os.fdopen(handle, "rb") as file:
        if facts.st_size > limit:
            raise too_large(facts.st_size, limit)
        digest, size = hashlib.sha256(), 0
        while chunk := file.read(CHUNK):
            size += len(chunk)
            if size > limit:  # it grew while it was read
                raise too_large(size, limit)
            digest.update(chunk)
            copy.write(chunk)
    if digest.hexdigest() != sha256:
        cause = f"{path} has sha256 {digest.hexdigest()[:12]}…, the claim says {sha256[:12]}…"
        raise Refusal(Reason.DIGEST, cause, mend="post a new claim")
    copy.seek(0)
