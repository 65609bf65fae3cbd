"""The locks of those who write, in the one order in which all of them take them.

    1. ingest's lock of a skill       ``hold_skills(INGEST, …)``: ingest alone
    2. runs, by ascending key         ``held``, or the UPDATE that claims one
    3. the evidence lock of a skill   ``hold_evidence``: whoever shifts sums (``memory.evidence``)
    4. tips, by ascending key         ``held``: whoever retires, marks, fills or grades them

Guarantees, where it is kept: nobody waits in a circle. Who needs a later lock before an earlier one takes
the earlier one first: a re-grading takes the evidence lock before it touches a tip. Skip what is not
needed; take again what is held already; hold all until the commit.

What hangs on a run (attempts, retrievals, stages, reviews) has no place in the order: it is written by
whoever holds the run, and by the holder of a score batch, who locks his batch and then rows, and waits
for nothing else. Several retrievals are locked by ascending key, because batches of two signals, and a
late verdict, share them. A sweep is claimed before its tips, and nobody waits for one with a tip in hand.

Row locks are NO KEY: what points to a held row can still be written. Postgres checks a foreign key at
the commit, when the writer has all his rows in hand and would come to the run last.

Does not cover the lock of a memo (``scoring.memos.cache``): nobody waits for that one.

Shaped by: a dry dream pass, which holds the evidence until its end and then wanted a tip, against a
re-grading, which held the tip and wanted the evidence; and a judge whose commit waited for a run, held
by a late verdict that waited for the judge's rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.db import connection, transaction

if TYPE_CHECKING:
    from collections.abc import Collection

    from django.db.models import QuerySet

    Rows = TypeVar("Rows", bound=QuerySet[Any, Any])

INGEST: Final = 0x1D6E57
EVIDENCE: Final = 0xE71DE
"""First keys of the advisory locks; the second is a hash of the skill."""


def held(rows: Rows) -> Rows:
    """*rows* under a lock until the commit, in the order of their keys; locked when they are read."""
    return rows.order_by("pk").select_for_update(of=("self",), no_key=True)


def hold_skills(lock: int, skills: Collection[str]) -> None:
    """Take the advisory *lock* of each skill.

    Raises:
        TransactionManagementError: the caller has no transaction open.
    """
    _hold(lock, "unnest(%s::text[]) AS named (skill)", list(skills))


def hold_evidence(run_ids: Collection[int]) -> None:
    """Take the evidence lock of the skills of these runs. Raises as :func:`hold_skills`."""
    _hold(EVIDENCE, "runs WHERE id = ANY(%s)", list(run_ids))


def _hold(lock: int, source: str, values: list[Any]) -> None:
    """In the order of the lock's own key, so that two who need several skills meet no deadlock."""
    if not connection.in_atomic_block:
        msg = "a lock is taken inside the transaction that it is to guard"
        raise transaction.TransactionManagementError(msg)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, skill) FROM "  # noqa: S608 - a constant
            f"(SELECT DISTINCT hashtext(skill) AS skill FROM {source} ORDER BY 1) AS skills",
            [lock, values],
        )
