"""Which tips may rank at all: by rule family, by category, by nearness of text, by environment.

Guarantees: every way of finding tips is served by an index of its own and is cut in a stated order
(the newest first; those born of the very rule are a way of their own), so that the same tables give the
same candidates. ``cut_notes`` says where a cut left tips out.
Statements only: ``memory.shortlist`` reads all of them in one. They are put together by the ORM once for
each kind of request, and filled in for each request. No text is read: the losers' would be most of it.
Does not score.

Retired tips come only as canaries, and only those that a sweep retired: what a person took out stays out.
A tip without text cannot be shown and is no candidate. A tip of the whole environment is none of a rule.

Shaped by: ``LIMIT 2000`` without an order over 3,150 tips, so that a third of them was never looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db.models import BooleanField, Case, Q, Value, When
from django.db.models.expressions import RawSQL

from memory.models import Tip
from memory.models.families import RuleFamily
from memory.ranking_parts import RankRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from memory.querysets import TipQuerySet

COLUMNS: Final = (
    "id",
    "source_rule_id",
    "in_category",
    "outcome_at_source_value",
    "outcome_at_source_confidence",
    "born_here",
    "related",
)
"""Of every leg, in this order: the fields of ``memory.ranking_parts.Candidate``, and whether the tip's
rule is of the family of the one that is asked for. Only then do they have a prefix in common."""

FAMILY_WAYS: Final = ("born of the rule", "family of the rule")

_SLOT: Final = "\0"
"""First character of what stands for a value of the request: no text that is stored can have it."""


_ASKED: Final = ("skill", "rule_id", "category", "environment_tag", "run")
"""Fields of a request that its legs depend on."""


class Leg(NamedTuple):
    """A SELECT of COLUMNS, and its parameters."""

    sql: str
    parameters: tuple[Any, ...]

    def filled(self, values: Mapping[str, object]) -> Leg:
        """With *values*, by slot, in their places."""
        return self._replace(parameters=tuple(values.get(one, one) for one in self.parameters))


@dataclass(frozen=True, slots=True)
class Legs:
    """The statements that find candidates, by what these are for. Each is cut at the cap."""

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
    found = _legs(
        _like(request), cap=cap, environment=environment, canaries=canaries, near=bool(near)
    )
    values = {_slot(name): getattr(request, name) for name in _ASKED}
    values[_slot("near")] = list(near)
    return Legs(
        rule=tuple(leg.filled(values) for leg in found.rule),
        environment=tuple(leg.filled(values) for leg in found.environment),
        retired=tuple(leg.filled(values) for leg in found.retired),
    )


def _slot(name: str) -> str:
    return _SLOT + name


def _like(request: RankRequest) -> RankRequest:
    """A request with slots for its values; what is empty stays empty, for it is not searched by."""
    return RankRequest(
        skill=_slot("skill"),
        rule_id=request.rule_id and _slot("rule_id"),
        category=request.category and _slot("category"),
        environment_tag=request.environment_tag and _slot("environment_tag"),
        run=request.run and _slot("run"),
    )


@lru_cache(maxsize=256)
def _legs(request: RankRequest, *, cap: int, environment: bool, canaries: bool, near: bool) -> Legs:
    """The legs of a request, put together by the ORM: what takes longer than to find the tips."""
    tips = Tip.objects.filter(skill=request.skill).exclude(text="").annotate(
        in_category=_same("category", request.category),
        born_here=_same("source_run_id", request.run),
        related=_same("rule_family", _family_of(request)),
    )  # fmt: skip
    here = Q(environment_tag__in={"", request.environment_tag}, scope=Tip.Scope.ENVIRONMENT)
    for_rules = tips.filter(scope=Tip.Scope.RULE)
    swept = Q(retired_at__isnull=False, retired_sweep__isnull=False)
    retired = [
        *_rule_legs(for_rules.filter(swept), request),
        tips.filter(here, swept).order_by("-id"),
    ]
    return Legs(
        rule=tuple(_cut(_rule_legs(for_rules.active(), request, near=near), cap)),
        environment=tuple(_cut([tips.active().filter(here).order_by("-id")] * environment, cap)),
        retired=tuple(_cut(retired if canaries else (), cap)),
    )


def cut_notes(request: RankRequest, cap: int) -> tuple[str, ...]:
    """Where *cap* leaves tips out: the older ones of a family or a category that has more. Counts."""
    tips = Tip.objects.filter(skill=request.skill, scope=Tip.Scope.RULE).exclude(text="").active()
    names = [*FAMILY_WAYS * bool(request.rule_id), *("category",) * bool(request.category)]
    counts = [leg.order_by().count() for leg in _rule_legs(tips, request)]
    return tuple(
        f"{name}: the newest {cap} of {n} tips were looked at ([ranking] candidates)"
        for name, n in zip(names, counts, strict=True)
        if n > cap
    )


def _rule_legs(
    tips: TipQuerySet, request: RankRequest, *, near: bool = False
) -> Iterator[TipQuerySet]:
    yield from _family(tips, request)
    if request.category:
        yield tips.filter(category=request.category).order_by("-id")
    if near:
        nearest = RawSQL("SELECT unnest(%s::bigint[])", [_slot("near")])
        yield tips.filter(pk__in=nearest).order_by("-id")


def _family(tips: TipQuerySet, request: RankRequest) -> Iterator[TipQuerySet]:
    if not request.rule_id:
        return
    # those of the very rule by themselves: a large family must not push them over the cap
    yield tips.filter(source_rule_id=request.rule_id).order_by("-id")
    yield tips.filter(rule_family=_family_of(request)).order_by("-id")


def _family_of(request: RankRequest) -> RuleFamily | None:
    """The column's own expression: the database, not Python, says what a family is."""
    return RuleFamily(Value(request.rule_id)) if request.rule_id else None


def _cut(queries: Any, cap: int) -> Iterator[Leg]:
    for query in queries:
        yield Leg(*query.values_list(*COLUMNS)[:cap].query.sql_with_params())


def _same(column: str, value: str | RuleFamily | None) -> Case | Value:
    """SQL: whether *column* holds *value*; an empty value is nobody's."""
    if not value:
        return Value(value=False, output_field=BooleanField())
    return Case(
        When(**{column: value}, then=Value(value=True)),
        default=Value(value=False),
        output_field=BooleanField(),
    )
