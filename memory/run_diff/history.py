"""More than two runs: rules that keep failing, and every run against every other.

Guarantees: a rule is *chronic* when it was graded, and failed, in each of the runs named; runs of other
skills and superseded revisions take no part. The matrix compares each pair on the rules that both
graded, by the exact test of ``memory.run_diff.paired``; many pairs are many chances, so a star needs the
p that Holm's method leaves. Only rows of the runs named are read (by run), one aggregated row per rule
and run at most.

Does not say why a rule is chronic: no tip may ever have been right, or the check may be wrong.

Shaped by: 78 rules that failed in four runs running, and were found by joining four lists by hand.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Count, Max, Q

from memory.credit import SUCCESS_ABOVE
from memory.models import Attempt, Retrieval, Run
from memory.rates import Rate, rounded
from memory.run_diff.paired import ALPHA, holm
from memory.run_diff.results import paired

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet

    from memory.run_diff.paired import Paired

RUNS: Final = 5
"""Runs looked back over unless another number is asked for."""

RUNS_AT_MOST: Final = 30
"""Of a matrix, or of a look back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chronic:
    """A rule that failed in every one of the runs. ``tips``: different ones shown to it there."""

    rule_id: str
    category: str
    attempts: int
    best: float
    shown: int
    tips: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ChronicFailures:
    """``runs``: external ids, latest first; ``n``: all chronic rules, of which ``rules`` are listed."""

    asked: int
    runs: tuple[str, ...]
    n: int
    attempts: int
    rules: tuple[Chronic, ...]


def runs_up_to(run: Run, count: int) -> list[Run]:
    """*run* and the current runs of its skill that started before it, latest first, *count* in all."""
    before = Q(started_at__lt=run.started_at) | Q(started_at=run.started_at, pk__lt=run.pk)
    earlier = (
        Run.objects.current()
        .filter(before, skill=run.skill)
        .exclude(external_id=run.external_id)
        .order_by("-started_at", "-pk")
    )
    return [run, *earlier.only("external_id", "skill", "started_at")[: count - 1]]


def chronic_failures(run: Run, *, count: int, limit: int) -> ChronicFailures:
    """Rules that failed in each of the last *count* runs up to *run*; most attempts spent first.

    With fewer runs stored it looks at those there are, and says so by ``runs``; one run alone makes
    nothing chronic. Four queries.
    """
    runs = runs_up_to(run, count)
    found = list(_failing(runs).order_by("-spent", "rule_id")) if len(runs) > 1 else []
    listed = found[:limit]
    shown = _shown(runs, [row["rule_id"] for row in listed])
    return ChronicFailures(
        asked=count,
        runs=tuple(one.external_id for one in runs),
        n=len(found),
        attempts=sum(row["spent"] for row in found),
        rules=tuple(
            Chronic(
                rule_id=row["rule_id"],
                category=row["a_category"],
                attempts=row["spent"],
                best=row["best"],
                shown=shown.get(row["rule_id"], (0, 0))[0],
                tips=shown.get(row["rule_id"], (0, 0))[1],
            )
            for row in listed
        ),
    )


def _failing(runs: list[Run]) -> QuerySet[Any]:
    graded = Q(outcome_value__isnull=False)
    return (
        Attempt.objects.filter(run__in=[run.pk for run in runs])
        .order_by()
        .values("rule_id")
        .annotate(
            graded_in=Count("run", filter=graded, distinct=True),
            best=Max("outcome_value"),
            spent=Count("pk"),
            a_category=Max("category"),
        )
        .filter(graded_in=len(runs), best__lte=SUCCESS_ABOVE)
    )


def _shown(runs: list[Run], rule_ids: list[str]) -> dict[str, tuple[int, int]]:
    """Per rule: how often a tip was shown to it in these runs, and how many different ones."""
    # by attempt: by rule, the planner may choose to read the rows of all runs there ever were
    spent = Attempt.objects.filter(run__in=[run.pk for run in runs], rule_id__in=rule_ids)
    rows = (
        Retrieval.objects.filter(attempt__in=list(spent.values_list("pk", flat=True)), shown=True)
        .order_by()
        .values("rule_id")
        .annotate(rows=Count("pk"), tips=Count("tip", distinct=True))
    )
    return {row["rule_id"]: (row["rows"], row["tips"]) for row in rows}


class TooFewRuns(ValueError):
    """There is nothing to compare a run with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixRun:
    """A run of the matrix, with its own rate over all rules that it graded."""

    run_id: int
    external_id: str
    started_at: datetime
    success: Rate


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """The later run (``b``) against the earlier one (``a``). ``p_holm``: p, for being one of many."""

    a: int
    b: int
    table: Paired
    p_holm: float | None

    @property
    def stands_out(self) -> bool:
        """More than noise even as the best of all pairs."""
        return self.p_holm is not None and self.p_holm < ALPHA

    def as_dict(self) -> dict[str, Any]:
        """Plain data; ``a`` and ``b`` are primary keys of runs."""
        figures = self.table.as_dict()
        return {
            "a": self.a,
            "b": self.b,
            "pairs": self.table.n,
            "wins": self.table.wins,
            "regressions": self.table.regressions,
            **{name: figures[name] for name in ("difference", "low", "high", "p", "evidence")},
            "p_holm": rounded(self.p_holm),
            "stands_out": self.stands_out,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class RunMatrix:
    """Runs, earliest first, and a cell for each pair of them."""

    skill: str
    runs: tuple[MatrixRun, ...]
    cells: tuple[Cell, ...]


def run_matrix(skill: str, *, last: int) -> RunMatrix:
    """The *last* current runs of *skill* against each other; two queries.

    Raises:
        TooFewRuns: there are not two.
    """
    latest = Run.objects.current().filter(skill=skill).order_by("-started_at", "-pk")
    runs = list(latest.only("external_id", "skill", "started_at")[:last])[::-1]
    if len(runs) < 2:
        msg = f"skill {skill!r} has {len(runs)} run(s): a matrix compares at least two"
        raise TooFewRuns(msg)
    best: dict[int, dict[str, float | None]] = {run.pk: {} for run in runs}
    rows = (
        Attempt.objects.filter(run__in=list(best), outcome_value__isnull=False)
        .order_by()
        .values_list("run_id", "rule_id")
        .annotate(best=Max("outcome_value"))
    )
    for run_id, rule_id, value in rows.iterator():
        best[run_id][rule_id] = value
    return RunMatrix(
        skill=skill,
        runs=tuple(_matrix_run(run, best[run.pk]) for run in runs),
        cells=tuple(_cells([run.pk for run in runs], best)),
    )


def _matrix_run(run: Run, best: dict[str, float | None]) -> MatrixRun:
    passed = sum(value is not None and value > SUCCESS_ABOVE for value in best.values())
    return MatrixRun(
        run_id=run.pk,
        external_id=run.external_id,
        started_at=run.started_at,
        success=Rate(passed, len(best)),
    )


def _cells(runs: list[int], best: dict[int, dict[str, float | None]]) -> list[Cell]:
    tables = {(a, b): paired(best[a], best[b]) for a, b in itertools.combinations(runs, 2)}
    tested = [(pair, table.p_value) for pair, table in tables.items()]
    known = [(pair, p) for pair, p in tested if p is not None]
    adjusted = dict(zip((pair for pair, _ in known), holm([p for _, p in known]), strict=True))
    return [
        Cell(a=a, b=b, table=table, p_holm=adjusted.get((a, b))) for (a, b), table in tables.items()
    ]
