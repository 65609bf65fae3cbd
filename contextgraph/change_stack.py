"""Which changes of outcomes stand in a run, the last on top: what an undo would take back next.

Guarantees: a change is an unbroken row of revisions in a run with one batch name; a name that was used
again after something else names another change of the run, so that taking one back never takes back what
was done in between. Each undo took back the change that was on top. One query; asked of one run, it reads
the revisions of that run alone.

Does not look at attempts: a change that came to nothing stands like any other until it is taken back.
Does not number the changes of a name: how often one run saw a name says nothing about another run, and
which of them belong together is for the caller to say (``contextgraph.regrading.undo``).

Shaped by: a batch called "nightly" on two nights, whose undo lost what was corrected in between; and the
same two nights in two runs, counted in each, whose undo took back one run's first with another's second.
"""

from __future__ import annotations

from collections import defaultdict
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
        WHERE runs.skill = %(skill)s AND {which}
    ) AS revisions
    GROUP BY run_id, cause, note, apart ORDER BY max(id)
"""
"""Gaps and islands: ``apart`` is one number within an unbroken row of revisions, another in the next."""


class Standing(NamedTuple):
    """A change that nobody has taken back; ``first`` and ``last`` are primary keys of its revisions.

    ``first`` stays; ``last`` grows while the batch goes on and nothing else comes between.
    """

    batch: str
    first: int
    last: int


def standing_changes(skill: str, run_id: int | None = None) -> dict[int, list[Standing]]:
    """Per run, the changes that stand, oldest first; a run of which none does may be there, empty."""
    # no condition that holds for all runs as well: such a one can use no index
    which = "TRUE" if run_id is None else "a.run_id = %(run)s"
    with connection.cursor() as cursor:
        cursor.execute(_CHANGES.format(which=which), {"skill": skill, "run": run_id})
        rows = cursor.fetchall()
    found: defaultdict[int, list[Standing]] = defaultdict(list)
    for run, cause, batch, first, last in rows:
        if cause != OutcomeRevision.Cause.UNDO:
            found[run].append(Standing(batch, first, last))
        elif found[run]:
            found[run].pop()
    return dict(found)
