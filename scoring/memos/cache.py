"""Memos that need not be written again: same subject, same facts, same way of writing, and still true.

Guarantees: a row is served only if its facts have the fingerprint of today's, it is young enough, its
text and what is kept beside it are what was stored (sha256), and they all pass the gate on today's facts;
the first that fails makes it a miss. The key covers subject, mode, variant, model, prompt, gate and
writer: a memo of another kind is never in the way. Hits are those of the text that stands there. One
writer per key at a time, by an advisory lock: a writer that is killed leaves none, and as the row is
written in one statement, no half memo. A fault of the database here is a miss, or a memo that is not
kept, never an error.

The lock is the session's, or in a transaction of the caller the transaction's. That one lasts until the
commit, which is when others can see the row, so that they wait for it as long; a caller that has several
memos written in one transaction holds all their locks, and two that do so in different orders wait for
each other. Nobody waits longer than WAIT_S: then it is written without the lock, as one synthesis too
many is no harm.

Needs sessions that are its own (no pooler in transaction mode). Knows no models; the service asks them.

Shaped by: a cache that proved nothing about a text that was changed in the table, asked ten times for
ten requests, and raised after the work was paid for; and a lock of the session that nobody could give
back from a transaction that had failed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.utils import timezone

from scoring.memos.gate import GATE_VERSION, check
from scoring.memos.stored import snapshot_as_dict
from scoring.memos.writer import WRITER_VERSION
from scoring.models import Memo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scoring.memos.facts import Snapshot
    from scoring.memos.gate_report import GateReport

logger = logging.getLogger(__name__)

WAIT_S: Final = 900.0
"""Longer than a debate with its second askings takes."""
POLL_S: Final = 0.1
FALLBACK_AGE: Final = timedelta(hours=1)
"""A text of the writer that stands for a model's is served this long; then the model is asked again."""

_FAULTS: Final = (DatabaseError, ValueError)
"""ValueError: a text that no column can hold, or a stored snapshot that is none."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a memo is written: what the key covers beside the subject. ``model`` "" is the writer."""

    mode: str
    variant: str
    model: str = ""
    prompt_sha: str = ""

    def key(self, snapshot: Snapshot) -> str:
        """Return the key of this memo about this subject: a sha256, each part behind its length."""
        return _packed(
            (
                snapshot.product, snapshot.identifier, self.mode, self.variant, self.model,
                self.prompt_sha, GATE_VERSION, WRITER_VERSION,
            )
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that may be served, with what the gate says of it today."""

    row: Memo
    gate: GateReport


def lookup(way: Way, snapshot: Snapshot) -> Hit | None:
    """Return the memo that may be served, None if there is none."""
    try:
        with transaction.atomic():
            row = Memo.objects.filter(key=way.key(snapshot)).first()
    except _FAULTS:
        logger.warning("memo.cache_unreadable", exc_info=True)
        return None
    if row is None:
        return None
    cause, gate = _fault(row, snapshot)
    if cause or gate is None:
        logger.info("memo.cache_miss", extra={"memo": row.pk, "cause": cause})
        return None
    return Hit(row, gate)


def _fault(row: Memo, snapshot: Snapshot) -> tuple[str, GateReport | None]:
    """Why a row may not be served, in the order in which it costs to find out."""
    if row.fingerprint != snapshot.fingerprint():
        return "other facts", None
    oldest = timedelta(hours=settings.MEMO_MAX_AGE_H)
    age = timezone.now() - row.written_at
    if age > (min(oldest, FALLBACK_AGE) if row.reason else oldest):
        return "too old", None
    if not is_as_stored(row):
        logger.warning("memo.text_was_changed", extra={"memo": row.pk})
        return "another text than was stored", None
    gate = check(row.text, snapshot)
    if not all(check(side["text"], snapshot).passed for side in row.sides):
        return "what stands beside it is refused by the gate", None
    return ("" if gate.passed else "refused by the gate"), gate


def is_as_stored(row: Memo) -> bool:
    """Whether a row holds the text, and the sides, that were stored in it."""
    sides = row.sides
    whole = isinstance(sides, list) and all(
        isinstance(side, dict)
        and side.keys() == {"name", "text"}
        and all(isinstance(part, str) for part in side.values())
        for side in sides
    )
    return whole and row.text_sha256 == sha256_of(row.text, sides)


def sha256_of(text: str, sides: Sequence[Mapping[str, str]] = ()) -> str:
    """Hex digest of a text alone, or of a text and its sides, each part behind its length."""
    if not sides:
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return _packed([text, *(side[part] for side in sides for part in ("name", "text"))])


def _packed(parts: Sequence[str]) -> str:
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join(b"%d:%s" % (len(part), part) for part in encoded)).hexdigest()


def count_hit(row: Memo) -> None:
    """Note that the row was served without writing."""
    with contextlib.suppress(*_FAULTS), transaction.atomic():
        Memo.objects.filter(pk=row.pk).update(hits=F("hits") + 1, served_at=timezone.now())
        row.hits += 1


def keep_verdict(row: Memo, **columns: Any) -> None:
    """Keep what a judge said of the text that stands there: ``verdict`` and what belongs to it."""
    with contextlib.suppress(*_FAULTS), transaction.atomic():
        if Memo.objects.filter(pk=row.pk, text_sha256=row.text_sha256).update(**columns):
            row.refresh_from_db()


def store(
    way: Way, snapshot: Snapshot, text: str, *, sides: Sequence[Mapping[str, str]] = (), **said: Any
) -> Memo | None:
    """Keep a memo in place of the one with its key, whose hits are forgotten; None if it cannot be kept.

    ``sides``: name and text of what is kept beside it. ``said``: the other columns: reason, calls,
    verdict, verdict_tier, accepted, judged_at.
    """
    row = Memo(
        key=way.key(snapshot), product=snapshot.product, identifier=snapshot.identifier,
        mode=way.mode, variant=way.variant, model=way.model, prompt_sha256=way.prompt_sha,
        gate_version=GATE_VERSION, fingerprint=snapshot.fingerprint(),
        facts=snapshot_as_dict(snapshot), text=text, text_sha256=sha256_of(text, sides),
        sides=list(sides), written_at=timezone.now(), **said,
    )  # fmt: skip
    kept = [field.name for field in Memo._meta.concrete_fields if field.name not in {"id", "key"}]
    try:
        with transaction.atomic():
            Memo.objects.bulk_create(
                [row], update_conflicts=True, unique_fields=["key"], update_fields=kept
            )
            return Memo.objects.get(key=row.key)
    except _FAULTS:
        logger.warning("memo.not_kept", exc_info=True, extra={"product": snapshot.product})
        return None


@contextlib.contextmanager
def single_flight(key: str) -> Iterator[bool]:
    """Hold the lock of ``key`` while a memo is written; gives whether it is held.

    Waits for who holds it. The lock ends with the session, also when the process is killed; in a
    transaction of the caller it ends with that, however it ends, and not before.
    """
    number = int.from_bytes(bytes.fromhex(key[:16]), signed=True)
    by_session = not connection.in_atomic_block
    held = _locked(number, "pg_try_advisory_lock" if by_session else "pg_try_advisory_xact_lock")
    try:
        yield held
    finally:
        if held and by_session:
            with contextlib.suppress(*_FAULTS), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [number])


def _locked(number: int, function: str) -> bool:
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"SELECT {function}(%s)", [number])
                if cursor.fetchone()[0]:
                    return True
        except _FAULTS:
            logger.warning("memo.lock_unreachable", exc_info=True)
            return False
        time.sleep(POLL_S)
    logger.warning("memo.waited_too_long")
    return False
