"""Which verdicts deserve the stronger judge, and how many of them a run may have.

Guarantees: a verdict is put to the stronger judge for a named cause: it was asked for with the run
(``run.high_stakes``), the cheap judge could not tell or could not prove it, another signal says the
opposite, or something would follow from it (the tip crosses its skill's eviction gate, or enters the
list of misleading tips). A row that a person has reviewed is never escalated. Every escalation is
counted before it is asked, and a run has at most JUDGE_ESCALATIONS_PER_RUN.

The trace is computed here where its batch has not come by, so that the order of batches decides
nothing; the cosine is used where it is there. Shaped by second opinions asked for everything.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Sum

from contextgraph.skills import load_skill
from memory.credit import Quadrant, credit, credit_sql, policy_named, quadrant, row_of
from memory.models import Retrieval
from scoring.attribution import Cause, doubt
from scoring.models import EscalationBudget
from scoring.trace import ActionVocabulary, trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from contextgraph.skills import Eviction
    from memory.credit import Policy
    from memory.models import Run


class Stake(enum.StrEnum):
    """Why the stronger judge is asked."""

    ASKED_FOR = "asked_for"
    UNCLEAR = "unclear"
    AGAINST_TRACE = "against_trace"
    AGAINST_COSINE = "against_cosine"
    EVICTION_GATE = "eviction_gate"
    MISLEADING = "misleading"


_OF_DOUBT: Final = {
    Cause.JUDGE_UNCLEAR: Stake.UNCLEAR,
    Cause.JUDGE_AGAINST_TRACE: Stake.AGAINST_TRACE,
    Cause.JUDGE_AGAINST_COSINE: Stake.AGAINST_COSINE,
}


def asked_for(run: Run) -> bool:
    """Whether the sender asked for the stronger judge: ``"high_stakes": true`` in the run's header."""
    return run.extra.get("high_stakes") is True


def stakes_of(
    rows: Sequence[Retrieval], *, before: Mapping[int, Retrieval], script: str
) -> dict[int, tuple[Stake, ...]]:
    """Primary key -> causes, for the rows that have any; most causes first.

    ``rows`` carry the verdict, ``before`` the same rows (by primary key) as they were without it;
    ``script`` is the attempt's.
    """
    rows = [row for row in rows if row.shown and row.tip_followed_review is None]
    if not rows:
        return {}
    skill = load_skill(settings.PROMPTS_DIR, rows[0].skill)
    evidence = _evidence_of_others(rows)
    found: dict[int, tuple[Stake, ...]] = {}
    for row in rows:
        _fill_trace(row, script=script, actions=skill.actions)
        before[row.pk].tip_followed_trace_verdict = row.tip_followed_trace_verdict
        others = evidence.get(row.tip_id, (0, 0.0))
        causes = [*_doubts(row), *_consequences(row, before[row.pk], others, skill.eviction)]
        if causes:
            found[row.pk] = tuple(causes)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def _doubts(row: Retrieval) -> Iterable[Stake]:
    seen = doubt(row)
    causes = seen.causes if seen else ()
    return [_OF_DOUBT[cause] for cause in causes if cause in _OF_DOUBT]


def _fill_trace(row: Retrieval, *, script: str, actions: dict[str, object]) -> None:
    if row.tip_followed_trace_verdict or row.trace_reason:
        return
    vocabulary = ActionVocabulary.from_mapping(actions) if actions else ActionVocabulary.default()
    result = trace(tip=row.shown_text, script=script, vocabulary=vocabulary)
    row.tip_followed_trace = result.score
    row.tip_followed_trace_verdict = result.verdict.value


def _consequences(
    row: Retrieval, without: Retrieval, others: tuple[int, float], gate: Eviction
) -> Iterable[Stake]:
    if _evicted(others, row, gate) != _evicted(others, without, gate):
        yield Stake.EVICTION_GATE
    if quadrant(row_of(row)) is Quadrant.MISLEADING:
        yield Stake.MISLEADING


def _evicted(others: tuple[int, float], row: Retrieval, gate: Eviction) -> bool:
    """Whether the tip falls below its gate, with this row as it is."""
    n, total = others
    worth = None if row.superseded else credit(row_of(row), _policy())
    if worth is not None:
        n, total = n + 1, total + worth
    return n >= gate.min_retrievals and total / n < gate.threshold


def _evidence_of_others(rows: Sequence[Retrieval]) -> dict[int, tuple[int, float]]:
    """Per tip, over all counted rows but these: how many have a credit, and its sum."""
    counted = Retrieval.objects.counted().filter(tip_id__in={row.tip_id for row in rows})
    found = (
        counted.exclude(pk__in=[row.pk for row in rows])
        .order_by()
        .annotate(worth=credit_sql(_policy()))
        .values("tip_id")
        .annotate(n=Count("worth"), total=Sum("worth"))
    )
    return {tip["tip_id"]: (tip["n"], float(tip["total"] or 0.0)) for tip in found}


def _policy() -> Policy:
    return policy_named(settings.CREDIT_POLICY)


def claim(run_id: int, wanted: int) -> int:
    """Take up to ``wanted`` escalations from the run's budget; returns how many were granted."""
    with transaction.atomic():
        EscalationBudget.objects.bulk_create(
            [EscalationBudget(run_id=run_id)], ignore_conflicts=True
        )
        budget = EscalationBudget.objects.select_for_update().get(pk=run_id)
        granted: int = min(wanted, max(0, settings.JUDGE_ESCALATIONS_PER_RUN - budget.spent))
        if granted:
            EscalationBudget.objects.filter(pk=run_id).update(spent=budget.spent + granted)
    return granted
