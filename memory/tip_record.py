"""What the record of a tip says, for the people who decide about it: worst first, and one tip whole.

Guarantees: figures are those of TipEvidence, read by index within one skill, so that a page costs the
same however long the history is; rows of retrievals are read of one tip alone, and a bounded number of
them is shown. The order of the list is that of the audit: by the lower end of Wilson's interval, so that
9 of 10 stands before 1 of 1. Counts are of retrievals. A mean is the ranker's for "the tip anywhere": of
the same observations (``unit_of``), under the same prior, as the skill's ``[ranking]`` says.

Figures are under POLICY, whatever the deployment's policy: it alone holds a followed failure against a
tip and leaves the rows out in which the tip was ignored. The record shows the other policies beside it.
Does not know more than the last recount, and decides nothing.

Shaped by: a list ordered by average outcome, in which a tip whose every follower failed was nowhere.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db.models import F, FloatField, Value
from django.db.models.functions import Cast, Sqrt

from contextgraph.skills import load_skill
from memory.credit import Quadrant, quadrant_q, source_sql
from memory.evidence import Sums, skill_sums
from memory.flags import Flag, flag_of
from memory.models import Retrieval, TipEvidence
from memory.rates import Z_95, Rate
from memory.shrinkage import of_the_skill, shrunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet
    from django.db.models.expressions import Combinable

    from memory.evidence_sql import Unit
    from memory.models import Tip
    from memory.querysets import RetrievalQuerySet
    from memory.shrinkage import ShrunkMean

POLICY: Final = "quadrant"
PRESENT_POLICY: Final = "adr0019"
"""Whose visits are those at which the tip was shown and the outcome is known."""

ROWS_SHOWN: Final = 20
RULES_SHOWN: Final = 100

_TIP = TipEvidence.Level.TIP


class Against(enum.StrEnum):
    """What may speak against a tip; the names are those of the columns."""

    MISLEADING = "misleading"
    LUCKY_NEIGHBOUR = "lucky_neighbour"
    BYSTANDER = "bystander"


AMONG: Final[dict[Against, tuple[str, ...]]] = {
    Against.MISLEADING: ("misleading", "earned"),
    Against.LUCKY_NEIGHBOUR: ("lucky_neighbour", "earned"),
    Against.BYSTANDER: ("bystander", "lucky_neighbour", "misleading", "earned"),
}
"""Failures among followed rows; ignored among successes; ignored failures among all that are known."""


class Pool(enum.StrEnum):
    """Which tips: those that are retrieved, those that are retired, or both."""

    ACTIVE = "active"
    RETIRED = "retired"
    ALL = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A tip in the list. ``mean``: None if nothing has credit; ``rate``: of what speaks against it."""

    evidence: TipEvidence
    rate: Rate
    mean: ShrunkMean | None
    flag: Flag


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A tip's sums under one policy and the mean that they give, of observations of ``unit``."""

    evidence: TipEvidence
    mean: ShrunkMean | None
    unit: Unit


def worst(skill: str, against: Against, pool: Pool) -> QuerySet[TipEvidence]:
    """The tips of *skill* with any row that speaks against them, worst first."""
    rows = TipEvidence.objects.filter(
        skill=skill, policy=POLICY, level=_TIP, key="", **{f"{against}__gt": 0}
    )
    if pool is not Pool.ALL:
        rows = rows.filter(tip__retired_at__isnull=pool is Pool.ACTIVE)
    among = sum((F(name) for name in AMONG[against][1:]), F(AMONG[against][0]))
    ordered = rows.order_by(_wilson_low(F(against), among).desc(), F(against).desc(), "tip_id")
    return ordered.select_related("tip").defer("tip__mechanism", "tip__extra")


def _wilson_low(hits: Combinable, n: Combinable) -> Any:
    """SQL twin of ``memory.rates.wilson``'s lower end, for n > 0."""
    share = Cast(hits, FloatField()) / Cast(n, FloatField())
    spread = Value(Z_95 * Z_95) / Cast(n, FloatField())
    inner = share * (Value(1.0) - share) * spread + spread * spread / Value(4.0)
    return (share + spread / Value(2.0) - Sqrt(inner)) / (Value(1.0) + spread)


def lines(skill: str, against: Against, found: Sequence[TipEvidence]) -> list[Line]:
    """The rows of one page of :func:`worst` with their figures; two queries."""
    ids = [one.tip_id for one in found]
    mean_of = _Means(skill, POLICY)
    shown_at: dict[int | None, int] = dict(
        TipEvidence.objects.filter(
            skill=skill, policy=PRESENT_POLICY, level=_TIP, key="", tip__in=ids
        ).values_list("tip_id", "visits")
    )
    return [
        Line(
            evidence=one,
            rate=Rate(getattr(one, against), sum(getattr(one, name) for name in AMONG[against])),
            mean=mean_of(one),
            flag=word_for(one, present_visits=shown_at.get(one.tip_id, 0)),
        )
        for one in found
    ]


def word_for(evidence: TipEvidence, *, present_visits: int) -> Flag:
    """The flag of a tip. ``evidence``: under POLICY, whose visits are those that followed the tip."""
    return flag_of(evidence, visits=present_visits, followed_visits=evidence.visits)


def unit_of(skill: str) -> Unit:
    """What counts once in the means of *skill*: "visit" (a run's attempts at one rule), or "retrieval".

    Raises:
        contextgraph.skills.SkillError: the skill file does not make sense.
    """
    return load_skill(settings.PROMPTS_DIR, skill).ranking.unit


class _Means:
    """The mean of a tip anywhere, as the ranker has it, of the tips of one skill under one policy."""

    def __init__(self, skill: str, policy: str) -> None:
        self._ranking = load_skill(settings.PROMPTS_DIR, skill).ranking
        self._prior = of_the_skill(
            skill_sums(skill, policy, unit=self._ranking.unit),
            prior_mean=self._ranking.prior_mean,
            strength=self._ranking.shrinkage,
        )

    def __call__(self, evidence: TipEvidence) -> ShrunkMean | None:
        """None when no observation has credit."""
        sums = self._observed(evidence)
        if not sums.n:
            return None
        return shrunk(sums, prior_mean=self._prior.mean, strength=self._ranking.shrinkage)

    def _observed(self, evidence: TipEvidence) -> Sums:
        if self._ranking.unit == "retrieval":  # as memory.evidence: no squares are kept of those
            return Sums(evidence.credit_n, float(evidence.credit_total), float(evidence.credit_n))
        return Sums(evidence.visits, float(evidence.visit_total), float(evidence.visit_squares))


# --- One tip --------------------------------------------------------------------------------------


def flag_now(tip: Tip) -> Flag:
    """The flag of one tip; untested when nothing is known of it."""
    own = TipEvidence.objects.filter(tip=tip, skill=tip.skill, level=_TIP)
    rows = {one.policy: one for one in own.filter(policy__in=(POLICY, PRESENT_POLICY))}
    if POLICY not in rows:
        return Flag.UNTESTED
    present = rows.get(PRESENT_POLICY)
    return word_for(rows[POLICY], present_visits=present.visits if present else 0)


def by_policy(tip: Tip) -> list[Figure]:
    """What each policy makes of the tip's rows, in each skill whose runs retrieved it; a query each."""
    found = TipEvidence.objects.filter(tip=tip, level=_TIP).order_by("skill", "policy")
    return [
        Figure(evidence=one, mean=_Means(one.skill, one.policy)(one), unit=unit_of(one.skill))
        for one in found
    ]


def by_rule(tip: Tip) -> list[TipEvidence]:
    """The rules at which the tip was retrieved, those with most followed failures first."""
    rules = TipEvidence.objects.filter(tip=tip, level=TipEvidence.Level.RULE, policy=POLICY)
    return list(rules.order_by("-misleading", "-lucky_neighbour", "key")[:RULES_SHOWN])


def rows_against(tip: Tip, which: Quadrant) -> RetrievalQuerySet:
    """The tip's rows in this quadrant: worst outcome first (lucky: best), then the newest."""
    by_outcome = F("outcome_value")
    order = by_outcome.desc() if which is Quadrant.LUCKY_NEIGHBOUR else by_outcome.asc()
    return (
        Retrieval.objects.counted()
        .filter(quadrant_q(which), tip=tip)
        .annotate(source=source_sql())
        .select_related("run", "attempt")
        .only(
            "rule_id", "outcome_value", "tip_followed_review_by", "run__external_id",
            "run__skill", "attempt__number", "attempt__failure_mode",
        )
        .order_by(order, "-pk")[:ROWS_SHOWN]
    )  # fmt: skip
