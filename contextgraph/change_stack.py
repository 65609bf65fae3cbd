"""Which changes of outcomes stand in a run, the last on top: what an undo would take back next.

Guarantees: a change is an unbroken row of revisions in a run with one batch name; a name that was used
again after something else names another change, so that taking one back never takes back what was done in
between. Each undo took back the change that was on top. One query, whatever the number of revisions.

Does not look at attempts: a change that came to nothing stands like any other until it is taken back.

Shaped by: a batch called "nightly" on two nights, whose undo lost what was corrected in between.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from django.db import connection

from memory.models import OutcomeRevision

_CHANGES = """
    SELECT run_id, cause, note, min(id), max(id)
    FROM (
        SELECT r.id, a.run_id, r.cause, r.note,
               row_number() OVER (PARTITION BY a.run_id ORDER BY r.id)
               - row_number() OVER (PARTITION BY a.run_id, r.cause, r.note ORDER BY r.id) AS apart
        FROM outcome_revisions AS r JOIN attempts AS a ON a.id = r.attempt_id
            JOIN runs ON runs.id = a.run_id
        WHERE runs.skill = %s AND coalesce(a.run_id = %s, TRUE)
    ) AS revisions
    GROUP BY run_id, cause, note, apart ORDER BY max(id)
"""
"""Gaps and islands: ``apart`` is one number within an unbroken row of revisions, another in the next."""


class Name(NamedTuple):
    """Of a change: its batch, and how often the run had seen a change of that batch, from 1."""

    batch: str
    time: int


class Standing(NamedTuple):
    """A change that nobody has taken back; ``first`` and ``last`` are primary keys of its revisions."""

    name: Name
    first: int
    last: int


def standing_changes(skill: str, run_id: int | None = None) -> dict[int, list[Standing]]:
    """Per run, the changes that stand, oldest first; a run of which none does may be there, empty."""
    with connection.cursor() as cursor:
        cursor.execute(_CHANGES, [skill, run_id])
        rows = cursor.fetchall()
    found: defaultdict[int, list[Standing]] = defaultdict(list)
    seen: Counter[tuple[int, str]] = Counter()
    for run, cause, batch, first, last in rows:
        if cause != OutcomeRevision.Cause.UNDO:
            seen[run, batch] += 1
            found[run].append(Standing(Name(batch, seen[run, batch]), first, last))
        elif found[run]:
            found[run].pop()
    return dict(found)
