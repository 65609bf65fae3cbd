"""What judging cost and brought: calls, tokens, seconds, cache hits, escalations, retries, errors, money.

Guarantees: counted from stored calls and judgements, so a recount gives the same; calls that failed
count as well, with what their replies cost, used or not; a model without a price is named and never
counted as free; a number that no server reported is None, not zero, and a sum without the counts of
some answers says of how many; every judge is named with whether a calibration covers it; how often the
stronger judge said something else is not counted where a model too small for figures took part. A
fixed number of queries, whatever the number of runs.

Does not say whether the verdicts are right: that is ``calibrate_judge``. What a server did for a call
that ended without an answer (a timeout, a lost connection) nobody here knows. Shaped by a bill that
nobody could trace to a run, and by replies that were cut at their limit, paid for, and counted as free.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db.models import Count, F, Q, Sum

from memory.rates import rounded
from scoring.calibrated import standing
from scoring.judge.bench import HIGH_STAKES
from scoring.model_size import source_name, too_small
from scoring.models import JudgeCall, Judgement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from django.db.models import QuerySet

MILLION: Final = 1_000_000
STRONG: Final = Q(tier=HIGH_STAKES) & ~Q(label="")
"""Verdicts of the stronger judge."""
ANSWERED: Final = Q(latency_s__isnull=False) | Q(error_class__startswith="Reply")
"""Calls that were answered with 200; the second half is those stored before their counts were kept."""
UNCOUNTED: Final = ANSWERED & (Q(prompt_tokens__isnull=True) | Q(completion_tokens__isnull=True))


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
    uncounted: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceVerdicts:
    """One judge: model @ prompt sha256, and how often it gave a label, cached and superseded included.

    ``in_figures``: False for a model below a billion parameters, whose verdicts are only counted.
    """

    source: str
    verdicts: int
    calibrated: bool
    in_figures: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """What judging some runs cost and brought.

    ``not_compared``: verdicts that superseded one and of which the two labels are not compared, as
    one of the judges is too small for figures.
    """

    models: tuple[ModelCost, ...]
    sources: tuple[SourceVerdicts, ...]
    verdicts: int
    abstained: int
    failures: int
    cache_hits: int
    escalated: int
    superseded_with_other_label: int
    not_compared: int
    redacted: int
    cross_skill: int
    labels: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, with the sums over models first."""
        return {"total": self.sums(), **asdict(self)}

    def sums(self) -> dict[str, Any]:
        """Over all models; a sum of which a model's part is unknown is None.

        ``partial``: tokens and cost lack the answers that came without counts (``uncounted``).
        """
        names = (
            "calls", "tips", "asked_again", "retries", "failed", "seconds", "server_seconds",
            "tokens_in", "tokens_cached", "tokens_out", "cost", "uncounted",
        )  # fmt: skip
        summed = {name: _sum([getattr(model, name) for model in self.models]) for name in names}
        return summed | {"partial": summed["uncounted"] > 0}

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
        sources=_sources(judgements),
        labels=_counts(judgements.exclude(label=""), "label"),
        errors=_counts(calls.exclude(error_class=""), "error_class"),
        **_judged(judgements),
        **_superseding(judgements),
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
            uncounted=Count("pk", filter=UNCOUNTED),
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
            uncounted=group["uncounted"],
        )
        for group in groups
    )


def _cost(group: Mapping[str, Any]) -> float | None:
    price = settings.JUDGE_PRICES.get(group["requested_model"])
    if price is None or group["tokens_in"] is None or group["tokens_out"] is None:
        return None
    return rounded((group["tokens_in"] * price[0] + group["tokens_out"] * price[1]) / MILLION)


def _sources(judgements: QuerySet[Judgement]) -> tuple[SourceVerdicts, ...]:
    said = judgements.filter(~Q(label="") | Q(followed__isnull=False))
    verdicts: dict[str, int] = {}
    small: set[str] = set()
    groups = said.values_list("requested_model", "prompt_sha256").annotate(n=Count("pk"))
    for model, prompt_sha256, n in groups:
        source = source_name(model, prompt_sha256)
        verdicts[source] = verdicts.get(source, 0) + n
        small |= {source} if too_small(model) else set()
    unproved = standing(verdicts).uncalibrated | small
    return tuple(
        SourceVerdicts(
            source=source,
            verdicts=verdicts[source],
            calibrated=source not in unproved,
            in_figures=source not in small,
        )
        for source in sorted(verdicts)
    )


def _superseding(judgements: QuerySet[Judgement]) -> dict[str, int]:
    """How many verdicts of the stronger judge differ from the ones before, by who gave the two."""
    found = {"superseded_with_other_label": 0, "not_compared": 0}
    pairs = (
        judgements.filter(STRONG, supersedes__isnull=False)
        .values_list("requested_model", "supersedes__requested_model")
        .annotate(n=Count("pk"), other=Count("pk", filter=~Q(label=F("supersedes__label"))))
    )
    for model, before, n, other in pairs:
        if too_small(model) or too_small(before):
            found["not_compared"] += n
        else:
            found["superseded_with_other_label"] += other
    return found


def _judged(judgements: QuerySet[Judgement]) -> dict[str, int]:
    counted: dict[str, int] = judgements.aggregate(
        verdicts=Count("pk", filter=Q(followed__isnull=False)),
        abstained=Count("pk", filter=Q(followed__isnull=True) & ~Q(label="")),
        failures=Count("pk", filter=Q(label="") & ~Q(reason="")),
        cache_hits=Count("pk", filter=Q(cached=True)),
        escalated=Count("pk", filter=STRONG),
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
