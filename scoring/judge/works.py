"""The open rows of a batch, put together by script: what may be asked about in one call.

Guarantees: rows of attempts with the very same script (and skill) come together, secrets are taken
out of script and tips before anything else sees them, and a row that was tried before is asked alone,
so that one poisonous tip costs its neighbours one try and not all. Rows least tried come first.

Shaped by an attempt of five tips that was asked about five times, and by a tip that killed whoever
asked about it, and took four others along.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import F

from memory.models import Attempt
from scoring import batches
from scoring.judge.prompt import MAX_SCRIPT_CHARS, MAX_TIP_CHARS
from scoring.judge.redact import Redacted, redact_within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory.models import Retrieval
    from scoring.models import ScoreBatch


@dataclass(frozen=True, slots=True)
class Work:
    """A script and the rows that ask about it.

    ``script`` is as stored, ``sent`` as it may leave, and ``tips`` (by primary key of the row) too;
    ``cross_skill`` are the rows whose tip belongs to another skill than their run.
    """

    skill: str
    script: str
    sent: Redacted
    rows: list[Retrieval]
    tips: dict[int, Redacted]
    cross_skill: frozenset[int]

    def redactions(self, row: Retrieval) -> dict[str, dict[str, int]]:
        """What was taken out for this row: text -> kind -> count."""
        return {"script": self.sent.kinds, "tip": self.tips[row.pk].kinds}


@functools.lru_cache(maxsize=4096)
def _tip(text: str) -> Redacted:
    """A run shows the same tips again and again, and so does the next run."""
    return redact_within(text, MAX_TIP_CHARS)


def works_of(batch: ScoreBatch) -> Iterator[Work]:
    """The open rows of *batch*, by script; those with the least tried rows first.

    They are read at once, but secrets are looked for when a script's turn has come: threads that begin
    their batches together would all be at it before the first of them asks anything.
    """
    open_ = batches.rows_of(batch)
    rows = list(open_.defer("extra", "tip_followed_trace_evidence").order_by("llm_tries", "pk"))
    scripts = dict(
        Attempt.objects.filter(pk__in={row.attempt_id for row in rows}).values_list("pk", "script")
    )
    strangers = frozenset(open_.exclude(tip__skill=F("skill")).values_list("pk", flat=True))
    by_script: dict[tuple[str, str], list[Retrieval]] = defaultdict(list)
    for row in rows:
        by_script[row.skill, scripts[row.attempt_id] or ""].append(row)
    for (skill, script), part in by_script.items():
        yield Work(
            skill=skill,
            script=script,
            sent=redact_within(script, MAX_SCRIPT_CHARS),
            rows=part,
            tips={row.pk: _tip(row.shown_text) for row in part},
            cross_skill=strangers.intersection(row.pk for row in part),
        )
