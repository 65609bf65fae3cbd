"""Two runs of one skill, compared: rule by rule, in outcomes, and whether the difference is noise.

``diff_runs(a, b, …)`` gives a RunDiff, ``run_matrix`` compares the last runs with each other; ``render``
prints them, ``as_dict`` is the JSON. Guarantees: both runs are of one skill, or it is an error; reads
only the rows of the two runs (of the runs looked back over, for chronic failures), whatever the memory
holds beside them; the same rows give the same report. Superseded revisions may be compared when named
by primary key, and the notes say so: that is how the effect of a second grading is seen.

Does not prove that memory made the difference: model, agent, grader and machine differ too; what of it
is recorded on the runs stands in the notes.

Shaped by: a run 3 points worse than the last one, and a day spent on lining up retrievals by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory.audit.plain import fields_as_data
from memory.models import Attempt
from memory.run_diff.history import (
    RUNS,
    RUNS_AT_MOST,
    ChronicFailures,
    RunMatrix,
    TooFewRuns,
    chronic_failures,
    run_matrix,
)
from memory.run_diff.results import Outcomes, Results, outcomes, rule_results
from memory.run_diff.rules import RuleDiff, rule_diffs, telling_rules
from memory.run_diff.top_tips import TipTurnover, top_tips, turnover
from memory.snapshot import one_moment

if TYPE_CHECKING:
    from datetime import datetime

    from memory.credit import Policy
    from memory.models import Run

__all__ = [
    "LIMIT",
    "RUNS",
    "RUNS_AT_MOST",
    "K",
    "RunDiff",
    "RunDiffError",
    "RunMatrix",
    "TooFewRuns",
    "diff_runs",
    "matrix_as_dict",
    "run_matrix",
]  # fmt: skip

DIFF_VERSION: Final = 1
MATRIX_VERSION: Final = 1
"""Of the shape of the JSON."""

K: Final = 5
"""Tips per rule, as many as the ranker gives to a prompt unless told otherwise."""

LIMIT: Final = 15
"""Entries per list."""


class RunDiffError(ValueError):
    """The two runs cannot be compared; says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHead:
    """One side of the comparison. ``graders``: name@version of those that graded its attempts."""

    run_id: int
    external_id: str
    status: str
    revision: int
    superseded: bool
    started_at: datetime
    model: str
    environment_tag: str
    graders: tuple[str, ...]
    rules: int
    attempts: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDiff:
    """The report. ``rule``: the one it is about, every attempt of it with its script; None: all.

    ``n_telling``: rules that differ in outcome or in their first *k* tips; ``rules`` are the first
    *limit* of them.
    """

    skill: str
    a: RunHead
    b: RunHead
    policy: str
    k: int
    limit: int
    rule: str | None
    notes: tuple[str, ...]
    n_telling: int
    rules: tuple[RuleDiff, ...]
    tips: TipTurnover
    outcomes: Outcomes
    chronic: ChronicFailures

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON: numbers rounded to six places, times in ISO 8601."""
        return {"version": DIFF_VERSION, **fields_as_data(self)}


def matrix_as_dict(matrix: RunMatrix) -> dict[str, Any]:
    """Plain data for JSON."""
    return {"version": MATRIX_VERSION, **fields_as_data(matrix)}


def diff_runs(
    a: Run,
    b: Run,
    *,
    policy: Policy,
    rule: str | None = None,
    k: int = K,
    limit: int = LIMIT,
    runs: int = RUNS,
) -> RunDiff:
    """Compare *a* (before) with *b* (after), as of one moment.

    Args:
        a: a run; the earlier one by habit, which is not asked for.
        b: another run of the same skill.
        policy: what credit the tips of the listed rules are shown with.
        rule: only this rule, with every attempt and its script.
        k: tips per rule.
        limit: entries per list; with *rule*, attempts.
        runs: how many runs up to *b* a rule must have failed in to be chronic.

    Raises:
        RunDiffError: runs of two skills, one run twice, or *rule* is in neither.
    """
    _require_comparable(a, b)
    with one_moment():
        results = rule_results(a), rule_results(b)
        if rule is not None and not any(rule in one for one in results):
            msg = f"neither run has a rule {rule!r}: {a.external_id!r}, {b.external_id!r}"
            raise RunDiffError(msg)
        return _report(a, b, *results, policy=policy, rule=rule, k=k, limit=limit, runs=runs)


def _require_comparable(a: Run, b: Run) -> None:
    if a.skill != b.skill:
        msg = (
            f"run {a.external_id!r} is of skill {a.skill!r} and run {b.external_id!r} of {b.skill!r}: "
            "rules and tips of two skills have nothing in common"
        )
        raise RunDiffError(msg)
    if a.pk == b.pk:
        msg = f"{a.external_id!r} and {b.external_id!r} are one run (primary key {a.pk}): name two"
        raise RunDiffError(msg)


def _report(
    a: Run,
    b: Run,
    in_a: Results,
    in_b: Results,
    *,
    policy: Policy,
    rule: str | None,
    k: int,
    limit: int,
    runs: int,
) -> RunDiff:
    tips_a, tips_b = top_tips(a, in_a, k=k), top_tips(b, in_b, k=k)
    telling = telling_rules(in_a, in_b, tips_a, tips_b)
    if rule is None:
        rules = rule_diffs(telling[:limit], in_a, in_b, policy=policy, k=k)
    else:
        rules = rule_diffs([rule], in_a, in_b, policy=policy, k=k, attempts=limit, scripts=True)
    heads = _head(a, in_a), _head(b, in_b)
    return RunDiff(
        skill=a.skill,
        a=heads[0],
        b=heads[1],
        policy=policy.name,
        k=k,
        limit=limit,
        rule=rule,
        notes=_notes(*heads),
        n_telling=len(telling),
        rules=tuple(rules),
        tips=turnover(tips_a, tips_b, in_a.keys() & in_b.keys()),
        outcomes=outcomes(in_a, in_b, limit=limit),
        chronic=chronic_failures(b, count=runs, limit=limit),
    )


def _head(run: Run, results: Results) -> RunHead:
    graders = Attempt.objects.filter(run=run, outcome_value__isnull=False).order_by(
        "outcome_grader"
    )
    return RunHead(
        run_id=run.pk,
        external_id=run.external_id,
        status=run.status,
        revision=run.revision,
        superseded=run.superseded_at is not None,
        started_at=run.started_at,
        model=run.model,
        environment_tag=run.environment_tag,
        graders=tuple(graders.values_list("outcome_grader", flat=True).distinct()),
        rules=len(results),
        attempts=sum(len(rule.attempt_ids) for rule in results.values()),
    )


def _notes(a: RunHead, b: RunHead) -> tuple[str, ...]:
    """What else differs, and what may still change."""
    found = []
    for what, one, two in (
        ("model", a.model, b.model),
        ("environment", a.environment_tag, b.environment_tag),
        ("grader", ", ".join(a.graders), ", ".join(b.graders)),
    ):
        if one != two:
            found.append(f"the {what} differs: {one or '(none)'} in A, {two or '(none)'} in B")
    if b.started_at < a.started_at:
        found.append("B started before A: wins and losses read backwards in time")
    for name, head in (("A", a), ("B", b)):
        if head.status != "done":
            found.append(f"{name} is {head.status}, not done: verdicts may still come")
        if head.superseded:
            found.append(f"{name} is revision {head.revision}, superseded: no credit counts it")
    return tuple(found)
