"""The SQL of ``memory.evidence``: from counted rows to the sums of runs, from those to the sums of tips.

Guarantees: one pass over the rows computes the credit of every policy, each from the table of weights
in ``memory.credit``; both tables are reached by one pair of blocks (what should stand there, against
what stands there), so that the shift after a run, the recount and the check cannot disagree about what
a sum is; no statement touches a row twice; all sums are exact decimals.

Does not lock: a statement of here is right when the skill's lock was taken in a statement before it.

Shaped by: two jobs that each added a run's figures; a sum of floats that never came back to zero; and a
rule that counted as two visits of a run, because its category was corrected between two attempts.
"""

# ruff: noqa: S608 - the statements are put together from the constants below; values are parameters

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from memory import credit
from memory.credit import credit_sql, followed_q, ignored_q, quadrant_q
from memory.models import Retrieval
from memory.tallies import KNOWN_QUADRANTS, PRESENT, exact

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    Statement = tuple[str, list[Any]]

Unit = Literal["visit", "retrieval"]

DIGITS: Final = 12
"""Decimal places of every sum, as in the tables."""

COUNTS: Final = (
    "rows", "shown", "followed", "ignored", "earned", "misleading", "lucky_neighbour", "bystander",
)  # fmt: skip
SUMS: Final = (*COUNTS, "credit_n", "credit_total", "visits", "visit_total", "visit_squares")
RUN_KEY: Final = ("run_id", "tip_id", "rule_id", "category", "policy")
TIP_KEY: Final = ("skill", "policy", "level", "key", "tip_id")


def refresh_statement(run_ids: Collection[int]) -> Statement:
    """Bring the evidence of these runs in line with their rows; gives the number of changed rows.

    Writes both tables in one statement. Sums of tips that come to no row at all are deleted.
    """
    differences, parameters = _run_differences(run_ids)
    moved = (
        f"(SELECT {_names(RUN_KEY)}, {_names(f'd_{name} AS {name}' for name in SUMS)} FROM differs)"
    )
    blocks = (
        differences,
        f"shift AS ({_levels(moved)})",
        f"shifted AS ({_shifted('shift')})",
        _deletion("run_evidence", "SELECT id FROM differs WHERE NOT wanted"),
        _upsert("run_evidence", RUN_KEY, "differs WHERE wanted"),
        _deletion("tip_evidence", "SELECT id FROM shifted WHERE rows = 0"),
        _upsert("tip_evidence", TIP_KEY, "shifted WHERE rows <> 0"),
    )
    return f"WITH {', '.join(blocks)} SELECT count(*) FROM differs", parameters


def rebuild_statement(skill: str) -> Statement:
    """Make the tip sums of *skill* those of its RunEvidence; gives the number of changed rows."""
    differences, parameters = _tip_differences(skill)
    blocks = (
        differences,
        _deletion("tip_evidence", "SELECT id FROM differs WHERE NOT wanted"),
        _upsert("tip_evidence", TIP_KEY, "differs WHERE wanted"),
    )
    return f"WITH {', '.join(blocks)} SELECT count(*) FROM differs", parameters


def run_check_statement(run_ids: Collection[int], limit: int) -> Statement:
    """At most *limit* rows of RunEvidence that are not the recount of their run; see :func:`read`."""
    differences, parameters = _run_differences(run_ids)
    return f"WITH {differences} {_first_differences(RUN_KEY)}", [*parameters, limit]


def tip_check_statement(skill: str, limit: int) -> Statement:
    """At most *limit* rows of TipEvidence that are not the sum of their RunEvidence."""
    differences, parameters = _tip_differences(skill)
    return f"WITH {differences} {_first_differences(TIP_KEY)}", [*parameters, limit]


# --- Reading --------------------------------------------------------------------------------------

_OBSERVED: Final[dict[Unit, str]] = {
    "visit": "visits, visit_total::float8, visit_squares::float8",
    "retrieval": "credit_n, credit_total::float8, credit_n::float8",
}
"""n, total and total of squares; of retrievals the largest squares that credits in [-1, 1] can have."""


def figures_statement(
    skill: str, policy: str, rule_id: str, category: str, tip_ids: Collection[int], unit: Unit
) -> Statement:
    """The sums of these tips on the rule, in the category and anywhere: (tip, level, n, …)."""
    keys = [("rule", rule_id), ("tip", "")] + ([("category", category)] if category else [])
    sql = (
        f"SELECT e.tip_id, e.level, {_OBSERVED[unit]} "
        f"FROM (VALUES {_names(['(%s, %s)'] * len(keys))}) AS asked (level, key) "
        "JOIN tip_evidence AS e ON e.skill = %s AND e.policy = %s AND e.level = asked.level "
        "AND e.key = asked.key AND e.tip_id = ANY(%s)"
    )
    return sql, [*(value for key in keys for value in key), skill, policy, list(tip_ids)]


def skill_statement(skill: str, policy: str, unit: Unit) -> Statement:
    """The sums of a whole skill: no row or one."""
    sql = (
        f"SELECT {_OBSERVED[unit]} FROM tip_evidence WHERE skill = %s AND policy = %s "
        "AND level = 'skill' AND key = '' AND tip_id IS NULL"
    )
    return sql, [skill, policy]


# --- What should stand there ----------------------------------------------------------------------


def _answered(run_ids: Collection[int]) -> Statement:
    """Per row: its keys, what it counts as, and per policy (by number) its credit."""
    answers: dict[str, Any] = {
        "is_shown": PRESENT,
        "is_followed": followed_q(),
        "is_ignored": ignored_q(),
        **{f"is_{which}": quadrant_q(which) for which in KNOWN_QUADRANTS},
    }
    for number, policy in enumerate(credit.POLICIES.values()):
        answers[f"credit_{number}"] = exact(credit_sql(policy))
    rows = Retrieval.objects.counted().filter(run__in=list(run_ids), run__superseded_at=None)
    kept = rows.order_by().values("run_id", "tip_id", "rule_id", "category", **answers)
    sql, parameters = kept.query.sql_with_params()
    return sql, list(parameters)


def _fresh(run_ids: Collection[int]) -> Statement:
    """The rows that RunEvidence should hold for these runs: ``answered``, ``counted`` and ``fresh``.

    A rule in one run is one visit, also where its category changed on the way: it gets one of those named
    (``max``: any will do that every recount finds again, and one that is named before none).
    ``answered`` is materialized, or each credit would be computed twice: to be counted and to be added.
    """
    sql, parameters = _answered(run_ids)
    numbers = range(len(credit.POLICIES))
    per_policy = _names(f"(%s, credit_n_{number}, credit_total_{number})" for number in numbers)
    counts = (f"count(*) FILTER (WHERE is_{name}) AS {name}" for name in COUNTS if name != "rows")
    credits = (
        f"count(credit_{number}) AS credit_n_{number}, sum(credit_{number}) AS credit_total_{number}"
        for number in numbers
    )
    mean = f"round(p.total / nullif(p.n, 0), {DIGITS})"
    fresh = f"""answered AS MATERIALIZED ({sql}), counted AS (
        SELECT run_id, tip_id, rule_id, max(category) AS category, count(*) AS rows,
               {_names(counts)}, {_names(credits)}
        FROM answered GROUP BY run_id, tip_id, rule_id), fresh AS (
        SELECT run_id, tip_id, rule_id, category, p.policy, {_names(COUNTS)},
               p.n AS credit_n, coalesce(p.total, 0) AS credit_total, sign(p.n)::integer AS visits,
               coalesce({mean}, 0) AS visit_total,
               coalesce(round({mean} * {mean}, {DIGITS}), 0) AS visit_squares
        FROM counted CROSS JOIN LATERAL (VALUES {per_policy}) AS p (policy, n, total))"""
    return fresh, [*parameters, *credit.POLICIES]


def _run_differences(run_ids: Collection[int]) -> Statement:
    fresh, parameters = _fresh(run_ids)
    stored = "(SELECT * FROM run_evidence WHERE run_id = ANY(%s))"
    return f"{fresh}, {_differs(RUN_KEY, 'fresh', stored)}", [*parameters, list(run_ids)]


def _tip_differences(skill: str) -> Statement:
    of_skill = "(SELECT * FROM run_evidence WHERE run_id IN (SELECT id FROM runs WHERE skill = %s))"
    stored = "(SELECT * FROM tip_evidence WHERE skill = %s)"
    derived = f"derived AS ({_levels(of_skill)})"
    return f"{derived}, {_differs(TIP_KEY, 'derived', stored)}", [skill, skill]


def _levels(source: str) -> str:
    """Rows of RunEvidence added up at each level. No category is not a category: it gets no sum."""
    return f"""
        SELECT r.skill, e.policy,
               CASE WHEN grouping(e.rule_id) = 0 THEN 'rule'
                    WHEN grouping(e.category) = 0 THEN 'category'
                    WHEN grouping(e.tip_id) = 0 THEN 'tip'
                    ELSE 'skill' END AS level,
               coalesce(e.rule_id, e.category, '') AS key, e.tip_id, {_sums("sum(e.{0})")}
        FROM {source} AS e JOIN runs AS r ON r.id = e.run_id
        GROUP BY GROUPING SETS (
            (r.skill, e.policy, e.tip_id, e.rule_id), (r.skill, e.policy, e.tip_id, e.category),
            (r.skill, e.policy, e.tip_id), (r.skill, e.policy))
        HAVING grouping(e.category) = 1 OR e.category <> ''"""


# --- Against what stands there --------------------------------------------------------------------


def _differs(key: tuple[str, ...], wanted: str, stored: str) -> str:
    """Block ``differs``: keys of which one side has no row, or other sums than the other side.

    ``wanted``, ``there``: which sides have the key; ``id``: of the stored row; each sum as it should
    be, and under ``d_…`` what has to be added to the stored one. A full join, which is never a nested
    loop: two unindexed sides of some ten thousand rows each, of which the planner knows no size, must not
    meet in one.
    """
    same = " AND ".join(f"{_joinable('w', name)} = {_joinable('s', name)}" for name in key)
    changed = " OR ".join(f"w.{name} <> s.{name}" for name in SUMS)
    return f"""differs AS (
        SELECT {_names(f"coalesce(w.{name}, s.{name}) AS {name}" for name in key)}, s.id,
               w.policy IS NOT NULL AS wanted, s.id IS NOT NULL AS there,
               {_names(f"w.{name}" for name in SUMS)},
               {_names(f"coalesce(w.{name}, 0) - coalesce(s.{name}, 0) AS d_{name}" for name in SUMS)}
        FROM {wanted} AS w FULL JOIN {stored} AS s ON {same}
        WHERE w.policy IS NULL OR s.id IS NULL OR {changed})"""


def _joinable(side: str, name: str) -> str:
    """A column of a key. The skill's own sums have no tip, and NULL joins nothing; no tip is 0."""
    return f"coalesce({side}.{name}, 0)" if name == "tip_id" else f"{side}.{name}"


def _shifted(shift: str) -> str:
    """The keys in *shift*, with what their stored rows (``id``) come to. Two joins, for one index."""
    sums = _names(f"s.{name} + coalesce(t.{name}, 0) AS {name}" for name in SUMS)
    same = " AND ".join(f"t.{name} = s.{name}" for name in TIP_KEY)
    whole = " AND ".join(f"t.{name} = s.{name}" for name in TIP_KEY if name != "tip_id")
    columns = f"t.id, {_names(f's.{name}' for name in TIP_KEY)}, {sums}"
    return f"""
        SELECT {columns} FROM {shift} AS s LEFT JOIN tip_evidence AS t ON {same}
        WHERE s.tip_id IS NOT NULL
        UNION ALL
        SELECT {columns} FROM {shift} AS s LEFT JOIN tip_evidence AS t ON {whole} AND t.tip_id IS NULL
        WHERE s.tip_id IS NULL"""


def _first_differences(key: tuple[str, ...]) -> str:
    found = _names((*key, "wanted", "there", *SUMS, *(f"d_{name}" for name in SUMS)))
    return f"SELECT {found} FROM differs ORDER BY {_names(key)} LIMIT %s"


# --- Writing --------------------------------------------------------------------------------------


def _deletion(table: str, ids: str) -> str:
    """By an array, of which the planner expects few: to delete nothing it must not read the table."""
    return f"{table}_gone AS (DELETE FROM {table} WHERE id = ANY(ARRAY({ids})))"


def _upsert(table: str, key: tuple[str, ...], source: str) -> str:
    """Absolute values, not shifts: a CHECK sees the row that is proposed, and a shift may be below 0.

    In order of the key, so that a reader who locks rows in that order meets no deadlock.
    """
    replaced = _names(f"{name} = excluded.{name}" for name in SUMS)
    return f"""{table}_kept AS (
        INSERT INTO {table} ({_names((*key, *SUMS))})
        SELECT {_names((*key, *SUMS))} FROM {source} ORDER BY {_names(key)}
        ON CONFLICT ON CONSTRAINT {table}_once DO UPDATE SET {replaced})"""


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _sums(expression: str) -> str:
    return _names(f"{expression.format(name)} AS {name}" for name in SUMS)
