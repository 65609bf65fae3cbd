"""Evidence: the sums equal a count in Python after any history, in any order; plans read one run only."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from memory import evidence
from memory.credit import POLICIES, Policy, Quadrant, credit, following, quadrant, row_of
from memory.evidence_sql import figures_statement, refresh_statement
from memory.models import Attempt, Retrieval, Run, RunEvidence, Tip, TipEvidence
from tests.factories import make_attempt, make_retrieval, make_run, make_tip, signal_fields
from tests.memory.test_credit import retrieval_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.django_db

NAMES = (
    "rows", "shown", "followed", "ignored", "earned", "misleading", "lucky_neighbour", "bystander",
    "credit_n", "credit_total", "visits", "visit_total", "visit_squares",
)  # fmt: skip
PLACES = Decimal(1).scaleb(-12)

Table = dict[tuple[Any, ...], tuple[Any, ...]]


# --- The same sums, by hand -----------------------------------------------------------------------


def exactly(number: float) -> Decimal:
    """As Postgres makes a numeric(30, 12) of a double: 15 digits, then 12 places."""
    return rounded(Decimal(format(number, ".15g")))


def rounded(number: Decimal) -> Decimal:
    return number.quantize(PLACES, ROUND_HALF_UP)


def sums_of(rows: list[Retrieval], policy: Policy) -> tuple[Any, ...]:
    """One row of RunEvidence."""
    facts = [row_of(row) for row in rows]
    answers = [following(fact)[0] for fact in facts]
    places = [quadrant(fact) for fact in facts]
    found = [credit(fact, policy) for fact in facts]
    credits = [exactly(earned) for earned in found if earned is not None]
    total, n = sum(credits, Decimal(0)), len(credits)
    mean = rounded(total / n) if n else Decimal(0)
    return (
        len(rows), sum(row.shown for row in rows), answers.count(True), answers.count(False),
        places.count(Quadrant.EARNED), places.count(Quadrant.MISLEADING),
        places.count(Quadrant.LUCKY_NEIGHBOUR), places.count(Quadrant.BYSTANDER),
        n, total, min(n, 1), mean, rounded(mean * mean),
    )  # fmt: skip


def by_hand(runs: Iterable[Run]) -> Table:
    """RunEvidence of these runs."""
    groups: dict[tuple[Any, ...], list[Retrieval]] = defaultdict(list)
    rows = Retrieval.objects.filter(run__in=list(runs), superseded=False)
    for row in rows:
        groups[row.run_id, row.tip_id, row.rule_id].append(row)
    return {
        (*key, max(row.category for row in rows), policy.name): sums_of(rows, policy)
        for key, rows in groups.items()
        for policy in POLICIES.values()
    }


def added_up(table: Table, skills: dict[int, str]) -> Table:
    """TipEvidence of RunEvidence."""
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for (run, tip, rule, category, policy), sums in table.items():
        keys = [("rule", rule, tip), ("tip", "", tip), ("skill", "", None)]
        for level, key, of in keys + ([("category", category, tip)] if category else []):
            place = (skills[run], policy, level, key, of)
            before = found.get(place, (0,) * len(NAMES))
            found[place] = tuple(a + b for a, b in zip(before, sums, strict=True))
    return found


def stored_runs() -> Table:
    key = ("run_id", "tip_id", "rule_id", "category", "policy")
    return {row[:5]: row[5:] for row in RunEvidence.objects.values_list(*key, *NAMES)}


def stored_tips() -> Table:
    key = ("skill", "policy", "level", "key", "tip_id")
    return {row[:5]: row[5:] for row in TipEvidence.objects.values_list(*key, *NAMES)}


def skills() -> dict[int, str]:
    return dict(Run.objects.values_list("pk", "skill"))


def refresh(*runs: Run) -> int:
    with transaction.atomic():
        return evidence.refresh([run.pk for run in runs])


def supersede(run: Run) -> None:
    """As ingest does when a revision comes."""
    Run.objects.filter(pk=run.pk).update(superseded_at=timezone.now())
    Retrieval.objects.filter(run=run).update(superseded=True)


# --- Any history ----------------------------------------------------------------------------------


@dataclass
class History:
    """Two skills, four runs; each row is (run, rule, attempt, tip, category, columns)."""

    rows: list[tuple[int, int, int, int, str, dict[str, Any]]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    def store(self) -> None:
        self.runs = [make_run(skill="cve" if n == 3 else "stig") for n in range(4)]
        tips = {skill: [make_tip(skill=skill) for _ in range(3)] for skill in ("stig", "cve")}
        attempts: dict[tuple[int, int, int], Attempt] = {}
        for run, rule, number, tip, category, columns in self.rows:
            key = (run, rule, number)
            if key not in attempts:
                attempts[key] = make_attempt(
                    run=self.runs[run], rule_id=f"rule_{rule}", number=number, category=category
                )
            advice = tips[self.runs[run].skill][tip]
            if not Retrieval.objects.filter(attempt=attempts[key], tip=advice).exists():
                make_retrieval(attempt=attempts[key], tip=advice, **columns)


rows_of_history = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(0, 1), st.integers(1, 3), st.integers(0, 2),
        st.sampled_from(["", "ssh", "audit"]), retrieval_fields(),
    ),
    min_size=1,
    max_size=14,
)  # fmt: skip
events = st.lists(
    st.one_of(
        st.tuples(st.just("refresh"), st.lists(st.integers(0, 3), max_size=4)),
        st.tuples(st.just("review"), st.integers(0, 13), st.sampled_from([None, True, False])),
        st.tuples(st.just("outcome"), st.integers(0, 13), st.floats(-1, 1, allow_nan=False)),
        st.tuples(st.just("unfinish"), st.integers(0, 13)),
        st.tuples(st.just("supersede"), st.integers(0, 3)),
    ),
    max_size=10,
)


def happen(history: History, event: tuple[Any, ...]) -> None:
    """One thing that changes rows, or a refresh of some runs."""
    what, which, *rest = event
    if what == "refresh":
        refresh(*(history.runs[number] for number in which))
    elif what == "supersede":
        supersede(history.runs[which])
    else:
        pks = list(Retrieval.objects.values_list("pk", flat=True))
        row = Retrieval.objects.filter(pk=pks[which % len(pks)])
        changes: dict[str, dict[str, Any]] = {
            "review": {"tip_followed_review": rest and rest[0], "tip_followed_review_by": "r"},
            "outcome": {"outcome_value": rest and rest[0], "outcome_confidence": 0.7},
            "unfinish": {"outcome_value": None, "outcome_confidence": None},
        }
        row.update(**changes[what])


@settings(max_examples=30)
@given(rows=rows_of_history, events=events, order=st.permutations(range(4)))
def test_after_any_history_the_sums_are_those_counted_by_hand(
    rows: list[Any], events: list[tuple[Any, ...]], order: list[int]
) -> None:
    with transaction.atomic():
        history = History(rows=rows)
        history.store()
        for event in events:
            happen(history, event)
            assert stored_tips() == added_up(stored_runs(), skills())
        for number in order:
            refresh(history.runs[number])
        expected = by_hand(history.runs)
        assert stored_runs() == expected
        assert stored_tips() == added_up(expected, skills())
        assert refresh(*history.runs) == 0
        Run.objects.update(status="done", done_at=timezone.now())
        assert evidence.check() == []
        transaction.set_rollback(True)


# --- One history, by hand -------------------------------------------------------------------------


def visited(run: Run, tip: Tip, *outcomes: float, rule: str = "rule_a", **columns: Any) -> None:
    """The tip was shown to each of a rule's attempts, which went like this."""
    for number, outcome in enumerate(outcomes, start=1):
        attempt = make_attempt(run=run, rule_id=rule, number=number, outcome=outcome)
        make_retrieval(attempt=attempt, tip=tip, **columns)


@pytest.mark.parametrize("categories", [("ssh", "audit"), ("", "ssh"), ("ssh", "")])
def test_a_rule_whose_category_changes_within_a_run_is_one_visit(categories: Any) -> None:
    run, tip = make_run(), make_tip()
    for number, category in enumerate(categories):
        place = {"rule_id": "rule_a", "number": number + 1, "category": category}
        attempt = make_attempt(run=run, outcome=float(number), **place)
        make_retrieval(attempt=attempt, tip=tip, llm=True)
    refresh(run)
    figures = evidence.figures_for(
        "stig", "adr0019", rule_id="rule_a", category="ssh", tip_ids=[tip.pk]
    )[tip.pk]
    assert figures.rule == figures.category == figures.tip == evidence.Sums(1, 0.5, 0.25)
    assert evidence.skill_sums("stig", "adr0019") == evidence.Sums(1, 0.5, 0.25)
    assert not TipEvidence.objects.filter(level="category").exclude(key="ssh").exists()


def test_ten_attempts_at_a_rule_are_one_visit() -> None:
    run, tip = make_run(), make_tip()
    visited(run, tip, *[0.0] * 9, 1.0, llm=True)
    refresh(run)
    (figures,) = evidence.figures_for(
        "stig", "adr0019", rule_id="rule_a", category="ssh", tip_ids=[tip.pk]
    ).values()
    assert figures.rule == figures.category == figures.tip == evidence.Sums(1, 0.1, 0.01)
    by_row = evidence.skill_sums("stig", "adr0019", unit="retrieval")
    assert by_row == evidence.Sums(10, 1.0, 10.0)


def test_figures_stand_at_the_level_they_belong_to() -> None:
    first, second, tip, unseen = make_run(), make_run(), make_tip(), make_tip()
    visited(first, tip, 1.0, llm=True)
    visited(second, tip, 0.5, llm=True)
    visited(second, tip, 0.0, rule="rule_b", llm=True)
    refresh(first, second)
    found = evidence.figures_for(
        "stig", "adr0019", rule_id="rule_a", category="", tip_ids=[unseen.pk, tip.pk]
    )
    assert found == {
        unseen.pk: evidence.UNSEEN,
        tip.pk: evidence.TipFigures(
            rule=evidence.Sums(2, 1.5, 1.25), tip=evidence.Sums(3, 1.5, 1.25)
        ),
    }
    assert evidence.skill_sums("stig", "quadrant") == evidence.Sums(3, 0.5, 2.25)
    assert evidence.skill_sums("cve", "adr0019") == evidence.NOTHING
    assert evidence.skill_sums("stig", "no such policy") == evidence.NOTHING


def test_rows_of_one_skill_never_reach_another() -> None:
    for skill in ("stig", "cve"):
        run, tip = make_run(skill=skill), make_tip(skill=skill)
        visited(run, tip, 1.0 if skill == "stig" else -1.0, llm=True)
        refresh(run)
    assert evidence.skill_sums("stig", "adr0019").total == 1.0
    assert evidence.skill_sums("cve", "adr0019").total == -1.0


def test_a_superseded_run_leaves_no_residue() -> None:
    run, tip = make_run(), make_tip()
    visited(run, tip, 0.1, 0.2, 0.7, emb=0.7)
    assert refresh(run) == len(POLICIES)
    supersede(run)
    assert refresh(run) == len(POLICIES)
    assert not RunEvidence.objects.exists()
    assert not TipEvidence.objects.exists()


def test_what_was_withheld_counts_as_a_row_and_earns_nothing() -> None:
    run, tip = make_run(), make_tip()
    visited(run, tip, 1.0, shown=False, withheld=True, propensity=0.5)
    refresh(run)
    row = TipEvidence.objects.get(level="tip", policy="adr0019")
    assert (row.rows, row.shown, row.credit_n, row.visits) == (1, 0, 0, 0)
    assert TipEvidence.objects.get(level="tip", policy="outcome_only").credit_n == 0


def test_a_review_moves_the_sums_by_its_difference_alone() -> None:
    run, tip = make_run(), make_tip()
    visited(run, tip, 1.0, llm=False)
    refresh(run)
    Retrieval.objects.update(tip_followed_review=True, tip_followed_review_by="r")
    assert refresh(run) == len(POLICIES)  # of each the quadrant counts moved
    row = TipEvidence.objects.get(level="skill", policy="adr0019")
    assert (row.rows, row.earned, row.lucky_neighbour, row.credit_total) == (1, 1, 0, 1)


def test_a_run_is_in_evidence_once_it_was_credited() -> None:
    empty = make_run(status="done")
    run, tip = make_run(), make_tip()
    visited(run, tip, 1.0)
    assert evidence.is_in_evidence(empty.pk)
    assert not evidence.is_in_evidence(run.pk)
    refresh(run)
    assert evidence.is_in_evidence(run.pk)
    Run.objects.filter(pk=run.pk).update(status="scoring")
    assert evidence.is_in_evidence(run.pk)  # scored again, it keeps what it had
    supersede(empty)
    assert not evidence.is_in_evidence(empty.pk)
    assert not evidence.is_in_evidence(0)


def test_sums_that_have_drifted_are_refused_not_hidden() -> None:
    run, tip = make_run(), make_tip()
    visited(run, tip, 1.0)
    refresh(run)
    TipEvidence.objects.filter(level="tip").update(rows=0, shown=0, credit_n=0, visits=0)
    supersede(run)
    with (
        pytest.raises(
            evidence.EvidenceDrifted, match=rf"primary key {run.pk} .*manage.py recount "
        ),
        transaction.atomic(),
    ):
        evidence.refresh([run.pk])
    evidence.recount()
    assert evidence.check() == []
    assert not TipEvidence.objects.exists()


def test_nothing_to_refresh_is_no_error() -> None:
    assert refresh() == 0


def test_taking_a_part_out_of_sums_leaves_the_rest() -> None:
    whole, part = evidence.Sums(3, 1.5, 1.25), evidence.Sums(1, 1.0, 1.0)
    assert whole.without(part) == evidence.Sums(2, 0.5, 0.25)
    assert part.without(whole) is evidence.NOTHING
    assert part.without(part) is evidence.NOTHING


# --- Plans ----------------------------------------------------------------------------------------


def nodes(plan: dict[str, Any]) -> Iterable[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def plan_of(sql: str, parameters: list[Any]) -> list[dict[str, Any]]:
    """The nodes of a statement's plan; nothing is executed."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
        (found,) = cursor.fetchone()
    return list(nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]))


@pytest.fixture
def long_history() -> Run:
    """Forty runs of 150 rows, each on a rule of its own; the planner knows of them."""
    tips = [make_tip() for _ in range(150)]
    runs = [make_run() for _ in range(40)]
    for number, run in enumerate(runs):
        attempt = make_attempt(run=run, rule_id=f"rule_{number}")
        Retrieval.objects.bulk_create(
            Retrieval(
                run=run, attempt=attempt, tip=tip, rule_id=attempt.rule_id, rank=1,
                outcome_value=1.0, outcome_confidence=1.0, retrieved_at=run.started_at,
                skill="stig", category="ssh", shown=True, **signal_fields(llm=True),
            )
            for tip in tips
        )  # fmt: skip
    refresh(*runs)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return runs[7]


def test_a_refresh_reads_the_rows_of_its_run_by_index(long_history: Run) -> None:
    found = plan_of(*refresh_statement([long_history.pk]))
    reads = [node for node in found if node.get("Relation Name") == "tip_retrievals"]
    assert reads
    assert {node["Node Type"] for node in reads} <= {"Index Scan", "Bitmap Heap Scan"}
    assert "retrieval_run_rows" in {node.get("Index Name") for node in found}
    scans = [node for node in found if node["Node Type"] == "Seq Scan"]
    assert "run_evidence" not in {node["Relation Name"] for node in scans}


def test_figures_are_read_by_index(long_history: Run) -> None:
    ids = list(Tip.objects.values_list("pk", flat=True)[:20])
    for category in ("ssh", ""):
        found = plan_of(*figures_statement("stig", "adr0019", "rule_7", category, ids, "visit"))
        reads = [node for node in found if node.get("Relation Name") == "tip_evidence"]
        assert reads
        assert {node["Node Type"] for node in reads} <= {"Index Scan", "Bitmap Heap Scan"}
        indexes = {node["Index Name"] for node in found if "Index Name" in node}
        assert indexes == {"tip_evidence_once"}
