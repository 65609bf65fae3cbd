"""Refused messages: keep them with all that a replay needs, and replay them through the one door.

Guarantees: the bytes (up to 16 MiB), headers and content type of a refused message are a row before it
is acknowledged; a redelivered message that was refused already is not stored twice; a replay is the
consumer's own handling, and marks the row resolved or writes down the new refusal.

Does not delete: a resolved row stays as the record of what happened.

Shaped by: Redis, where a broker-side reject without requeue simply deletes the message.
"""

from __future__ import annotations

import hashlib
import json
import logging
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from contextgraph.envelope import storable, storable_tree
from contextgraph.intake import handle
from contextgraph.models import RejectedMessage
from contextgraph.outage import database_is_away
from contextgraph.refusals import Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from django.db.models import QuerySet

logger = logging.getLogger(__name__)

BODY_CAP: Final = 16 * 1024 * 1024
DETAIL_CAP: Final = 4_000
TRACE_FRAMES: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What became of one rejected message; ``detail`` says why it still fails."""

    id: int
    ok: bool
    reason: str = ""
    detail: str = ""
    run_ids: tuple[int, ...] = ()


def reject(
    refusal: Refusal,
    *,
    body: bytes,
    content_type: str = "",
    headers: Mapping[str, Any] | None = None,
    redelivered: bool = False,
) -> RejectedMessage:
    """Store a refused message.

    *redelivered*: the broker says that it has delivered this before; then an open row with the same
    bytes and reason is the same refusal, written before a crash kept it from being acknowledged.
    """
    sha256 = hashlib.sha256(body).hexdigest()
    if redelivered:
        same = RejectedMessage.objects.filter(
            body_sha256=sha256, reason=refusal.reason, resolved_at__isnull=True
        ).first()
        if same is not None:
            return same
    row = RejectedMessage.objects.create(
        reason=refusal.reason,
        detail=storable(refusal.detail)[:DETAIL_CAP],
        content_type=storable(content_type)[:200],
        headers=_storable_headers(headers or {}),
        body=body[:BODY_CAP],
        body_size=len(body),
        body_sha256=sha256,
    )
    logger.warning("message.rejected %s: %s: %s", row.pk, refusal.reason.value, row.detail[:500])
    return row


def internal_refusal(error: Exception) -> Refusal:
    """An error of ours, with the last frames of its traceback."""
    frames = traceback.extract_tb(error.__traceback__)[-TRACE_FRAMES:]
    where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    cause = f"{type(error).__name__}: {str(error).strip()[:1_000]} [{where}]"
    return Refusal(Reason.INTERNAL, cause, mend="report it, then replay_rejected")


def handled_or_refused(
    body: bytes,
    *,
    content_type: str,
    headers: Mapping[str, Any],
    announce: Callable[[int], None] | None,
) -> tuple[int, ...]:
    """Handle a message; every error that is not the database being away becomes a Refusal.

    Returns the primary keys of the runs that it named.
    """
    try:
        done = handle(body, content_type=content_type, headers=headers, announce=announce)
    except Refusal:
        raise
    except DatabaseError as error:
        if database_is_away(error):
            raise
        raise internal_refusal(error) from error
    except Exception as error:  # one bad message must not stop the queue
        logger.exception("message.internal_error")
        raise internal_refusal(error) from error
    return tuple(result.run_id for result in done.results)


def waiting(*, ids: list[int] | None = None, reason: str = "") -> QuerySet[RejectedMessage]:
    """Unresolved messages, oldest first; *ids* and *reason* narrow them down."""
    rows = RejectedMessage.objects.filter(resolved_at__isnull=True).order_by("pk")
    if ids:
        rows = rows.filter(pk__in=ids)
    return rows.filter(reason=reason) if reason else rows


def replay(
    rows: QuerySet[RejectedMessage],
    *,
    dry_run: bool = False,
    announce: Callable[[int], None] | None = None,
) -> Iterator[Replay]:
    """Put each message through intake again. *dry_run* does all of it and rolls it back."""
    for pk in list(rows.values_list("pk", flat=True)):
        with transaction.atomic():
            row = RejectedMessage.objects.select_for_update().get(pk=pk)
            if row.resolved_at is not None:
                continue  # another replay was faster
            outcome = _replayed(row, announce)
            if not dry_run:
                _record(row, outcome)
            else:
                transaction.set_rollback(True)
        yield outcome


def _replayed(row: RejectedMessage, announce: Callable[[int], None] | None) -> Replay:
    body = bytes(row.body)
    try:
        if len(body) < row.body_size:
            cause = f"only the first {len(body)} of {row.body_size} bytes were kept"
            raise Refusal(Reason.TOO_LARGE, cause, mend="post it in parts")
        with transaction.atomic():  # a failed statement must leave the outer transaction usable
            run_ids = handled_or_refused(
                body, content_type=row.content_type, headers=row.headers, announce=announce
            )
    except Refusal as refusal:
        return Replay(id=row.pk, ok=False, reason=refusal.reason.value, detail=refusal.detail)
    return Replay(id=row.pk, ok=True, run_ids=run_ids)


def _record(row: RejectedMessage, outcome: Replay) -> None:
    facts: dict[str, Any] = {"replays": F("replays") + 1}
    if outcome.ok:
        facts["resolved_at"] = timezone.now()
    else:
        facts |= {"reason": outcome.reason, "detail": storable(outcome.detail)[:DETAIL_CAP]}
    RejectedMessage.objects.filter(pk=row.pk).update(**facts)


def _storable_headers(headers: Mapping[str, Any]) -> Any:
    """Headers as JSON that Postgres can hold: other types as text, no NUL, no NaN."""
    plain = json.loads(json.dumps(dict(headers), default=str, skipkeys=True), parse_constant=str)
    return storable_tree(plain)
