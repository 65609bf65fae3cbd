"""Which tips may rank at all: by rule family, by category, by nearness of text, by environment.

Guarantees: every way of finding tips is served by an index of its own and is cut in a stated order
(the newest first; those born of the very rule are a way of their own), so that the same tables give the
same candidates. ``cut_notes`` says where a cut left tips out.
Queries only: ``memory.shortlist`` reads all of them in one statement. No text is read: the losers'
would be most of it. Does not score.

Retired tips come only as canaries, and only those that a sweep retired: what a person took out stays out.
A tip without text cannot be shown and is no candidate. A tip of the whole environment is none of a rule.

Shaped by: ``LIMIT 2000`` without an order over 3,150 tips, so that a third of them was never looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db.models import BooleanField, Case, Q, Value, When

from memory.models import Tip
from memory.models.families import RuleFamily

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from memory.querysets import TipQuerySet
    from memory.ranking_parts import RankRequest

COLUMNS: Final = (
    "id",
    "source_rule_id",
    "in_category",
    "outcome_at_source_value",
    "outcome_at_source_confidence",
    "born_here",
)
"""Of every leg, in this order: the fields of ``memory.ranking_parts.Candidate``."""

FAMILY_WAYS: Final = ("born of the rule", "family of the rule")

# QuerySet of tuples; its parameters cannot be told to the type checker without django-stubs at run time
Leg = Any


@dataclass(frozen=True, slots=True)
class Legs:
    """The queries that find candidates, by what these are for. Each is cut at the cap."""

    rule: tuple[Leg, ...]
    environment: tuple[Leg, ...]
    retired: tuple[Leg, ...]


def legs_of(
    request: RankRequest,
    *,
    cap: int,
    environment: bool = True,
    canaries: bool = False,
    near: Collection[int] = (),
) -> Legs:
    """The ways to find candidates for *request*, each with at most *cap* tips (at least 1).

    Args:
        environment: also look for tips of the whole environment.
        canaries: also look for retired tips: of the rule's family, its category, or its environment.
        near: primary keys of the tips with the nearest texts.
    """
    tips = Tip.objects.filter(skill=request.skill).exclude(text="").annotate(
        in_category=_same("category", request.category),
        born_here=_same("source_run_id", request.run),
    )  # fmt: skip
    here = Q(environment_tag__in={"", request.environment_tag}, scope=Tip.Scope.ENVIRONMENT)
    for_rules = tips.filter(scope=Tip.Scope.RULE)
    swept = Q(retired_at__isnull=False, retired_sweep__isnull=False)
    retired = [
        *_rule_legs(for_rules.filter(swept), request, near=()),
        tips.filter(here, swept).order_by("-id"),
    ]
    return Legs(
        rule=tuple(_cut(_rule_legs(for_rules.active(), request, near), cap)),
        environment=tuple(_cut([tips.active().filter(here).order_by("-id")] * environment, cap)),
        retired=tuple(_cut(retired if canaries else (), cap)),
    )


def cut_notes(request: RankRequest, cap: int) -> tuple[str, ...]:
    """Where *cap* leaves tips out: the older ones of a family or a category that has more. Counts."""
    tips = Tip.objects.filter(skill=request.skill, scope=Tip.Scope.RULE).exclude(text="").active()
    names = [*FAMILY_WAYS * bool(request.rule_id), *("category",) * bool(request.category)]
    counts = [leg.order_by().count() for leg in _rule_legs(tips, request, near=())]
    return tuple(
        f"{name}: the newest {cap} of {n} tips were looked at ([ranking] candidates)"
        for name, n in zip(names, counts, strict=True)
        if n > cap
    )


def _rule_legs(
    tips: TipQuerySet, request: RankRequest, near: Collection[int]
) -> Iterator[TipQuerySet]:
    yield from _family(tips, request)
    if request.category:
        yield tips.filter(category=request.category).order_by("-id")
    if near:
        yield tips.filter(pk__in=near).order_by("-id")


def _family(tips: TipQuerySet, request: RankRequest) -> Iterator[TipQuerySet]:
    if not request.rule_id:
        return
    # those of the very rule by themselves: a large family must not push them over the cap
    yield tips.filter(source_rule_id=request.rule_id).order_by("-id")
    # the column's own expression: the database, not Python, says what a family is
    yield tips.filter(rule_family=RuleFamily(Value(request.rule_id))).order_by("-id")


def _cut(queries: Any, cap: int) -> Iterator[Leg]:
    for query in queries:
        yield query.values_list(*COLUMNS)[:cap]


def _same(column: str, value: str) -> Case | Value:
    """SQL: whether *column* holds *value*; an empty value is nobody's."""
    if not value:
        return Value(value=False, output_field=BooleanField())
    return Case(
        When(**{column: value}, then=Value(value=True)),
        default=Value(value=False),
        output_field=BooleanField(),
    )
