"""The first choice among thousands of candidates, made by the database; the ranker has the last word.

Guarantees: candidates of all kinds are found and their evidence is joined in one statement, so that a
sweep that commits meanwhile is seen whole or not at all; a tip that two ways find is one candidate; what
is left out has no composite above ``Shortlist.below``. Sums are read by index, ``tip_retrievals`` never.

The composite here is a rough twin, in SQL, of ``memory.ranking_parts`` and ``memory.shrinkage``: good to
``MARGIN``, which is all that a first choice needs. A property test holds the two together. It exists
because 4,000 candidates with three sums each take Python a tenth of a second, and Postgres a tenth of it.
"""

# ruff: noqa: S608 - the statement is put together from constants and from what Django compiled

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from django.db import connection

from memory.credit import NEGLIGIBLE
from memory.models import Tip
from memory.models.families import RuleFamily, rule_tokens
from memory.ranking_parts import Candidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from contextgraph.skills import Ranking as Weights
    from memory.candidates import Leg, Legs
    from memory.ranking_parts import RankRequest

MARGIN: Final = 1e-6
"""More than the two composites of one candidate ever differ by."""

FIRST: Final = 2
"""How many times as many as are wanted are weighed for the floor: more raise it, and cost more."""

RULE, ENVIRONMENT, RETIRED = range(3)


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The best candidates of one kind, roughly ordered. ``size``: candidates there were.

    ``below``: no candidate that is left out has a composite above this, and as many as were wanted have
    one; minus infinity: none is left out.
    """

    candidates: tuple[Candidate, ...] = ()
    size: int = 0
    below: float = float("-inf")


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What the composite needs beside the candidates.

    ``prior``: mean credit of a tip that nothing is known of, [-1, 1]. ``near``: cosine by primary key.
    """

    request: RankRequest
    weights: Weights
    policy: str
    prior: float
    near: Mapping[int, float]


def shortlists(legs: Legs, terms: Terms, *, wanted: int) -> dict[int, Shortlist]:
    """The best *wanted* (at least 1) of each kind that has candidates, by RULE, ENVIRONMENT, RETIRED.

    Those that tie with the last one come along: the ranker knows better which of them is first.
    """
    kinds = {RULE: legs.rule, ENVIRONMENT: legs.environment, RETIRED: legs.retired}
    found, parameters = _found({kind: queries for kind, queries in kinds.items() if queries})
    if not found:
        return {}
    stripped, pattern = _stripped()
    unit, expected = terms.weights.unit, _expected(terms.weights)
    statement = _STATEMENT.format(
        found=found,
        stripped=stripped,
        weighed_first=_weighed("first", expected, unit),
        weighed_possible=_weighed("possible", expected, unit),
    )
    near, sums = _near(terms), _evidence(terms)
    parameters = [
        *_terms(terms), *parameters, *pattern, *pattern, *near,
        FIRST * wanted, wanted, *sums, wanted, *sums,
    ]  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows = cursor.fetchall()
    by_kind: dict[int, list[Any]] = {}
    for kind, *row in rows:
        by_kind.setdefault(kind, []).append(row)
    return {kind: _shortlist(of_kind) for kind, of_kind in by_kind.items()}


def _shortlist(rows: Sequence[Any]) -> Shortlist:
    *_, cut, size = rows[-1]
    return Shortlist(
        candidates=tuple(Candidate(*row[:-2]) for row in rows),
        size=size,
        below=float("-inf") if len(rows) == size else cut - MARGIN,
    )


def _found(kinds: Mapping[int, Sequence[Leg]]) -> tuple[str, list[Any]]:
    """SQL that gives (kind, columns of a leg …); a tip comes once from each leg that finds it."""
    parts, parameters = [], []
    for kind, legs in kinds.items():
        parts += [f"SELECT {kind} AS kind, leg.* FROM ({leg.sql}) AS leg" for leg in legs]
        parameters += [value for leg in legs for value in leg.parameters]
    return " UNION ALL ".join(parts), parameters


@lru_cache(maxsize=1)
def _stripped() -> tuple[str, list[Any]]:
    """The SQL of a rule id without what all ids share, over a row called "tips": RuleFamily's own."""
    (stripped, *_) = RuleFamily("source_rule_id").get_source_expressions()
    query = Tip.objects.order_by().query
    sql, parameters = query.get_compiler(connection=connection).compile(
        stripped.resolve_expression(query)
    )
    return sql, list(parameters)


def _terms(terms: Terms) -> list[Any]:
    """Parameters of the first part of the statement, in its order."""
    request, weights = terms.request, terms.weights
    tokens = rule_tokens(request.rule_id) if request.rule_id else ()
    return [
        ["_".join(tokens[:end]) + "_" for end in range(1, len(tokens) + 1)],
        len(tokens),
        terms.prior,
        weights.prefix,
        weights.category,
        weights.helpfulness,
        weights.source_prior,
        weights.similarity,
        weights.same_run,
    ]


def _near(terms: Terms) -> list[Any]:
    """Parameters of the join with the cosines."""
    return [list(terms.near), list(terms.near.values())]


def _evidence(terms: Terms) -> list[Any]:
    """Parameters of the looks into the evidence, in their order."""
    request = terms.request
    ours = (request.skill, terms.policy)
    return [*ours, request.rule_id, *ours, request.category, bool(request.category), *ours]


# --- The statement --------------------------------------------------------------------------------

_OBSERVED: Final = {
    "visit": {"n": "visits", "total": "visit_total"},
    "retrieval": {"n": "credit_n", "total": "credit_total"},
}


def _without(whole: str, part: str) -> str:
    """SQL: the total of *whole* without its *part*; as ``evidence.Sums.without``."""
    n = f"({whole}_n - {part}_n)"
    return f"greatest(least({whole}_total - {part}_total, {n}), -{n})"


def _posterior(prior: str, n: str, total: str, *, strength: float, back_off: bool) -> str:
    """SQL: the shrunk mean of one level; as ``shrinkage.levels``. Where n is not above 0, the prior.

    Each argument is written once, except the counts: nested, they would double at every level.
    """
    silent = prior if strength or back_off else "0"
    mean = f"({strength!r}::float8 * {prior} + {total}) / ({strength!r}::float8 + {n})"
    if not strength:
        mean = f"{total} / {n}"
    return f"CASE WHEN {n} > 0 THEN greatest(least({mean}, 1), -1) ELSE {silent} END"


def _expected(weights: Weights) -> str:
    """SQL: mean credit to expect, over the columns of "seen" and "terms"."""
    how: Any = {"strength": weights.shrinkage, "back_off": weights.back_off}
    start = "prior"
    if weights.back_off:
        start = _posterior(start, "(tip_n - inner_n)", _without("tip", "inner"), **how)
        start = _posterior(start, "(category_n - rule_n)", _without("category", "rule"), **how)
    return _posterior(start, "rule_n", "rule_total", **how)


def _weighed(chosen: str, expected: str, unit: str) -> str:
    """SQL: the candidates of block *chosen* with their rough composites.

    Candidates and sums are gathered by tip, not joined: the planner cannot know how few are chosen, and
    reads the sums of all tips of the skill, or of a few again and again. The ids are given to the index
    as a list for the same reason.
    """
    columns = "{n} AS n, {total}::float8 AS total".format(**_OBSERVED[unit])
    ours = f"skill = %s AND policy = %s AND tip_id = ANY(ARRAY(SELECT id FROM {chosen}))"
    sums = f"SELECT tip_id, NULL, NULL, NULL, level, {columns} FROM tip_evidence WHERE {ours}"
    return f"""
      SELECT seen.*, (base + w_credit * {expected}) * damp AS rough
      FROM (
        SELECT *, coalesce(nullif(category_n, 0), rule_n) AS inner_n,
          CASE WHEN category_n > 0 THEN category_total ELSE rule_total END AS inner_total
        FROM (
          SELECT id, max(kind) AS kind, max(base) AS base, max(damp) AS damp,
            {_sums_of("rule")}, {_sums_of("category")}, {_sums_of("tip")}
          FROM (
            SELECT id, kind, base, damp, NULL AS level, NULL::bigint AS n, NULL::float8 AS total
            FROM {chosen}
            UNION ALL {sums} AND level = 'rule' AND key = %s
            UNION ALL {sums} AND level = 'category' AND key = %s AND %s
            UNION ALL {sums} AND level = 'tip' AND key = ''
          ) AS gathered GROUP BY id
        ) AS tips
      ) AS seen CROSS JOIN terms"""


def _sums_of(level: str) -> str:
    """SQL: the count and the total of a tip on one level, 0 where there is none."""
    on = f"FILTER (WHERE level = '{level}')"
    return f"coalesce(max(n) {on}, 0) AS {level}_n, coalesce(max(total) {on}, 0) AS {level}_total"


_STATEMENT: Final = f"""
WITH terms AS (
  SELECT %s::text[] AS openings, %s::integer AS tokens, %s::float8 AS prior,
         %s::float8 AS w_prefix, %s::float8 AS w_category, %s::float8 AS w_credit,
         %s::float8 AS w_source, %s::float8 AS w_similarity, %s::float8 AS w_same_run
), found (kind, id, source_rule_id, in_category, value, confidence, born_here, related) AS MATERIALIZED (
  SELECT DISTINCT ON (kind, id) * FROM ({{found}}) AS legs
), rules AS MATERIALIZED (
  SELECT tips.source_rule_id, CASE WHEN tips.source_rule_id = ''
      OR strpos(lower(tips.source_rule_id), rtrim(openings[1], '_')) = 0 THEN 0 ELSE
    (SELECT count(*) FROM unnest(openings) AS opening WHERE starts_with({{stripped}} || '_', opening))
    / greatest(tokens, cardinality(string_to_array({{stripped}}, '_')), 1)::float8 END AS prefix
  FROM (SELECT DISTINCT source_rule_id FROM found WHERE related) AS tips CROSS JOIN terms
), based AS MATERIALIZED (
  SELECT kind, found.id, CASE WHEN born_here THEN w_same_run ELSE 1 END AS damp,
    w_prefix * coalesce(prefix, 0) + w_category * in_category::integer + w_source * CASE
      WHEN abs(value) > {NEGLIGIBLE} AND abs(confidence) > {NEGLIGIBLE} THEN value * confidence ELSE 0 END
    + w_similarity * coalesce(cosine, 0) AS base
  FROM found CROSS JOIN terms
  LEFT JOIN rules ON related AND rules.source_rule_id = found.source_rule_id
  LEFT JOIN unnest(%s::bigint[], %s::float8[]) AS near (id, cosine) ON near.id = found.id
), sizes AS MATERIALIZED (
  SELECT kind, count(*) AS size FROM based GROUP BY kind
), first AS MATERIALIZED (
  SELECT best.* FROM sizes CROSS JOIN LATERAL (
    SELECT * FROM based WHERE based.kind = sizes.kind ORDER BY base * damp DESC LIMIT %s
  ) AS best
), floors AS (
  SELECT DISTINCT kind, nth_value(rough, %s) OVER (PARTITION BY kind ORDER BY rough DESC
    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS enough
  FROM ({{weighed_first}}) AS weighed
), possible AS MATERIALIZED (
  SELECT based.* FROM based JOIN floors USING (kind) CROSS JOIN terms
  WHERE enough IS NULL OR (base + abs(w_credit)) * damp > enough - {2 * MARGIN}
), ranked AS (
  SELECT kind, id, rough, nth_value(rough, %s) OVER
    (PARTITION BY kind ORDER BY rough DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    AS cut
  FROM ({{weighed_possible}}) AS weighed
)
SELECT kind, id, source_rule_id, in_category, value, confidence, born_here, cut, size
FROM (SELECT id, cut FROM ranked WHERE cut IS NULL OR rough > cut - {2 * MARGIN}) AS named
JOIN found USING (id) JOIN sizes USING (kind) ORDER BY kind, id
"""
"""Three steps: what each candidate has without its evidence; the composites of the first by that, of
which the one at the place that is wanted is a floor; then those of all who could still be above it."""
