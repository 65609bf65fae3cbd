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

from contextgraph.skills import load_skill
from memory.credit import Quadrant, credit, policy_named, quadrant, row_of
from memory.eviction_gate import with_policy, worth_below
from memory.evidence import Sums
from memory.models import RunEvidence, TipEvidence
from scoring.attribution import Cause, doubt
from scoring.models import EscalationBudget
from scoring.trace import ActionVocabulary, trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from decimal import Decimal

    from contextgraph.skills import Eviction
    from memory.models import Retrieval, Run


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
    gate = with_policy(skill.eviction)
    evidence = _evidence_of_others(rows, gate)
    found: dict[int, tuple[Stake, ...]] = {}
    for row in rows:
        _fill_trace(row, script=script, actions=skill.actions)
        before[row.pk].tip_followed_trace_verdict = row.tip_followed_trace_verdict
        others = evidence.get(row.tip_id, Sums(0, 0.0, 0.0))
        causes = [*_doubts(row), *_consequences(row, before[row.pk], others, gate)]
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
    row: Retrieval, without: Retrieval, others: Sums, gate: Eviction
) -> Iterable[Stake]:
    if _evicted(others, row, gate) != _evicted(others, without, gate):
        yield Stake.EVICTION_GATE
    if quadrant(row_of(row)) is Quadrant.MISLEADING:
        yield Stake.MISLEADING


def _evicted(others: Sums, row: Retrieval, gate: Eviction) -> bool:
    """Whether the tip falls below its gate, with this row, as it is, as one more visit."""
    worth = None if row.superseded else credit(row_of(row), policy_named(gate.policy))
    if worth is not None:
        others = Sums(others.n + 1, others.total + worth, others.squares + worth * worth)
    return others.n >= gate.min_retrievals and worth_below(gate, others) is not None


def _evidence_of_others(rows: Sequence[Retrieval], gate: Eviction) -> dict[int, Sums]:
    """Per tip: the visits of all other runs, by the sums of the last recount; two indexed reads.

    A run that is judged again has been credited before: what it gave is taken out.
    """
    tips = {row.tip_id for row in rows}
    sums = ("tip_id", "visits", "visit_total", "visit_squares")
    stored = TipEvidence.objects.filter(
        skill=rows[0].skill, policy=gate.policy, level=TipEvidence.Level.TIP, key="", tip__in=tips
    )
    found = {tip: _floats(*row) for tip, *row in stored.values_list(*sums)}
    own = RunEvidence.objects.filter(run_id=rows[0].run_id, tip__in=tips, policy=gate.policy)
    for tip, *row in own.values_list(*sums):
        found[tip] = found[tip].without(_floats(*row))
    return found


def _floats(n: int, total: Decimal, squares: Decimal) -> Sums:
    return Sums(n, float(total), float(squares))


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
