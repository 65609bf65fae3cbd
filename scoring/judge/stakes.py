"""Which verdicts deserve the stronger judge, and how many of them a run may have.

Guarantees: a verdict is put to the stronger judge for a named cause: it was asked for with the run
(``run.high_stakes``), the cheap judge could not tell or could not prove it, another signal says the
opposite, or something follows from it (the tip crosses its skill's eviction gate, or enters the list
of misleading tips). What follows is asked of all verdicts of the run that are known by then, on top of
what other runs say: of verdicts that move a tip together, the one that completes the move is put to the
stronger judge; when several came at the same moment, each of those that are looked at before one of
them was. A row that a person has reviewed is never escalated. Every escalation is counted before it is
asked, and a run has at most JUDGE_ESCALATIONS_PER_RUN.

The trace of the rows at hand is computed here where its batch has not come by, so that the order of
batches decides nothing about them; the cosine, and the other rows of the run, are used as they stand
(one that is not judged yet counts as unknown, as it would if the run ended now).
Shaped by second opinions asked for everything, and by five verdicts that retired a tip together, of
which none did alone.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Sum
from django.db.models.functions import Greatest

from contextgraph.skills import load_skill
from memory.credit import (
    Quadrant,
    credit,
    credit_sql,
    policy_named,
    quadrant,
    quadrant_q,
    row_of,
)
from memory.eviction_gate import with_policy, worth_below
from memory.evidence import NOTHING, Sums
from memory.models import Retrieval, RunEvidence, TipEvidence
from memory.tallies import exact
from scoring.attribution import Cause, doubt
from scoring.judge.bench import HIGH_STAKES
from scoring.models import EscalationBudget, Judgement
from scoring.trace import ActionVocabulary, trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from decimal import Decimal

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


@dataclass(frozen=True, slots=True)
class _Record:
    """What is known of a tip without the rows at hand.

    ``others`` and ``misled``: visits, and misleading rows, of all other runs; ``visits`` (rule, number
    and total of credits) and ``misled_here``: those of this run's other rows, with their verdicts so far.
    A run's attempts at one rule are one observation (``memory.evidence``).
    """

    others: Sums = NOTHING
    misled: int = 0
    visits: tuple[tuple[str, int, float], ...] = ()
    misled_here: int = 0


@dataclass(frozen=True, slots=True)
class _Standing:
    """Where a tip stands: below its skill's eviction gate, on the list of misleading tips."""

    evicted: bool
    listed: bool


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
    found: dict[int, list[Stake]] = {}
    of_tip: dict[int, list[Retrieval]] = defaultdict(list)
    for row in rows:
        _fill_trace(row, script=script, actions=skill.actions)
        before[row.pk].tip_followed_trace_verdict = row.tip_followed_trace_verdict
        found[row.pk] = list(_doubts(row))
        of_tip[row.tip_id].append(row)
    gate = with_policy(skill.eviction)
    records = _records(rows, gate)
    for tip_id, part in of_tip.items():
        without = [before[row.pk] for row in part]
        for pk, cause in _consequences(part, without, records[tip_id], gate):
            found[pk].append(cause)
    caused = {pk: tuple(causes) for pk, causes in found.items() if causes}
    return dict(sorted(caused.items(), key=lambda item: (-len(item[1]), item[0])))


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
    rows: Sequence[Retrieval], without: Sequence[Retrieval], record: _Record, gate: Eviction
) -> Iterable[tuple[int, Stake]]:
    """What follows from the verdicts on *rows*, which are about one tip: primary key and cause."""
    policy = policy_named(gate.policy)
    now, before = _standing(rows, record, gate), _standing(without, record, gate)
    elsewhere = _standing((), _Record(record.others, record.misled), gate)
    for row, old in zip(rows, without, strict=True):
        counts = _worth(row, policy) != _worth(old, policy)
        if counts and _moved(
            row,
            Stake.EVICTION_GATE,
            now=now.evicted,
            before=before.evicted,
            elsewhere=elsewhere.evicted,
        ):
            yield row.pk, Stake.EVICTION_GATE
        misled = _misled(row) and not _misled(old)
        if misled and _moved(
            row, Stake.MISLEADING, now=now.listed, before=before.listed, elsewhere=elsewhere.listed
        ):
            yield row.pk, Stake.MISLEADING


def _moved(row: Retrieval, stake: Stake, *, now: bool, before: bool, elsewhere: bool) -> bool:
    """Whether the tip stands elsewhere by the verdicts at hand; or by those of the whole run, none of
    which the stronger judge has given its word on: they came at once, or it was away."""
    if now != before:
        return True
    if now == elsewhere:
        return False
    asked = Judgement.objects.filter(
        retrieval__run_id=row.run_id,
        retrieval__tip_id=row.tip_id,
        tier=HIGH_STAKES,
        stakes__contains=[stake.value],
    )
    return not asked.exclude(label="").exists()


def _standing(rows: Sequence[Retrieval], record: _Record, gate: Eviction) -> _Standing:
    """Where a tip stands with these rows, as they are, on top of its record."""
    policy = policy_named(gate.policy)
    visits = {rule: (n, total) for rule, n, total in record.visits}
    for row in rows:
        worth = _worth(row, policy)
        if worth is not None:
            n, total = visits.get(row.rule_id, (0, 0.0))
            visits[row.rule_id] = n + 1, total + worth
    means = [total / n for n, total in visits.values()]
    sums = Sums(
        record.others.n + len(means),
        record.others.total + sum(means),
        record.others.squares + sum(mean * mean for mean in means),
    )
    below = sums.n >= gate.min_retrievals and worth_below(gate, sums) is not None
    misled = record.misled + record.misled_here + sum(map(_misled, rows))
    return _Standing(evicted=below, listed=misled > 0)


def _worth(row: Retrieval, policy: Policy) -> float | None:
    return None if row.superseded else credit(row_of(row), policy)


def _misled(row: Retrieval) -> bool:
    return not row.superseded and quadrant(row_of(row)) is Quadrant.MISLEADING


def _records(rows: Sequence[Retrieval], gate: Eviction) -> defaultdict[int, _Record]:
    """Per tip, by three indexed reads: what other runs say, by the sums of the last recount, and this
    one by its rows."""
    tips = {row.tip_id for row in rows}
    found: defaultdict[int, _Record] = defaultdict(_Record)
    for tip_id, (sums, misled) in _other_runs(rows[0], tips, gate).items():
        found[tip_id] = _Record(sums, misled)
    earned = credit_sql(policy_named(gate.policy))
    here = Retrieval.objects.counted().filter(run_id=rows[0].run_id, tip__in=tips)
    visits = (
        here.exclude(pk__in=[row.pk for row in rows])
        .order_by()
        .values("tip_id", "rule_id")
        .annotate(
            n=Count(earned),
            total=Sum(exact(earned)),
            misled=Count("pk", filter=quadrant_q(Quadrant.MISLEADING)),
        )
    )
    for visit in visits:
        known = found[visit["tip_id"]]
        seen = (visit["rule_id"], visit["n"], float(visit["total"] or 0))
        found[visit["tip_id"]] = _Record(
            known.others,
            known.misled,
            (*known.visits, seen) if visit["n"] else known.visits,
            known.misled_here + visit["misled"],
        )
    return found


def _other_runs(row: Retrieval, tips: set[int], gate: Eviction) -> dict[int, tuple[Sums, int]]:
    """Visits and misleading rows. A run that is judged again has been credited before: what it gave is
    taken out."""
    columns = ("tip_id", "visits", "visit_total", "visit_squares", "misleading")
    stored = TipEvidence.objects.filter(
        skill=row.skill, policy=gate.policy, level=TipEvidence.Level.TIP, key="", tip__in=tips
    )
    found = {tip: _floats(*sums) for tip, *sums in stored.values_list(*columns)}
    own = RunEvidence.objects.filter(run_id=row.run_id, tip__in=tips, policy=gate.policy)
    for tip, *sums in own.values_list(*columns):
        all_of_it, misled = found.get(tip, (NOTHING, 0))
        part, misled_here = _floats(*sums)
        found[tip] = all_of_it.without(part), max(0, misled - misled_here)
    return found


def _floats(n: int, total: Decimal, squares: Decimal, misled: int) -> tuple[Sums, int]:
    return Sums(n, float(total), float(squares)), misled


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


def give_back(run_id: int, unused: int) -> None:
    """Return escalations that were granted and could not be asked."""
    if unused:
        budget = EscalationBudget.objects.filter(pk=run_id)
        budget.update(spent=Greatest(F("spent") - unused, 0))
