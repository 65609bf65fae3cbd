"""Two runs compared: outcomes counted by hand, tips, scripts, chronic failures, and what is read."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.credit import POLICIES
from memory.models import Attempt, Retrieval, Run
from memory.rates import Rate
from memory.run_diff import diff_runs, run_matrix
from memory.run_diff.scripts import LINES, side_by_side
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from memory.run_diff import RunDiff

pytestmark = pytest.mark.django_db

ADR = POLICIES["adr0019"]


def diff(a: Run, b: Run, **options: Any) -> RunDiff:
    """Compare under adr0019."""
    return diff_runs(a, b, policy=ADR, **options)


def grade(run: Run, rule_id: str, *outcomes: float | None, category: str = "ssh") -> list[Any]:
    """Attempts of *run* at a rule, one per outcome."""
    return [
        make_attempt(run=run, rule_id=rule_id, number=number, outcome=outcome, category=category)
        for number, outcome in enumerate(outcomes, start=1)
    ]


@pytest.fixture
def pair() -> tuple[Run, Run]:
    """Two runs, one after the other."""
    return make_run(external_id="a", status="done"), make_run(external_id="b", status="done")


# --- Outcomes -------------------------------------------------------------------------------------


def test_the_outcome_matrix_by_hand(pair: tuple[Run, Run]) -> None:
    a, b = pair
    for rule_id, in_a, in_b, category in (
        ("both", [1.0], [0.0, 0.8], "ssh"),
        ("won", [0.0, -0.2], [0.0, 0.5], "ssh"),
        ("lost", [0.8], [0.0], "audit"),
        ("lost_deep", [1.0], [-0.2], "audit"),
        ("neither", [0.0], [0.0, 0.0], "audit"),
        ("no_grade", [None], [1.0], "audit"),
    ):
        grade(a, rule_id, *in_a, category=category)
        grade(b, rule_id, *in_b, category=category)
    grade(a, "only_a", 1.0)
    grade(b, "only_b", 0.0)
    found = diff(a, b).outcomes
    assert found.matrix == {
        "passed": {"passed": 1, "failed": 2, "ungraded": 0, "absent": 1},
        "failed": {"passed": 1, "failed": 1, "ungraded": 0, "absent": 0},
        "ungraded": {"passed": 1, "failed": 0, "ungraded": 0, "absent": 0},
        "absent": {"passed": 0, "failed": 1, "ungraded": 0, "absent": 0},
    }
    pairs = found.any_attempt.table
    assert (pairs.both, pairs.wins, pairs.regressions, pairs.neither) == (1, 1, 2, 1)
    assert found.any_attempt.left_out == 1
    first = found.first_attempt.table
    assert (first.both, first.wins, first.regressions, first.neither) == (0, 0, 3, 2)
    assert [flip.rule_id for flip in found.regressions] == ["lost_deep", "lost"]
    assert [(flip.rule_id, flip.a, flip.b) for flip in found.wins] == [("won", 0.0, 0.5)]
    assert (found.only_a, found.only_b) == (("only_a",), ("only_b",))
    assert [(one.category, one.table.rate_a, one.table.rate_b) for one in found.categories] == [
        ("audit", Rate(2, 3), Rate(0, 3)),
        ("ssh", Rate(1, 2), Rate(2, 2)),
    ]


def test_a_first_attempt_without_a_grade_is_left_out_of_the_second_table_only(
    pair: tuple[Run, Run],
) -> None:
    a, b = pair
    grade(a, "rule", None, 1.0)
    grade(b, "rule", 0.0)
    found = diff(a, b).outcomes
    assert (found.any_attempt.table.regressions, found.any_attempt.left_out) == (1, 0)
    assert (found.first_attempt.table.n, found.first_attempt.left_out) == (0, 1)


def test_a_log_that_lost_the_first_attempt_does_not_say_how_it_went(pair: tuple[Run, Run]) -> None:
    a, b = pair
    make_attempt(run=a, rule_id="rule", number=2, outcome=1.0)
    grade(b, "rule", 0.0, 1.0)
    found = diff(a, b).outcomes
    assert (found.any_attempt.table.both, found.any_attempt.left_out) == (1, 0)
    assert (found.first_attempt.table.n, found.first_attempt.left_out) == (0, 1)


def test_lists_are_cut_and_counts_are_not(pair: tuple[Run, Run]) -> None:
    a, b = pair
    for number in range(4):
        grade(a, f"rule_{number}", 1.0)
        grade(b, f"rule_{number}", 0.0)
        grade(a, f"gone_{number}", 1.0)
    found = diff(a, b, limit=2)
    assert [flip.rule_id for flip in found.outcomes.regressions] == ["rule_0", "rule_1"]
    assert (found.outcomes.any_attempt.table.regressions, found.n_telling) == (4, 4)
    assert len(found.rules) == 2
    assert (found.outcomes.only_a, found.outcomes.n_only_a) == (("gone_0", "gone_1"), 4)


def test_ten_attempts_of_one_rule_are_one_pair(pair: tuple[Run, Run]) -> None:
    a, b = pair
    grade(a, "rule", *[0.0] * 9, 0.5)
    grade(b, "rule", 0.5)
    assert diff(a, b).outcomes.any_attempt.table.n == 1


# --- Rules and tips -------------------------------------------------------------------------------


def test_tips_that_came_went_and_moved(pair: tuple[Run, Run]) -> None:
    a, b = pair
    stays, climbs, goes, comes = (
        make_tip(external_id=name) for name in ("stays", "climbs", "goes", "comes")
    )
    goes.retired_at, goes.retired_reason = MOMENT, "misleading: 4 of 4 failed"
    goes.save()
    (first,), (second,) = grade(a, "rule", 1.0), grade(b, "rule", 0.0)
    make_retrieval(attempt=first, tip=stays, rank=1, llm=True, llm_label="followed")
    make_retrieval(attempt=first, tip=goes, rank=2, shown=False)
    make_retrieval(attempt=first, tip=climbs, rank=3, emb=0.3)
    make_retrieval(attempt=second, tip=stays, rank=1, trace="violated")
    make_retrieval(attempt=second, tip=climbs, rank=2, review=True, llm=False)
    make_retrieval(attempt=second, tip=comes, rank=3)
    found = diff(a, b)
    (rule,) = found.rules
    (attempts,) = rule.pairs
    tips = {tip.tip: tip for tip in attempts.tips}
    assert [(tip.tip, str(tip.change)) for tip in attempts.tips] == [
        ("stays", "same"), ("climbs", "moved"), ("comes", "new"), ("goes", "gone"),
    ]  # fmt: skip
    assert (tips["goes"].retired, tips["goes"].retired_reason) == (
        True,
        "misleading: 4 of 4 failed",
    )
    assert not tips["stays"].retired
    said = [
        (side.followed, side.followed_source, side.llm_label, side.credit)
        for side in (tips["stays"].a, tips["stays"].b, tips["climbs"].a, tips["climbs"].b)
        if side
    ]
    assert said == [
        (True, "llm", "followed", 1.0),
        (False, "trace", "", 0.0),
        (False, "emb", "", 0.0),
        (True, "review", "", 0.0),
    ]
    assert (tips["goes"].a and tips["goes"].a.shown, tips["goes"].b) == (False, None)
    turned = found.tips
    assert (turned.rules, turned.moved, turned.new, turned.gone, turned.retired) == (1, 1, 1, 1, 1)
    assert (turned.a_tips, turned.b_tips, turned.same_list) == (3, 3, 0)


def test_the_policy_is_what_an_answer_is_worth(pair: tuple[Run, Run]) -> None:
    a, b = pair
    (first,), (second,) = grade(a, "rule", 1.0), grade(b, "rule", 0.0)
    tip = make_tip()
    for attempt in (first, second):
        make_retrieval(attempt=attempt, tip=tip, llm=True)
    (rule,) = diff_runs(a, b, policy=POLICIES["quadrant"]).rules
    (row,) = rule.pairs[0].tips
    assert [side.credit for side in (row.a, row.b) if side] == [1.0, -1.0]


def test_only_the_first_k_tips_of_the_first_attempt_are_compared(pair: tuple[Run, Run]) -> None:
    a, b = pair
    tips = [make_tip() for _ in range(3)]
    extra = make_tip()
    for run in (a, b):
        first, retry = grade(run, "rule", 0.0, 1.0)
        for rank, tip in enumerate(tips, start=1):
            make_retrieval(attempt=first, tip=tip, rank=rank)
        if run == b:
            make_retrieval(attempt=first, tip=extra, rank=4)
            make_retrieval(attempt=retry, tip=extra, rank=1)
    assert diff(a, b, k=3).tips.same_list == 1
    assert diff(a, b, k=3).n_telling == 0
    assert (diff(a, b, k=4).tips.new, diff(a, b, k=4).n_telling) == (1, 1)


def test_lost_rules_come_first_then_worse_won_better_and_then_moved_tips(
    pair: tuple[Run, Run],
) -> None:
    a, b = pair
    for rule_id, in_a, in_b in (
        ("same", 1.0, 1.0),
        ("tips_2", 1.0, 1.0),
        ("tips_1", 0.0, 0.0),
        ("better", 0.5, 1.0),
        ("won", 0.0, 1.0),
        ("worse", 1.0, 0.5),
        ("lost_little", 0.5, 0.0),
        ("lost_much", 1.0, -0.2),
    ):
        (one,), (two,) = grade(a, rule_id, in_a), grade(b, rule_id, in_b)
        if rule_id.startswith("tips"):
            make_retrieval(attempt=one)
        if rule_id == "tips_2":
            make_retrieval(attempt=two)
    assert [rule.rule_id for rule in diff(a, b).rules] == [
        "lost_much", "lost_little", "worse", "won", "better", "tips_2", "tips_1",
    ]  # fmt: skip


def test_one_rule_shows_every_attempt_and_its_scripts(pair: tuple[Run, Run]) -> None:
    a, b = pair
    make_attempt(run=a, rule_id="rule", outcome=1.0, script="one\ntwo\nthree\n")
    make_attempt(run=b, rule_id="rule", outcome=0.0, script="one\n2\nthree\nfour\n")
    make_attempt(run=b, rule_id="rule", number=2, outcome=0.0, script=None)
    grade(a, "other", 1.0)
    (rule,) = diff(a, b, rule="rule").rules
    assert [(pair.a is not None, pair.b is not None) for pair in rule.pairs] == [
        (True, True), (False, True),
    ]  # fmt: skip
    scripts = rule.pairs[0].scripts
    assert (scripts.equal, scripts.a_chars, scripts.b_chars) == (False, 14, 17)
    assert [(str(line.change), line.a, line.b) for line in scripts.lines] == [
        ("same", "one", "one"),
        ("changed", "two", "2"),
        ("same", "three", "three"),
        ("new", None, "four"),
    ]
    assert rule.pairs[1].scripts.equal is None
    assert rule.pairs[1].scripts.b_chars is None


def test_without_a_rule_scripts_are_sized_and_not_laid_out(pair: tuple[Run, Run]) -> None:
    a, b = pair
    for run, outcome in ((a, 1.0), (b, 0.0)):
        make_attempt(run=run, rule_id="rule", outcome=outcome, script="the same\n")
    (rule,) = diff(a, b).rules
    assert (rule.pairs[0].scripts.equal, rule.pairs[0].scripts.lines) == (True, ())


def test_a_script_of_any_length_is_laid_out_in_part(pair: tuple[Run, Run]) -> None:
    a, b = pair
    make_attempt(run=a, rule_id="rule", script="x\n" * 50_000)
    make_attempt(run=b, rule_id="rule", script="x\ny\n" * 25_000)
    (rule,) = diff(a, b, rule="rule").rules
    scripts = rule.pairs[0].scripts
    assert scripts.left_off == 2 * (50_000 - LINES)
    assert len([line for line in scripts.lines if line.a is not None]) == LINES


def test_a_block_that_shrinks_is_changed_as_far_as_it_goes() -> None:
    rows = side_by_side(["a", "b", "c"], ["x", "c"])
    assert [(str(row.change), row.a, row.b) for row in rows] == [
        ("changed", "a", "x"), ("gone", "b", None), ("same", "c", "c"),
    ]  # fmt: skip


# --- What is read ---------------------------------------------------------------------------------


RUNS, RULES = 100, 40
"""Of the history that a comparison of two runs must not read."""


def cloned(row: Any, **fields: Any) -> Any:
    """An unsaved copy of *row* with other *fields*."""
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return type(row)(**(values | {"id": None} | fields))


def make_history() -> list[Run]:
    """RUNS runs over RULES rules, one attempt and one retrieval each; the planner knows of them."""
    run = make_run()
    attempt = make_attempt(run=run, rule_id="rule_0", outcome=0.0)
    retrieval = make_retrieval(attempt=attempt)
    runs = [
        cloned(run, external_id=f"h{n}", started_at=MOMENT + timedelta(days=n), ended_at=None)
        for n in range(RUNS)
    ]
    Run.objects.bulk_create(runs)
    attempts = [
        cloned(attempt, run_id=run.pk, rule_id=f"rule_{n}") for run in runs for n in range(RULES)
    ]
    Attempt.objects.bulk_create(attempts)
    Retrieval.objects.bulk_create(
        cloned(retrieval, run_id=one.run_id, attempt_id=one.pk, rule_id=one.rule_id)
        for one in attempts
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE runs, attempts, tip_retrievals, tips")
    return runs


def scans(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes of a plan that read a table or an index."""
    below = [node for child in plan.get("Plans", ()) for node in scans(child)]
    return [*below, plan] if "Scan" in plan["Node Type"] else below


def explained(sql: str) -> dict[str, Any]:
    """The plan that Postgres makes of a query."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}")
        plan = cursor.fetchone()[0]
    return (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]


def test_no_query_scans_the_history_of_all_runs() -> None:
    runs = make_history()
    with CaptureQueriesContext(connection) as queries:
        assert diff(runs[-2], runs[-1]).chronic.n == RULES
        diff(runs[-2], runs[-1], rule="rule_7")
        run_matrix("stig", last=3)
    # a query that is streamed is the declaration of a cursor
    read = [sql[sql.index("SELECT") :] for sql in (query["sql"] for query in queries)]
    history = [sql for sql in read if '"tip_retrievals"' in sql or 'FROM "attempts"' in sql]
    assert len(history) > 15
    for sql in history:
        nodes = scans(explained(sql))
        assert nodes
        for node in nodes:
            assert node["Node Type"] != "Seq Scan", (sql, node)
            if "Index Name" in node:
                bounds = ("run_id", "attempt_id", "(id = ")
                assert any(bound in node.get("Index Cond", "") for bound in bounds), (sql, node)


def test_the_number_of_queries_does_not_grow_with_the_rules(pair: tuple[Run, Run]) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            diff(*pair, limit=50)
        return len(found)

    for run in pair:
        make_retrieval(attempt=grade(run, "rule", 0.0)[0])
    before = queries()
    for number in range(12):
        for run, outcome in zip(pair, (1.0, 0.0), strict=True):
            make_retrieval(attempt=grade(run, f"rule_{number}", outcome)[0])
    assert queries() == before


def test_the_json_keeps_its_shape(pair: tuple[Run, Run]) -> None:
    a, b = pair
    for run, outcome in ((a, 1.0), (b, 0.0)):
        make_retrieval(attempt=grade(run, "rule", outcome)[0], llm=True)
    found = diff(a, b).as_dict()
    assert json.loads(json.dumps(found)) == found
    assert diff(a, b).as_dict() == found
    assert list(found) == [
        "version", "skill", "a", "b", "policy", "k", "limit", "rule", "notes", "n_telling",
        "rules", "tips", "outcomes", "chronic",
    ]  # fmt: skip
    assert list(found["rules"][0]) == [
        "rule_id", "category", "change", "a_best", "b_best", "a_attempts", "b_attempts", "pairs",
    ]  # fmt: skip
    assert list(found["rules"][0]["pairs"][0]["tips"][0]) == [
        "tip_id", "tip", "tip_type", "text", "retired", "retired_reason", "change", "a", "b",
    ]  # fmt: skip
    assert list(found["outcomes"]) == [
        "matrix", "any_attempt", "first_attempt", "wins", "regressions", "categories",
        "n_only_a", "n_only_b", "only_a", "only_b",
    ]  # fmt: skip
    assert (found["version"], found["outcomes"]["any_attempt"]["c"]) == (1, 1)
