"""How each rule went in a run, and two runs against each other: matrix, wins, regressions, categories.

A rule *succeeded* when a graded attempt of it has a value above SUCCESS_ABOVE. Guarantees: a rule is one
pair, however many attempts it took; a rule without a graded attempt is neither a success nor a failure
but left out, and counted; lists are in a fixed order, worst first. Reads the attempts of the runs given
and no script; one query per run.

Does not grade: two runs that were graded by different graders are compared as they stand (the report
says so in its notes).

Shaped by: fix rates of which some counted skipped rules and some did not, in the same table.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memory.credit import SUCCESS_ABOVE
from memory.models import Attempt
from memory.rates import rounded
from memory.run_diff.paired import Paired, in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memory.models import Run


class Result(enum.StrEnum):
    """How a rule ended in a run."""

    PASSED = "passed"
    FAILED = "failed"
    UNGRADED = "ungraded"
    ABSENT = "absent"


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleResult:
    """One rule in one run. ``best``: highest grade of its attempts; ``first``: that of number 1.

    A log that lost attempt 1 does not say how the first one went.
    """

    rule_id: str
    category: str
    attempt_ids: tuple[int, ...]
    best: float | None
    first: float | None

    @property
    def result(self) -> Result:
        """Of any attempt."""
        return result_of(self.best)


Results = dict[str, RuleResult]
"""The rules of one run by id."""


def result_of(value: float | None) -> Result:
    """What a grade amounts to."""
    if value is None:
        return Result.UNGRADED
    return Result.PASSED if value > SUCCESS_ABOVE else Result.FAILED


def rule_results(run: Run) -> Results:
    """The rules of *run*, attempts in the order of their numbers; the category is the first one's."""
    rows = (
        Attempt.objects.filter(run=run)
        .order_by("rule_id", "number")
        .values_list("rule_id", "pk", "category", "outcome_value", "number")
    )
    grouped: dict[str, list[tuple[int, str, float | None]]] = {}
    firsts: dict[str, float | None] = {}
    for rule_id, pk, category, value, number in rows.iterator():
        grouped.setdefault(rule_id, []).append((pk, category, value))
        if number == 1:
            firsts[rule_id] = value
    return {
        rule_id: RuleResult(
            rule_id=rule_id,
            category=attempts[0][1],
            attempt_ids=tuple(pk for pk, _, _ in attempts),
            best=max((value for _, _, value in attempts if value is not None), default=None),
            first=firsts.get(rule_id),
        )
        for rule_id, attempts in grouped.items()
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Flip:
    """A rule that one run solved and the other did not, with the best grade in each."""

    rule_id: str
    category: str
    a: float
    b: float

    @property
    def change(self) -> float:
        """Grade in B less grade in A."""
        return self.b - self.a


@dataclass(frozen=True, kw_only=True, slots=True)
class CategoryDelta:
    """One category, over the rules graded in both runs."""

    category: str
    table: Paired

    def as_dict(self) -> dict[str, Any]:
        """Plain data; ``delta`` is the rate in B less that in A."""
        return {
            "category": self.category,
            "a": self.table.rate_a.as_dict(),
            "b": self.table.rate_b.as_dict(),
            "wins": self.table.wins,
            "regressions": self.table.regressions,
            "delta": rounded(self.table.difference),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Paired success by one definition. ``left_out``: rules of both runs that lack a grade in one."""

    counts: str
    table: Paired
    left_out: int

    def as_dict(self) -> dict[str, Any]:
        """The figures, and the finding in words."""
        return {
            "counts": self.counts,
            **self.table.as_dict(),
            "left_out": self.left_out,
            "in_words": in_words(self.table),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    """Two runs rule by rule. ``matrix``: counts by how a rule ended in A, then by how in B.

    Lists hold at most the report's limit of entries; ``n_…`` counts them all.
    """

    matrix: dict[str, dict[str, int]]
    any_attempt: Comparison
    first_attempt: Comparison
    wins: tuple[Flip, ...]
    regressions: tuple[Flip, ...]
    categories: tuple[CategoryDelta, ...]
    n_only_a: int
    n_only_b: int
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def outcomes(a: Results, b: Results, *, limit: int) -> Outcomes:
    """Compare; the worst regressions, the best wins and the categories that fell most come first."""
    flips = _flips(a, b)
    only_a, only_b = sorted(a.keys() - b.keys()), sorted(b.keys() - a.keys())
    regressions = [flip for flip in flips if flip.change < 0]
    wins = [flip for flip in flips if flip.change > 0]
    wins.sort(key=lambda flip: (-flip.change, flip.rule_id))
    return Outcomes(
        matrix=_matrix(a, b),
        any_attempt=_comparison("success of any attempt", a, b, lambda rule: rule.best),
        first_attempt=_comparison("success of the first attempt", a, b, lambda rule: rule.first),
        wins=tuple(wins[:limit]),
        regressions=tuple(regressions[:limit]),
        categories=tuple(_categories(a, b)[:limit]),
        n_only_a=len(only_a),
        n_only_b=len(only_b),
        only_a=tuple(only_a[:limit]),
        only_b=tuple(only_b[:limit]),
    )


def paired(a: Mapping[str, float | None], b: Mapping[str, float | None]) -> Paired:
    """The 2x2 table of the rules that have a grade in both."""
    counts = {(one, two): 0 for one in (True, False) for two in (True, False)}
    for rule_id in a.keys() & b.keys():
        one, two = a[rule_id], b[rule_id]
        if one is not None and two is not None:
            counts[one > SUCCESS_ABOVE, two > SUCCESS_ABOVE] += 1
    return Paired(
        both=counts[True, True],
        wins=counts[False, True],
        regressions=counts[True, False],
        neither=counts[False, False],
    )


def _comparison(
    counts: str, a: Results, b: Results, grade: Callable[[RuleResult], float | None]
) -> Comparison:
    table = paired(
        {rule_id: grade(rule) for rule_id, rule in a.items()},
        {rule_id: grade(rule) for rule_id, rule in b.items()},
    )
    return Comparison(counts=counts, table=table, left_out=len(a.keys() & b.keys()) - table.n)


def _matrix(a: Results, b: Results) -> dict[str, dict[str, int]]:
    found = {str(one): {str(two): 0 for two in Result} for one in Result}
    for rule_id in a.keys() | b.keys():
        one = a[rule_id].result if rule_id in a else Result.ABSENT
        two = b[rule_id].result if rule_id in b else Result.ABSENT
        found[one][two] += 1
    return found


def _flips(a: Results, b: Results) -> list[Flip]:
    """Rules that passed in one run and failed in the other: worst change first, then by id."""
    found = []
    for rule_id in a.keys() & b.keys():
        one, two = a[rule_id], b[rule_id]
        if one.best is None or two.best is None or one.result is two.result:
            continue
        found.append(Flip(rule_id=rule_id, category=two.category, a=one.best, b=two.best))
    return sorted(found, key=lambda flip: (flip.change, flip.rule_id))


def _categories(a: Results, b: Results) -> list[CategoryDelta]:
    """Rules by their category in B; what fell most first, then the larger category."""
    names: dict[str, list[str]] = {}
    for rule_id in a.keys() & b.keys():
        names.setdefault(b[rule_id].category, []).append(rule_id)
    tables = {
        category: paired(
            {rule_id: a[rule_id].best for rule_id in rules},
            {rule_id: b[rule_id].best for rule_id in rules},
        )
        for category, rules in names.items()
    }
    found = [CategoryDelta(category=name, table=table) for name, table in tables.items() if table.n]
    return sorted(found, key=lambda one: (one.table.difference or 0.0, -one.table.n, one.category))
