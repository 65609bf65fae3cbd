"""Rows on which the machine signals disagree, for people to decide: read in a window of recent runs.

Guarantees: the causes are those of ``scoring.attribution.doubt``, in SQL (a property test holds the two
equal on rows whose p is stored); every query starts from the runs of a skill by an index and reads the
rows of those runs and no others, however long the history is; a row that somebody has reviewed is out
of the queue, also when the answer was "cannot tell". The order is that of a recount: most causes first,
then nearest to one half, then the older row.

Does not list a run that was never finished: its signals are not all there yet. Does not look at rows
older than the window: they are reached by naming their run.

Shaped by: a judge and an embedding whose disagreements were counted by hand, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Case, Exists, F, IntegerField, OuterRef, Q, Value, When
from django.db.models.functions import Abs

from memory.models import Retrieval, Run
from memory.querysets import can_be_stored
from scoring.attribution import DOUBT_WITHIN, FAR_TEXTS, NEAR_TEXTS, Cause
from scoring.models import Review

if TYPE_CHECKING:
    from memory.querysets import RetrievalQuerySet

WINDOWS: Final = (5, 20, 100)
"""Latest final runs of the skill that may be looked at; the first is the default."""

DISAGREEMENTS: Final = (
    Cause.JUDGE_AGAINST_TRACE,
    Cause.JUDGE_AGAINST_COSINE,
    Cause.JUDGE_UNCLEAR,
)
"""What the queue asks for unless told otherwise. "Uncertain" is not among them: without a judge nearly
every row is."""

SETTLED_TRACE: Final = ("violated", "not_followed")

_YES, _NO = Q(tip_followed_llm=True), Q(tip_followed_llm=False)

CAUSES: Final[dict[Cause, Q]] = {
    Cause.UNCERTAIN: Q(
        tip_followed_p__gte=0.5 - DOUBT_WITHIN, tip_followed_p__lte=0.5 + DOUBT_WITHIN
    ),
    Cause.JUDGE_AGAINST_TRACE: _YES & Q(tip_followed_trace_verdict__in=SETTLED_TRACE)
    | _NO & Q(tip_followed_trace_verdict="followed"),
    Cause.JUDGE_AGAINST_COSINE: _YES & Q(tip_followed_emb__lt=FAR_TEXTS)
    | _NO & Q(tip_followed_emb__gte=NEAR_TEXTS),
    Cause.JUDGE_UNCLEAR: Q(llm_label="unclear"),
}
"""Per cause the rows that have it; of rows that were shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """What a reviewer has asked for. ``run``: that run alone, whatever the window."""

    skill: str
    run: Run | None = None
    window: int = WINDOWS[0]
    cause: Cause | None = None
    undecided: bool = False
    """Rows of which a person could not tell, in place of those that nobody has looked at."""

    def rows(self) -> RetrievalQuerySet:
        """The queue, in its order; wide columns are not loaded."""
        wanted = (self.cause,) if self.cause else DISAGREEMENTS
        condition = Q(pk__in=[])
        for cause in wanted:
            condition |= CAUSES[cause]
        reviewed = Exists(Review.objects.filter(retrieval=OuterRef("pk")))
        rows = Retrieval.objects.counted().filter(
            condition,
            reviewed if self.undecided else ~reviewed,
            run__in=self.runs(),
            shown=True,
            tip_followed_review__isnull=True,
        )
        return rows.annotate(
            causes=sum((_holds(condition) for condition in CAUSES.values()), Value(0)),
            from_half=Abs(F("tip_followed_p") - Value(0.5)),
        ).order_by("-causes", F("from_half").asc(nulls_last=True), "pk")

    def runs(self) -> list[int]:
        """Primary keys of the runs that are looked at, latest first."""
        if self.run is not None:
            return [self.run.pk]
        runs = Run.objects.current().filter(skill=self.skill, status=Run.Status.DONE)
        return list(runs.order_by("-started_at").values_list("pk", flat=True)[: self.window])


def _holds(condition: Q) -> Any:
    return Case(When(condition, then=1), default=0, output_field=IntegerField())


def run_named(key: str) -> Run | None:
    """The current run with this primary key; None when *key* names none."""
    if not (can_be_stored(key) and key.isascii() and key.isdigit() and len(key) < 19):
        return None
    return Run.objects.current().filter(pk=int(key)).first()
