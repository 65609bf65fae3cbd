"""What scoring again changed: the judge's standing label of a row against the one that stood before.

Guarantees: read from judgements, which are appended and never edited, so that it can be asked at any
time after the scores are in; a label that a stronger judge superseded in the same round is not one that
stood. Rows that were judged once are not compared. One query for a run.

Does not know earlier cosines and traces: those are replaced, and what their change did to credit stands
in the report of the dream pass.

Shaped by: a new prompt whose effect on credit was seen, and whose effect on labels was not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from django.db import connection

if TYPE_CHECKING:
    from memory.models import Run


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelChange:
    """Rows that went from one label to another, or kept it."""

    before: str
    after: str
    rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelChanges:
    """``table``: most frequent pair first."""

    table: tuple[LabelChange, ...]

    @property
    def compared(self) -> int:
        """Rows that were judged more than once."""
        return sum(pair.rows for pair in self.table)

    @property
    def changed(self) -> int:
        """Those of them with another label."""
        return sum(pair.rows for pair in self.table if pair.before != pair.after)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "compared": self.compared,
            "changed": self.changed,
            "table": [asdict(pair) for pair in self.table],
        }


def label_changes(run: Run) -> LabelChanges:
    """The last two labels that stood, of each row of *run* that has two."""
    with connection.cursor() as cursor:
        cursor.execute(
            """WITH stood AS (
                SELECT j.retrieval_id, j.label,
                    row_number() OVER (PARTITION BY j.retrieval_id ORDER BY j.id DESC) AS back
                FROM scoring_judgement AS j JOIN tip_retrievals AS r ON r.id = j.retrieval_id
                WHERE r.run_id = %s AND j.label <> '' AND NOT EXISTS (
                    SELECT FROM scoring_judgement AS s WHERE s.supersedes_id = j.id AND s.label <> '')
            )
            SELECT old.label, new.label, count(*)
            FROM stood AS new JOIN stood AS old USING (retrieval_id)
            WHERE new.back = 1 AND old.back = 2
            GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2""",
            [run.pk],
        )
        pairs = cursor.fetchall()
    return LabelChanges(
        table=tuple(LabelChange(before=old, after=new, rows=n) for old, new, n in pairs)
    )
