"""What judging cost and brought: calls, tokens, seconds, cache hits, escalations, retries, errors, money.

Guarantees: counted from stored calls and judgements, so a recount gives the same; calls that failed
count as well; a model without a price is named and never counted as free; a number that no server
reported is None, not zero. One question per table, whatever the number of runs.

Does not say whether the verdicts are right: that is ``calibrate_judge``. Shaped by a bill that nobody
could trace to a run.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db.models import Count, F, Q, Sum

from memory.rates import rounded
from scoring.judge.bench import HIGH_STAKES
from scoring.models import JudgeCall, Judgement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from django.db.models import QuerySet

MILLION: Final = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCost:
    """Calls to one model in one tier. Tokens as the server said.

    ``seconds`` is wall time, waiting for a turn and retries included, summed over calls that ran side
    by side; ``server_seconds`` only that of the requests that were answered. ``cost`` in the unit of
    JUDGE_PRICES; None: the model has no price there, or reports no tokens.
    """

    model: str
    tier: str
    calls: int
    tips: int
    asked_again: int
    retries: int
    failed: int
    seconds: float
    server_seconds: float
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    cost: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """What judging some runs cost and brought."""

    models: tuple[ModelCost, ...]
    verdicts: int
    abstained: int
    failures: int
    cache_hits: int
    escalated: int
    superseded_with_other_label: int
    redacted: int
    cross_skill: int
    labels: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, with the sums over models first."""
        return {"total": self.sums(), **asdict(self)}

    def sums(self) -> dict[str, Any]:
        """Over all models; a sum of which a part is unknown is None."""
        names = (
            "calls", "tips", "asked_again", "retries", "failed", "seconds", "server_seconds",
            "tokens_in", "tokens_cached", "tokens_out", "cost",
        )  # fmt: skip
        return {name: _sum([getattr(model, name) for model in self.models]) for name in names}

    @property
    def unpriced(self) -> list[str]:
        """Models that were asked and have no price in JUDGE_PRICES."""
        return sorted({model.model for model in self.models} - set(settings.JUDGE_PRICES))


def totals(
    *, run_id: int | None = None, skill: str | None = None, since: datetime | None = None
) -> Totals:
    """Count the calls and judgements of a run, of a skill's runs, of all; from a time on."""
    calls = JudgeCall.objects.order_by()
    judgements = Judgement.objects.order_by()
    if run_id is not None:
        calls = calls.filter(run_id=run_id)
        judgements = judgements.filter(retrieval__run_id=run_id)
    if skill is not None:
        calls = calls.filter(run__skill=skill)
        judgements = judgements.filter(retrieval__skill=skill)
    if since is not None:
        calls = calls.filter(created_at__gte=since)
        judgements = judgements.filter(created_at__gte=since)
    return Totals(
        models=_models(calls),
        labels=_counts(judgements.exclude(label=""), "label"),
        errors=_counts(calls.exclude(error_class=""), "error_class"),
        **_judged(judgements),
    )


def _models(calls: QuerySet[JudgeCall]) -> tuple[ModelCost, ...]:
    groups = (
        calls.values("requested_model", "tier")
        .annotate(
            calls=Count("pk"),
            tips_asked=Sum("tips"),
            asked_again=Count("pk", filter=Q(again=True)),
            retries=Sum(F("http_tries") - 1, filter=Q(http_tries__gt=1), default=0),
            failed=Count("pk", filter=~Q(error_class="")),
            wall=Sum("seconds"),
            served=Sum("latency_s", default=0.0),
            tokens_in=Sum("prompt_tokens"),
            tokens_cached=Sum("cached_tokens"),
            tokens_out=Sum("completion_tokens"),
        )
        .order_by("requested_model", "tier")
    )
    return tuple(
        ModelCost(
            model=group["requested_model"],
            tier=group["tier"],
            calls=group["calls"],
            tips=group["tips_asked"],
            asked_again=group["asked_again"],
            retries=group["retries"],
            failed=group["failed"],
            seconds=rounded(group["wall"]) or 0.0,
            server_seconds=rounded(group["served"]) or 0.0,
            tokens_in=group["tokens_in"],
            tokens_cached=group["tokens_cached"],
            tokens_out=group["tokens_out"],
            cost=_cost(group),
        )
        for group in groups
    )


def _cost(group: Mapping[str, Any]) -> float | None:
    price = settings.JUDGE_PRICES.get(group["requested_model"])
    if price is None or group["tokens_in"] is None or group["tokens_out"] is None:
        return None
    return rounded((group["tokens_in"] * price[0] + group["tokens_out"] * price[1]) / MILLION)


def _judged(judgements: QuerySet[Judgement]) -> dict[str, int]:
    strong = Q(tier=HIGH_STAKES) & ~Q(label="")
    counted: dict[str, int] = judgements.aggregate(
        verdicts=Count("pk", filter=Q(followed__isnull=False)),
        abstained=Count("pk", filter=Q(followed__isnull=True) & ~Q(label="")),
        failures=Count("pk", filter=Q(label="") & ~Q(reason="")),
        cache_hits=Count("pk", filter=Q(cached=True)),
        escalated=Count("pk", filter=strong),
        superseded_with_other_label=Count(
            "pk", filter=strong & Q(supersedes__isnull=False) & ~Q(label=F("supersedes__label"))
        ),
        redacted=Count("pk", filter=~Q(redactions={})),
        cross_skill=Count("pk", filter=Q(cross_skill=True)),
    )
    return counted


def _counts(rows: QuerySet[Any], column: str) -> dict[str, int]:
    found = rows.values_list(column).annotate(n=Count("pk")).order_by(column)
    return dict(found)


def _sum(parts: list[Any]) -> Any:
    if None in parts:
        return None
    total = sum(parts)
    return rounded(total) if isinstance(total, float) else total
