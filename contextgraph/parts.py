"""Documents that arrive in parts: store each part, assemble when the last one is there.

Guarantees: a part is committed before its message is acknowledged, whether or not the whole can be
read; parts may come in any order, twice, or from two consumers at once; the whole is verified against
its digest, ingested, marked assembled and its parts emptied in one transaction. Until then the last
word counts: a part or a header that contradicts an earlier one takes its place, and parts that do not
add up are dropped, so that posting the true document is always enough.

Does not guarantee that a document ever becomes complete: :func:`incomplete_documents` names those
that wait. The digest covers the options (skill, format, revision), so a log that is posted again with
other options is another document, and one posted again with the same options is a late duplicate.

Shaped by: a broker that silently dropped one message of 150 MB, and one corrupt part that made the
true ones be refused for ever.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Literal

from django.conf import settings
from django.db import transaction
from django.db.models import Count
from django.utils import timezone
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from contextgraph.client import options_line
from contextgraph.documents import spool, too_large, unpacked_sections
from contextgraph.envelope import EnvelopeError, storable_tree
from contextgraph.ingest import IngestResult, ingest_document
from contextgraph.models import IncomingDocument
from contextgraph.refusals import Reason, Refusal, refusal_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from django.db.models import QuerySet

logger = logging.getLogger(__name__)

MAX_PARTS: Final = 100_000

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Size = Annotated[int, Field(ge=0, le=2**40)]


class PartMessage(BaseModel):
    """Wire form of a part; what the fields mean stands in :mod:`contextgraph.client`."""

    model_config = ConfigDict(frozen=True, strict=True)

    message: Literal["part/1"]
    document: Sha256
    part: int = Field(ge=1)
    parts: int = Field(ge=1, le=MAX_PARTS)
    size: int = Field(ge=1, le=2**40)
    sha256: Sha256
    name: str = Field(default="", max_length=500)
    format: str = Field(default="auto", max_length=50)
    skill: str = Field(default="", max_length=500)
    revise: bool = False
    sections: dict[Literal["log", "side"], Size]
    data: str

    @model_validator(mode="before")
    @classmethod
    def _make_storable(cls, data: Any) -> Any:
        return storable_tree(data)

    @model_validator(mode="after")
    def _is_one_of_its_parts(self) -> PartMessage:
        if self.part > self.parts:
            msg = f"part {self.part} of {self.parts}"
            raise ValueError(msg)
        if "log" not in self.sections:
            msg = "sections has no log"
            raise ValueError(msg)
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredPart:
    """``duplicate``: the part was there already. ``results`` is empty until the last part came."""

    document: IncomingDocument
    duplicate: bool
    results: tuple[IngestResult, ...] = ()


def store_part(
    message: PartMessage, *, announce: Callable[[int], None] | None = None
) -> StoredPart:
    """Store one part; ingest the document when it is the last one.

    Raises:
        Refusal: the part is not what its header says; or the parts do not add up (they are dropped:
            one of them is wrong, and none says which); or the whole cannot be ingested (its parts
            are kept, so that a replay tries again).
    """
    body = _body(message)
    with transaction.atomic():
        document = _locked_document(message)
        if document.assembled_at is not None:
            return StoredPart(document=document, duplicate=True)
        duplicate = not _add(document, message, body)
        arrived = document.pieces.count()
    if arrived < document.parts:
        return StoredPart(document=document, duplicate=duplicate)
    results = _assemble(document.pk, message, announce)
    return StoredPart(document=document, duplicate=duplicate, results=tuple(results))


def incomplete_documents(*, older_than: datetime | None = None) -> QuerySet[IncomingDocument]:
    """Documents that are not ingested, oldest first, each with ``arrived`` parts.

    ``arrived < parts``: parts are missing, or did not add up and were dropped. Otherwise the whole was
    refused, and its last message is among the rejected ones. *older_than* asks for those whose last
    part came before that moment.
    """
    waiting = IncomingDocument.objects.filter(assembled_at__isnull=True)
    if older_than is not None:
        waiting = waiting.filter(last_part_at__lt=older_than)
    return waiting.annotate(arrived=Count("pieces")).order_by("last_part_at")


def _body(message: PartMessage) -> bytes:
    if message.size > settings.MAX_DOCUMENT_BYTES:
        raise too_large(message.size, settings.MAX_DOCUMENT_BYTES)
    try:
        body = base64.b64decode(message.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refusal(Reason.SCHEMA, f"data: not base64: {error}") from error
    if hashlib.sha256(body).hexdigest() != message.sha256:
        cause = f"part {message.part} of {message.parts} does not match its sha256"
        raise Refusal(Reason.DIGEST, cause, mend="post the document again")
    return body


def _locked_document(message: PartMessage) -> IncomingDocument:
    """The document's row, made by its first part and locked until the transaction ends."""
    facts = {
        "format": message.format,
        "skill": message.skill,
        "revise": message.revise,
        "parts": message.parts,
        "size": message.size,
    }
    IncomingDocument.objects.get_or_create(
        sha256=message.document,
        defaults={**facts, "name": message.name, "last_part_at": timezone.now()},
    )
    document = IncomingDocument.objects.select_for_update().get(sha256=message.document)
    changed = [name for name, value in facts.items() if getattr(document, name) != value]
    if changed and document.assembled_at is None:
        _restart(document, facts, changed)
    return document


def _restart(document: IncomingDocument, facts: dict[str, Any], changed: list[str]) -> None:
    """Believe the newer header: nothing tells which is true before the whole is there."""
    logger.warning("document.header_changed %s: %s", document.sha256[:12], ", ".join(changed))
    for name, value in facts.items():
        setattr(document, name, value)
    document.save(update_fields=list(facts))
    if {"parts", "size"} & set(changed):  # cut in another way: the pieces do not fit together
        document.pieces.all().delete()


def _add(document: IncomingDocument, message: PartMessage, body: bytes) -> bool:
    """False when the same part is there already."""
    there = document.pieces.filter(number=message.part).values_list("sha256", flat=True).first()
    IncomingDocument.objects.filter(pk=document.pk).update(last_part_at=timezone.now())
    if there == message.sha256:
        return False
    if there is not None:
        logger.warning("document.part_changed %s: %d", document.sha256[:12], message.part)
    document.pieces.update_or_create(
        number=message.part, defaults={"sha256": message.sha256, "body": body}
    )
    return True


def _assemble(
    pk: int, message: PartMessage, announce: Callable[[int], None] | None
) -> list[IngestResult]:
    with transaction.atomic():
        document = IncomingDocument.objects.select_for_update().get(pk=pk)
        if document.assembled_at is not None or document.pieces.count() < document.parts:
            return []  # another consumer held the last part at the same time
        with spool() as whole:
            adds_up = _join(document, message, whole)
            results = _ingest(document, message, whole, announce) if adds_up else []
        if adds_up:
            document.pieces.update(body=b"")
            IncomingDocument.objects.filter(pk=pk).update(assembled_at=timezone.now())
        else:
            document.pieces.all().delete()
    if not adds_up:  # raised outside, so that the pieces stay dropped
        raise Refusal(
            Reason.DIGEST,
            f"the {document.parts} parts do not add up to document {document.sha256[:12]}",
            mend="they were dropped: post the whole document again, under its true sha256",
        )
    return results


def _join(document: IncomingDocument, message: PartMessage, whole: BinaryIO) -> bool:
    """Put the parts together; False when they are not the document that its digest names."""
    digest, size = hashlib.sha256(), 0
    for number in range(1, document.parts + 1):
        body = bytes(document.pieces.values_list("body", flat=True).get(number=number))
        size += len(body)
        digest.update(body)
        whole.write(body)
    digest.update(
        options_line(
            format=message.format,
            skill=message.skill,
            revise=message.revise,
            sections={str(name): length for name, length in message.sections.items()},
        )
    )
    whole.seek(0)
    return size == document.size and digest.hexdigest() == document.sha256


def _ingest(
    document: IncomingDocument,
    message: PartMessage,
    whole: BinaryIO,
    announce: Callable[[int], None] | None,
) -> list[IngestResult]:
    sections = {str(name): length for name, length in message.sections.items()}
    limit = settings.MAX_DOCUMENT_BYTES
    with unpacked_sections(whole, sections, limit=limit) as files:
        try:
            return ingest_document(
                files.log,
                name=document.name,
                log_sha256=files.log_sha256,
                format=document.format,
                skill=document.skill,
                revise=document.revise,
                side_file=files.side_file,
                announce=announce,
            )
        except EnvelopeError as error:
            raise refusal_of(error) from error
