"""Rule by rule: the tips that two runs retrieved, what was made of them, and what came of it.

Guarantees: rules whose outcome changed come first (lost ones before worse ones, the deepest fall
first; then won and better ones), then those whose first k tips differ, most changes first; rules that
are alike in both are not listed but counted. Each tip says whether it is retired now, and why; each
verdict names the signal that gave it, the judge and its own label, and whether a calibration covers that
judge. Tips are those of the first attempt;
with ``every_attempt`` each attempt of A stands beside the one of B that came as early.

Reads the rows of the rules it lists and no others. Does not claim that a changed tip changed the
outcome.

Shaped by: two runs' top five typed out of SQL by hand to see why one rule was lost.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models.functions import Left, Length

from memory.credit import credit, following, row_of
from memory.models import Attempt, Retrieval, Tip
from memory.provenance import standing_of
from memory.rates import rounded
from memory.run_diff.results import Result
from memory.run_diff.scripts import Scripts, scripts_of
from memory.run_diff.top_tips import TipChange, tip_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from memory.credit import Policy
    from memory.run_diff.results import Results, RuleResult
    from memory.run_diff.top_tips import TopTips

EXCERPT = 240
"""Characters of a tip's text in a report."""


class RuleChange(enum.StrEnum):
    """What became of a rule; in the order in which rules are listed."""

    LOST = "lost"
    WORSE = "worse"
    WON = "won"
    BETTER = "better"
    SAME = "same"
    UNGRADED = "ungraded"
    ONLY_A = "only_a"
    ONLY_B = "only_b"


@dataclass(frozen=True, kw_only=True, slots=True)
class TipInRun:
    """A tip in one attempt. ``followed_source``: the first signal with an answer; credit by policy.

    ``llm_uncalibrated``: the judge said something, and no calibration covers it.
    """

    rank: int
    similarity_score: float | None
    shown: bool
    withheld: bool
    followed: bool | None
    followed_source: str | None
    llm_label: str
    llm_reason: str
    llm_source: str
    llm_uncalibrated: bool
    credit: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TipPair:
    """A tip in A and in B; None where it was not among the first k."""

    tip_id: int
    tip: str
    tip_type: str
    text: str
    retired: bool
    retired_reason: str
    change: TipChange
    a: TipInRun | None
    b: TipInRun | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptInRun:
    """How one attempt went."""

    number: int
    outcome_value: float | None
    outcome_confidence: float | None
    outcome_reason: str
    failure_mode: str
    apply_failed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptPair:
    """The n-th attempt of A beside the n-th of B."""

    a: AttemptInRun | None
    b: AttemptInRun | None
    tips: tuple[TipPair, ...]
    scripts: Scripts


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleDiff:
    """One rule in both runs; grades are the best of its attempts."""

    rule_id: str
    category: str
    change: RuleChange
    a_best: float | None
    b_best: float | None
    a_attempts: int
    b_attempts: int
    pairs: tuple[AttemptPair, ...]


def rule_change(one: RuleResult | None, two: RuleResult | None) -> RuleChange:
    """Compare the best grades."""
    if one is None or two is None:
        return RuleChange.ONLY_B if one is None else RuleChange.ONLY_A
    if one.best is None or two.best is None:
        return RuleChange.UNGRADED
    if one.result is not two.result:
        return RuleChange.WON if two.result is Result.PASSED else RuleChange.LOST
    if one.best == two.best:
        return RuleChange.SAME
    return RuleChange.BETTER if two.best > one.best else RuleChange.WORSE


GRADED_CHANGES = (RuleChange.LOST, RuleChange.WORSE, RuleChange.WON, RuleChange.BETTER)


def telling_rules(
    a: Results, b: Results, tips_a: Mapping[str, TopTips], tips_b: Mapping[str, TopTips]
) -> list[str]:
    """The rules of both runs that differ in outcome or in their first k tips, most telling first."""
    found = []
    for rule_id in a.keys() & b.keys():
        change = rule_change(a[rule_id], b[rule_id])
        moves = tip_changes(tips_a.get(rule_id, {}), tips_b.get(rule_id, {})).values()
        n_moves = sum(move is not TipChange.SAME for move in moves)
        if change in GRADED_CHANGES:
            size = abs((b[rule_id].best or 0.0) - (a[rule_id].best or 0.0))
            found.append((GRADED_CHANGES.index(change), -size, -n_moves, rule_id))
        elif n_moves:
            found.append((len(GRADED_CHANGES), 0.0, -n_moves, rule_id))
    return [rule_id for *_, rule_id in sorted(found)]


def rule_diffs(
    rule_ids: Iterable[str],
    a: Results,
    b: Results,
    *,
    policy: Policy,
    k: int,
    attempts: int = 1,
    scripts: bool = False,
) -> list[RuleDiff]:
    """The rules given, in their order; three queries.

    Args:
        rule_ids: rules of either run.
        a: the rules of run A.
        b: the rules of run B.
        policy: what an answer is worth.
        k: tips per attempt.
        attempts: how many attempts of a rule, from the first on.
        scripts: lay the scripts out line by line.
    """
    wanted = list(rule_ids)
    sides = [
        (results[rule_id].attempt_ids[:attempts] if rule_id in results else ())
        for rule_id in wanted
        for results in (a, b)
    ]
    rows = _Rows(list(itertools.chain(*sides)), policy=policy, k=k, scripts=scripts)
    return [
        _rule_diff(rule_id, a.get(rule_id), b.get(rule_id), rows, attempts) for rule_id in wanted
    ]


class _Rows:
    """What the listed attempts need, by primary key."""

    def __init__(self, attempt_ids: list[int], *, policy: Policy, k: int, scripts: bool) -> None:
        self.scripts = scripts
        found = Attempt.objects.filter(pk__in=attempt_ids).annotate(script_chars=Length("script"))
        unread = ["narrative", "evaluator_raw", "extra", *([] if scripts else ["script"])]
        self.attempts: dict[int, Any] = {one.pk: one for one in found.defer(*unread)}
        self.tips: dict[int, dict[int, TipInRun]] = {pk: {} for pk in attempt_ids}
        retrievals: list[Any] = list(
            Retrieval.objects.filter(attempt__in=attempt_ids)
            .defer("shown_text", "extra", "tip_followed_trace_evidence")
            .order_by("attempt_id", "rank", "pk")
        )
        unproved = standing_of(row.llm_source for row in retrievals).uncalibrated
        for row in retrievals:
            kept = self.tips[row.attempt_id]
            if len(kept) < k:
                kept[row.tip_id] = _tip_in_run(row, policy, unproved)
        named = {tip_id for tips in self.tips.values() for tip_id in tips}
        self.named: dict[int, Any] = {
            tip.pk: tip
            for tip in Tip.objects.filter(pk__in=named)
            .annotate(excerpt=Left("text", EXCERPT))
            .only("external_id", "tip_type", "retired_at", "retired_reason")
        }


def _tip_in_run(row: Retrieval, policy: Policy, unproved: frozenset[str]) -> TipInRun:
    plain = row_of(row)
    followed, source = following(plain)
    return TipInRun(
        rank=row.rank,
        similarity_score=rounded(row.similarity_score),
        shown=row.shown,
        withheld=row.withheld,
        followed=followed,
        followed_source=None if source is None else str(source),
        llm_label=row.llm_label,
        llm_reason=row.llm_reason,
        llm_source=row.llm_source,
        llm_uncalibrated=bool(row.llm_label) and row.llm_source in unproved,
        credit=rounded(credit(plain, policy)),
    )


def _rule_diff(
    rule_id: str, one: RuleResult | None, two: RuleResult | None, rows: _Rows, attempts: int
) -> RuleDiff:
    ids = [rule.attempt_ids[:attempts] if rule else () for rule in (one, two)]
    known = two or one
    return RuleDiff(
        rule_id=rule_id,
        category=known.category if known else "",
        change=rule_change(one, two),
        a_best=one.best if one else None,
        b_best=two.best if two else None,
        a_attempts=len(one.attempt_ids) if one else 0,
        b_attempts=len(two.attempt_ids) if two else 0,
        pairs=tuple(_attempt_pair(pk_a, pk_b, rows) for pk_a, pk_b in itertools.zip_longest(*ids)),
    )


def _attempt_pair(pk_a: int | None, pk_b: int | None, rows: _Rows) -> AttemptPair:
    a, b = (rows.attempts[pk] if pk is not None else None for pk in (pk_a, pk_b))
    tips_a, tips_b = (rows.tips[pk] if pk is not None else {} for pk in (pk_a, pk_b))
    changes = tip_changes(
        {pk: tip.rank for pk, tip in tips_a.items()}, {pk: tip.rank for pk, tip in tips_b.items()}
    )
    return AttemptPair(
        a=_attempt_in_run(a) if a else None,
        b=_attempt_in_run(b) if b else None,
        tips=tuple(
            _tip_pair(rows.named[pk], change, tips_a.get(pk), tips_b.get(pk))
            for pk, change in changes.items()
        ),
        scripts=scripts_of(a, b, lines=rows.scripts),
    )


def _tip_pair(tip: Any, change: TipChange, a: TipInRun | None, b: TipInRun | None) -> TipPair:
    return TipPair(
        tip_id=tip.pk,
        tip=tip.external_id,
        tip_type=tip.tip_type,
        text=tip.excerpt,
        retired=tip.retired_at is not None,
        retired_reason=tip.retired_reason,
        change=change,
        a=a,
        b=b,
    )


def _attempt_in_run(attempt: Attempt) -> AttemptInRun:
    return AttemptInRun(
        number=attempt.number,
        outcome_value=attempt.outcome_value,
        outcome_confidence=attempt.outcome_confidence,
        outcome_reason=attempt.outcome_reason,
        failure_mode=attempt.failure_mode,
        apply_failed=attempt.apply_failed,
    )
