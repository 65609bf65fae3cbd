"""Success by how long a memory a category has: within runs, and for the same rules over time.

The *history* of a category at a run is the number of earlier runs of the skill that retrieved tips for
it: runs and not rows, because a hard category has many attempts, and so many rows, in every run. *Fresh*
is a history of at most FRESH_AT_MOST runs, *long* one of at least LONG_AT_LEAST. Only where tips were
retrieved in the run itself is there a memory to compare; the rest is counted as "without".

Guarantees: an observation is one rule in one run (a success when any graded attempt is above
SUCCESS_ABOVE), however often it was tried. Two comparisons, since neither is enough: long against fresh
categories inside the same runs, so that a better model or agent is no explanation; and each rule in its
first fresh run against its last long one, so that a hard rule is none.

What it cannot show: inside a run, that the long categories are not simply the hard ones; over time, that
nothing but the memory changed. In a skill whose runs all cover all categories the first has nothing to
compare. That tips are to blame is for the mechanism (``memory.diagnosis``) to say, not for these figures.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.db.models import Max, Min

from memory.credit import SUCCESS_ABOVE
from memory.diagnosis_rates import NO_RATE, Arms, WithinRuns, within_runs
from memory.models import Attempt, Retrieval, Run
from memory.rates import Rate
from memory.run_diff.results import paired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory.run_diff.paired import Paired

FRESH_AT_MOST: Final = 1
"""Earlier runs with tips in the category, at most, for a fresh history."""

LONG_AT_LEAST: Final = 3
"""Earlier runs with tips in the category, at least, for a long one; what lies between is neither."""

STAGES: Final = ("without", "fresh", "between", "long")


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleInRun:
    """One observation. ``run``: place of the run in time, from 0. ``best``: highest grade."""

    run: int
    rule_id: str
    category: str
    stage: str
    best: float

    @property
    def rate(self) -> Rate:
        """One rule, solved or not."""
        return Rate(int(self.best > SUCCESS_ABOVE), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class CategoryHistory:
    """One category. ``runs_with_tips``: its history after the latest run; rates count rules in runs."""

    category: str
    runs_with_tips: int
    rates: dict[str, Rate]
    latest: Rate


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """``same_rules``: a is the first fresh run of a rule, b its last long one.

    ``uncategorised``: rules in runs that were sent without a category; they have no history and are in
    no comparison.
    """

    runs: int
    observations: int
    uncategorised: int
    same_runs: WithinRuns
    same_rules: Paired
    categories: tuple[CategoryHistory, ...]


def history(skill: str) -> History:
    """All current runs of *skill*; three queries, one aggregated row per rule and run at most."""
    runs = Run.objects.current().filter(skill=skill).order_by("started_at", "pk")
    place = {pk: number for number, pk in enumerate(runs.values_list("pk", flat=True))}
    with_tips = _runs_with_tips(skill, place)
    found = list(_observations(skill, place, with_tips))
    known = [one for one in found if one.category]
    return History(
        runs=len(place),
        observations=len(found),
        uncategorised=len(found) - len(known),
        same_runs=within_runs(_strata(known)),
        same_rules=_same_rules(known),
        categories=tuple(_categories(known, with_tips)),
    )


def _runs_with_tips(skill: str, place: dict[int, int]) -> dict[str, list[int]]:
    """Per category the runs that retrieved tips for it, by place in time, ascending."""
    rows = (
        Retrieval.objects.counted()
        .filter(skill=skill)
        .order_by()
        .values_list("category", "run_id")
        .distinct()
    )
    found: dict[str, list[int]] = {}
    for category, run_id in rows.iterator():
        if run_id in place:
            found.setdefault(category, []).append(place[run_id])
    return {category: sorted(runs) for category, runs in found.items()}


def _observations(
    skill: str, place: dict[int, int], with_tips: dict[str, list[int]]
) -> Iterator[RuleInRun]:
    rows = (
        Attempt.objects.filter(
            skill=skill, run__superseded_at__isnull=True, outcome_value__isnull=False
        )
        .order_by()
        .values_list("run_id", "rule_id")
        .annotate(best=Max("outcome_value"), its_category=Min("category"))
    )
    for run_id, rule_id, best, category in rows.iterator():
        run = place.get(run_id)
        if run is not None:
            yield RuleInRun(
                run=run,
                rule_id=rule_id,
                category=category,
                stage=stage_of(run, with_tips.get(category, [])),
                best=best,
            )


def stage_of(run: int, with_tips: list[int]) -> str:
    """Which of STAGES a category is at in *run*, given the ascending runs that retrieved tips for it."""
    earlier = bisect_left(with_tips, run)
    if earlier == len(with_tips) or with_tips[earlier] != run:
        return "without"
    if earlier <= FRESH_AT_MOST:
        return "fresh"
    return "long" if earlier >= LONG_AT_LEAST else "between"


def _strata(found: list[RuleInRun]) -> dict[int, dict[str, Arms]]:
    strata: dict[int, dict[str, Arms]] = {}
    for one in found:
        if one.stage in {"fresh", "long"}:
            cells = strata.setdefault(one.run, {})
            so_far = cells.get(one.category, Arms(old=NO_RATE, young=NO_RATE))
            old, young = (one.rate, NO_RATE) if one.stage == "long" else (NO_RATE, one.rate)
            cells[one.category] = Arms(old=so_far.old + old, young=so_far.young + young)
    return strata


def _same_rules(found: list[RuleInRun]) -> Paired:
    first: dict[str, float | None] = {}
    last: dict[str, float | None] = {}
    for one in sorted(found, key=lambda one: one.run):
        if one.stage == "fresh":
            first.setdefault(one.rule_id, one.best)
        elif one.stage == "long" and one.rule_id in first:
            last[one.rule_id] = one.best
    return paired(first, last)


def _categories(
    found: list[RuleInRun], with_tips: dict[str, list[int]]
) -> Iterator[CategoryHistory]:
    """The longest history first."""
    grouped: dict[str, list[RuleInRun]] = {}
    for one in found:
        grouped.setdefault(one.category, []).append(one)
    for category in sorted(grouped, key=lambda name: (-len(with_tips.get(name, [])), name)):
        rows = grouped[category]
        latest = max(one.run for one in rows)
        yield CategoryHistory(
            category=category,
            runs_with_tips=len(with_tips.get(category, [])),
            rates={
                stage: sum((one.rate for one in rows if one.stage == stage), NO_RATE)
                for stage in STAGES
            },
            latest=sum((one.rate for one in rows if one.run == latest), NO_RATE),
        )
