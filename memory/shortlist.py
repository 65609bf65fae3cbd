"""The first choice among thousands of candidates, made by the database; the ranker has the last word.

Guarantees: candidates of all kinds are found and their evidence is joined in one statement, so that a
sweep that commits meanwhile is seen whole or not at all; a tip that two ways find is one candidate; what
is left out has no composite above ``Shortlist.below``. Sums are read by index, ``tip_retrievals`` never.

The composite here is a rough twin, in SQL, of ``memory.ranking_parts`` and ``memory.shrinkage``: good to
``MARGIN``, which is all that a first choice needs. A property test holds the two together. It exists
because 4,000 candidates with three sums each take Python a tenth of a second, and Postgres a tenth of it.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    weights = terms.weights
    statement = _STATEMENT.format(
        found=found, stripped=stripped, expected=_expected(weights), **_OBSERVED[weights.unit]
    )
    parameters = [*_terms(terms), *parameters, *pattern, *pattern, *_evidence(terms), wanted]
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
    """SQL that gives (kind, columns of a leg …), each tip once per kind."""
    parts, parameters = [], []
    for kind, legs in kinds.items():
        compiled = [leg.query.sql_with_params() for leg in legs]
        union = " UNION ".join(f"({sql})" for sql, _ in compiled)
        parts.append(f"SELECT {kind}, leg.* FROM ({union}) AS leg")  # noqa: S608 - Django's SQL
        parameters += [value for _, values in compiled for value in values]
    return " UNION ALL ".join(parts), parameters


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


def _evidence(terms: Terms) -> list[Any]:
    """Parameters of the joins with the evidence and the cosines, in their order."""
    request = terms.request
    ours = (request.skill, terms.policy)
    return [
        *(*ours, request.rule_id),
        *(*ours, request.category, bool(request.category)),
        *ours,
        list(terms.near),
        list(terms.near.values()),
    ]


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


_STATEMENT: Final = f"""
WITH terms AS (
  SELECT %s::text[] AS openings, %s::integer AS tokens, %s::float8 AS prior,
         %s::float8 AS w_prefix, %s::float8 AS w_category, %s::float8 AS w_credit,
         %s::float8 AS w_source, %s::float8 AS w_similarity, %s::float8 AS w_same_run
), found (kind, id, source_rule_id, in_category, value, confidence, born_here) AS MATERIALIZED (
  {{found}}
), rules AS MATERIALIZED (
  SELECT tips.source_rule_id, CASE WHEN tips.source_rule_id = '' THEN 0 ELSE
    (SELECT count(*) FROM unnest(openings) AS opening WHERE starts_with({{stripped}} || '_', opening))
    / greatest(tokens, cardinality(string_to_array({{stripped}}, '_')), 1)::float8 END AS prefix
  FROM (SELECT DISTINCT source_rule_id FROM found) AS tips CROSS JOIN terms
), seen AS MATERIALIZED (
  SELECT found.*, prefix, coalesce(cosine, 0) AS cosine,
    coalesce(on_rule.{{n}}, 0) AS rule_n, coalesce(on_rule.{{total}}::float8, 0) AS rule_total,
    coalesce(in_its.{{n}}, 0) AS category_n, coalesce(in_its.{{total}}::float8, 0) AS category_total,
    coalesce(anywhere.{{n}}, 0) AS tip_n, coalesce(anywhere.{{total}}::float8, 0) AS tip_total,
    coalesce(nullif(in_its.{{n}}, 0), on_rule.{{n}}, 0) AS inner_n,
    CASE WHEN in_its.{{n}} > 0 THEN in_its.{{total}}::float8
      ELSE coalesce(on_rule.{{total}}::float8, 0) END AS inner_total
  FROM found JOIN rules USING (source_rule_id)
  LEFT JOIN tip_evidence AS on_rule ON on_rule.skill = %s AND on_rule.policy = %s
    AND on_rule.level = 'rule' AND on_rule.key = %s AND on_rule.tip_id = found.id
  LEFT JOIN tip_evidence AS in_its ON in_its.skill = %s AND in_its.policy = %s
    AND in_its.level = 'category' AND in_its.key = %s AND in_its.tip_id = found.id AND %s
  LEFT JOIN tip_evidence AS anywhere ON anywhere.skill = %s AND anywhere.policy = %s
    AND anywhere.level = 'tip' AND anywhere.key = '' AND anywhere.tip_id = found.id
  LEFT JOIN unnest(%s::bigint[], %s::float8[]) AS near (id, cosine) ON near.id = found.id
), scored AS (
  SELECT seen.*, (w_prefix * prefix + w_category * in_category::integer + w_credit * {{expected}}
    + w_source * CASE WHEN abs(value) > {NEGLIGIBLE} AND abs(confidence) > {NEGLIGIBLE}
      THEN value * confidence ELSE 0 END
    + w_similarity * cosine) * CASE WHEN born_here THEN w_same_run ELSE 1 END AS rough
  FROM seen CROSS JOIN terms
), ranked AS (
  SELECT *, count(*) OVER (PARTITION BY kind) AS size, nth_value(rough, %s) OVER
    (PARTITION BY kind ORDER BY rough DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    AS cut
  FROM scored
)
SELECT kind, id, source_rule_id, in_category, value, confidence, born_here, cut, size
FROM ranked WHERE cut IS NULL OR rough > cut - {2 * MARGIN} ORDER BY kind, id
"""  # noqa: S608 - of constants; what is put in later was compiled by Django
