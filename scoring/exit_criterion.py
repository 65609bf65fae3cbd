"""ADR-0019's exit criterion, checkable: may the judge be dropped because a cheaper signal agrees?

Guarantees: agreement of embedding and trace with the judge on rows that both answered, by skill and
calendar month (UTC, of the retrieval), each with n, runs, Wilson's interval and kappa; and what
dropping the judge would change, by recounting ADR-0019's credit without it. Reads only; no row
reaches Python. Rows judged by a model too small for figures are left out and counted.

Does not say who is right: two signals that share a blind spot agree. Rows of one attempt are not
independent, so the intervals are somewhat too narrow.

Shaped by a criterion (">95 % over many runs") that was written down and never computed.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Avg, Count, F, Q
from django.db.models.functions import Abs, TruncMonth

from memory.credit import (
    ADR_CHAIN,
    ANSWERS,
    POLICIES,
    SUCCESS_ABOVE,
    Signal,
    credit_sql,
    followed_q,
)
from memory.models import Retrieval
from memory.provenance import UncalibratedSource, uncalibrated_sources
from memory.rates import Rate, rounded
from memory.signals import Agreement
from scoring.model_size import too_small

if TYPE_CHECKING:
    from datetime import datetime

    from memory.querysets import RetrievalQuerySet

THRESHOLD: Final = 0.95
"""Agreement above which ADR-0019 would drop the judge."""

SUBSTITUTES: Final = {
    Signal.EMB: (Signal.REVIEW, Signal.EMB),
    Signal.TRACE: (Signal.REVIEW, Signal.TRACE, Signal.EMB),
}
"""Per signal that may replace the judge: who would then be asked, in which order."""

_POLICY: Final = POLICIES["adr0019"]
_CELLS: Final = ("yy", "yn", "ny", "nn")


class Standing(enum.StrEnum):
    """Whether agreement lies above the threshold."""

    MET = "met"
    NOT_SHOWN = "not_shown"
    NOT_MET = "not_met"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Agreement of one signal with the judge. `skill` or `month` None: over all of them."""

    signal: Signal
    skill: str | None
    month: str | None
    runs: int
    agreement: Agreement

    def standing(self, threshold: float) -> Standing:
        """MET only where the whole interval lies above *threshold* (in [0, 1])."""
        rate = self.agreement.raw
        if rate.value is None:
            return Standing.UNKNOWN
        if rate.low > threshold:
            return Standing.MET
        return Standing.NOT_SHOWN if rate.value > threshold else Standing.NOT_MET

    def as_dict(self, threshold: float) -> dict[str, Any]:
        """Plain data."""
        return {
            "signal": str(self.signal),
            "skill": self.skill,
            "month": self.month,
            "runs": self.runs,
            "criterion": str(self.standing(threshold)),
            **{
                name: value
                for name, value in self.agreement.as_dict().items()
                if name not in ("first", "second")
            },
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What credit by ADR-0019 would lose in one skill without the judge.

    `changed`: rows whose credit differs, of the graded rows with a verdict; `mean_change`: mean
    absolute change over the latter, in [0, 2]. `lost`: of the tips that are misleading now (followed
    into a failure at least once) those that would no longer be; `raised`: those that only then would.
    """

    signal: Signal
    skill: str
    changed: Rate
    mean_change: float | None
    lost: Rate
    raised: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "instead": str(self.signal),
            "skill": self.skill,
            "credit_changes": self.changed.as_dict(),
            "mean_absolute_change": rounded(self.mean_change),
            "misleading_tips_lost": self.lost.as_dict(),
            "misleading_tips_raised": self.raised,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ExitReport:
    """Groups (overall, by skill, by skill and month) and costs by skill, for every substitute."""

    threshold: float
    too_small: int
    uncalibrated: tuple[UncalibratedSource, ...]
    groups: tuple[Group, ...]
    costs: tuple[Cost, ...]

    def of(self, signal: Signal, skill: str | None) -> Group:
        """The group of *skill* (None: all) over all months."""
        return next(
            group
            for group in self.groups
            if (group.signal, group.skill, group.month) == (signal, skill, None)
        )

    def would_drop(self, cost: Cost) -> bool:
        """Whether the criterion allows what *cost* is the price of."""
        return self.of(cost.signal, cost.skill).standing(self.threshold) is Standing.MET

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "threshold": self.threshold,
            "criterion": {
                str(signal): str(self.of(signal, None).standing(self.threshold))
                for signal in SUBSTITUTES
            },
            "rows_of_too_small_judges": self.too_small,
            "uncalibrated_sources": [asdict(source) for source in self.uncalibrated],
            "agreement": [group.as_dict(self.threshold) for group in self.groups],
            "cost_of_dropping_the_judge": [
                cost.as_dict() | {"criterion_met": self.would_drop(cost)} for cost in self.costs
            ],
        }


def exit_report(
    *, skill: str | None = None, since: datetime | None = None, threshold: float = THRESHOLD
) -> ExitReport:
    """Check the criterion over current revisions.

    Args:
        skill: only rows of this skill.
        since: only retrievals from this moment on (aware).
        threshold: of agreement, in [0, 1).
    """
    rows = Retrieval.objects.counted().filter(shown=True).order_by()
    if skill is not None:
        rows = rows.filter(skill=skill)
    if since is not None:
        rows = rows.filter(retrieved_at__gte=since)
    sources = rows.filter(tip_followed_llm__isnull=False).values_list("llm_source", flat=True)
    small = [source for source in sources.distinct() if too_small(source.rpartition("@")[0])]
    left_out = rows.filter(llm_source__in=small)
    kept = rows.exclude(llm_source__in=small)
    groups = _groups(kept.filter(tip_followed_llm__isnull=False))
    skills = sorted({group.skill for group in groups if group.skill is not None})
    costs = [cost for signal in SUBSTITUTES for cost in _costs(kept, signal, skills)]
    return ExitReport(
        threshold=threshold,
        too_small=left_out.count(),
        uncalibrated=uncalibrated_sources(kept.filter(tip_followed_llm__isnull=False)),
        groups=tuple(groups),
        costs=tuple(costs),
    )


# --- Agreement ------------------------------------------------------------------------------------


def _groups(judged: RetrievalQuerySet) -> list[Group]:
    """Overall, by skill, by skill and month; the coarser ones first."""
    in_month = TruncMonth("retrieved_at", tzinfo=UTC)
    found: list[Group] = []
    for keys in ((), ("skill",), ("skill", "month")):
        counted = (
            judged.annotate(month=in_month).values(*keys).annotate(**_counts()).order_by(*keys)
            if keys
            else [judged.aggregate(**_counts())]
        )
        found += [_group(row, signal) for signal in SUBSTITUTES for row in counted]
    return found


def _counts() -> dict[str, Count]:
    """Per substitute the four cells of judge x signal, and the runs that they come from."""
    judge = dict(zip("yn", ANSWERS[Signal.LLM], strict=True))
    counts: dict[str, Count] = {}
    for signal in SUBSTITUTES:
        says = dict(zip("yn", ANSWERS[signal], strict=True))
        for cell in _CELLS:
            counts[f"{signal}_{cell}"] = Count("pk", filter=judge[cell[0]] & says[cell[1]])
        counts[f"{signal}_runs"] = Count("run", filter=says["y"] | says["n"], distinct=True)
    return counts


def _group(row: dict[str, Any], signal: Signal) -> Group:
    month = row.get("month")
    yes_yes, yes_no, no_yes, no_no = (row[f"{signal}_{cell}"] for cell in _CELLS)
    return Group(
        signal=signal,
        skill=row.get("skill"),
        month=None if month is None else f"{month:%Y-%m}",
        runs=row[f"{signal}_runs"],
        agreement=Agreement(
            first=Signal.LLM,
            second=signal,
            yes_yes=yes_yes,
            yes_no=yes_no,
            no_yes=no_yes,
            no_no=no_no,
        ),
    )


# --- Cost -----------------------------------------------------------------------------------------


def _costs(rows: RetrievalQuerySet, signal: Signal, skills: list[str]) -> list[Cost]:
    without = replace(_POLICY, chain=SUBSTITUTES[signal])
    compared = (
        rows.filter(outcome_value__isnull=False)
        .filter(tip_followed_llm__isnull=False)
        .annotate(now=credit_sql(_POLICY), then=credit_sql(without))
    )
    changes = {
        row["skill"]: row
        for row in compared.values("skill").annotate(
            n=Count("pk"),
            differ=Count("pk", filter=~Q(now=F("then"))),
            mean=Avg(Abs(F("then") - F("now"))),
        )
    }
    nothing: dict[str, Any] = {"n": 0, "differ": 0, "mean": None}
    tips = _misleading(rows, without.chain)
    costs: list[Cost] = []
    for skill in skills:
        change = changes.get(skill, nothing)
        before, lost, raised = tips.get(skill, (0, 0, 0))
        costs.append(
            Cost(
                signal=signal,
                skill=skill,
                changed=Rate(change["differ"], change["n"]),
                mean_change=change["mean"],
                lost=Rate(lost, before),
                raised=raised,
            )
        )
    return costs


def _misleading(
    rows: RetrievalQuerySet, without: tuple[Signal, ...]
) -> dict[str, tuple[int, int, int]]:
    """Per skill: misleading tips now, those lost without the judge, those that only then appear."""
    failed = Q(outcome_value__lte=SUCCESS_ABOVE)
    tips = (
        rows.values("skill", "tip_id")
        .annotate(
            now=Count("pk", filter=followed_q(ADR_CHAIN) & failed),
            then=Count("pk", filter=followed_q(without) & failed),
        )
        .filter(Q(now__gt=0) | Q(then__gt=0))
    )
    found: dict[str, tuple[int, int, int]] = {}
    for tip in tips:
        before, lost, raised = found.get(tip["skill"], (0, 0, 0))
        found[tip["skill"]] = (
            before + int(tip["now"] > 0),
            lost + int(tip["now"] > 0 and tip["then"] == 0),
            raised + int(tip["now"] == 0),
        )
    return found
