"""Undo, against a model: whatever was changed under whatever name, each state comes back, one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from contextgraph import regrading
from contextgraph.envelope import OutcomeCorrection
from contextgraph.ingest import LogFacts, ingest_records
from contextgraph.late_outcomes import record_late_outcome
from contextgraph.outcome_changes import EVALUATOR, GRADE, sent_mode
from contextgraph.regrading import RegradeRefused, regrade, undo
from memory import evidence
from memory.models import Attempt, OutcomeRevision, Run
from tests.contextgraph.ladders import edited, use_ladder
from tests.contextgraph.run_documents import attempt, run, tip
from tests.factories import MOMENT

if TYPE_CHECKING:
    from pathlib import Path

    from contextgraph.change_stack import Standing

pytestmark = pytest.mark.django_db(transaction=True)

RUNS, RULES = ("night-1", "night-2"), ("rule_a", "rule_b")


@pytest.fixture(autouse=True)
def _without_signals(settings: Any) -> None:
    settings.SIGNALS = []


def stored(name: str) -> Run:
    body = run(
        tip("t1", "advice"), *(attempt(rule, passed=False) for rule in RULES), external_id=name
    )
    [result] = ingest_records(lambda: body, log=LogFacts())
    Run.objects.filter(pk=result.run_id).update(status="done", done_at=MOMENT)
    with transaction.atomic():
        evidence.refresh([result.run_id])
    return Run.objects.get(pk=result.run_id)


VERDICTS: dict[str, dict[str, Any]] = {
    "good": {"passed": True},
    "bad": {"passed": False, "failure_mode": "clean_failure"},
    "broken": {"passed": False, "failure_mode": "health_failure"},
    "read": {"passed": False, "evaluator_raw": {"health": "UNHEALTHY: app"}},
}


def enter(name: str, rule: str, verdict: str, batch: str) -> bool:
    found = Attempt.objects.get(run__external_id=name, rule_id=rule)
    correction = OutcomeCorrection(rule_id=rule, number=1, **VERDICTS[verdict])
    return record_late_outcome(found.pk, correction, by="ada", batch=batch)


def state(name: str) -> list[tuple[Any, ...]]:
    rows = Attempt.objects.filter(run__external_id=name).order_by("rule_id")
    columns = (*GRADE, *EVALUATOR)
    return [(*(getattr(row, column) for column in columns), sent_mode(row)) for row in rows]


def grade_of(rule: str = "rule_a", name: str = "night-1") -> float | None:
    return Attempt.objects.get(run__external_id=name, rule_id=rule).outcome_value


# --- One by one -----------------------------------------------------------------------------------


def test_a_name_used_twice_is_two_changes() -> None:
    stored("night-1")
    enter("night-1", "rule_a", "good", "first")
    enter("night-1", "rule_a", "bad", "nightly")
    enter("night-1", "rule_a", "broken", "other")
    enter("night-1", "rule_a", "good", "nightly")
    seen = []
    for _ in range(3):
        undo(skill="stig", by="bob")
        seen.append(grade_of())
    assert seen == [-0.2, 0.0, 1.0]


def test_a_name_used_twice_is_taken_back_of_each_run_once_from_the_top() -> None:
    """The second night had one run more, whose first change of the name it was."""
    for name in RUNS:
        stored(name)
    enter("night-1", "rule_a", "good", "nightly")
    enter("night-1", "rule_a", "broken", "other")
    enter("night-1", "rule_a", "good", "nightly")
    enter("night-2", "rule_a", "good", "nightly")
    seen = []
    for _ in range(3):
        assert undo(skill="stig", by="bob").not_done == []
        seen.append((grade_of(), grade_of(name="night-2")))
    assert seen == [(-0.2, 0.0), (1.0, 0.0), (0.0, 0.0)]


def test_two_who_take_back_a_name_used_twice_take_one_change_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the first has left on top has the same name, and is another change."""
    stored("night-1")
    enter("night-1", "rule_a", "good", "nightly")
    enter("night-1", "rule_a", "broken", "other")
    undo(skill="stig", by="ann")
    enter("night-1", "rule_a", "broken", "nightly")
    chosen = regrading._taken_back

    def another_was_first(run: Run, change: Standing) -> Any:
        monkeypatch.setattr(regrading, "_taken_back", chosen)
        undo(skill="stig", by="ann")
        return chosen(run, change)

    monkeypatch.setattr(regrading, "_taken_back", another_was_first)
    [result] = undo(skill="stig", by="bob").not_done
    assert result.why == "another process has taken it back"
    assert grade_of() == 1.0


def test_a_run_is_asked_once_for_its_changes_by_index() -> None:
    for name in RUNS:
        stored(name)
        enter(name, "rule_a", "good", "nightly")
    with CaptureQueriesContext(connection) as asked:
        undo(skill="stig", by="bob")
    found = [query["sql"] for query in asked if "row_number()" in query["sql"]]
    assert len(found) == 1 + len(RUNS)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # a few rows are read at once otherwise
        cursor.execute(f"EXPLAIN {found[-1]}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert re.search(r"Index Cond: \(run_id = '?\d", plan), plan
    assert "Index Cond: (attempt_id = a.id)" in plan, plan


def test_a_change_that_came_to_nothing_is_taken_back_and_hides_none_before_it() -> None:
    stored("night-1")
    first = state("night-1")
    enter("night-1", "rule_a", "good", "first")
    kept = state("night-1")
    enter("night-1", "rule_a", "broken", "there and back")
    enter("night-1", "rule_a", "good", "there and back")
    out = StringIO()
    call_command("regrade", "--skill", "stig", "--undo", "--by", "bob", stdout=out)
    assert "Nothing changed: what is taken back had left every outcome as it was" in out.getvalue()
    assert state("night-1") == kept
    last = OutcomeRevision.objects.order_by("pk").last()
    assert last is not None
    assert (last.cause, last.old_value, last.new_value) == ("undo", 1.0, 1.0)
    assert undo(skill="stig", by="bob").revised == 1
    assert state("night-1") == first
    with pytest.raises(RegradeRefused, match="could be taken back"):
        undo(skill="stig", by="bob")


def test_a_name_that_was_taken_back_may_be_used_again() -> None:
    stored("night-1")
    first = state("night-1")
    for _ in range(2):
        enter("night-1", "rule_a", "good", "nightly")
        undo(skill="stig", by="bob")
        assert state("night-1") == first


def test_the_evaluators_words_come_back_whichever_revision_of_the_change_replaced_them(
    settings: Any, tmp_path: Path
) -> None:
    stored("night-1")
    enter("night-1", "rule_a", "good", "first")
    first = state("night-1")
    use_ladder(settings, tmp_path, edited(('"1"', '"2"'), ("value = 1.0", "value = 0.9")))
    assert enter("night-1", "rule_a", "good", "second"), "the same words, another grade"
    enter("night-1", "rule_a", "read", "second")
    undo(skill="stig", by="bob")
    assert state("night-1") == first


def test_an_undo_of_which_every_run_is_left_says_so() -> None:
    stored("night-1")
    enter("night-1", "rule_a", "good", "first")
    Run.objects.update(status="scoring")
    out = StringIO()
    with pytest.raises(Exception, match="1 of 1 runs were not done"):
        call_command("regrade", "--skill", "stig", "--undo", stdout=out)
    assert "Nothing changed: no attempt was looked at." in out.getvalue()


def test_a_change_of_many_runs_is_taken_back_where_nothing_stands_on_it(
    settings: Any, tmp_path: Path
) -> None:
    for name in RUNS:
        stored(name)
        for rule in RULES:
            enter(name, rule, "broken", "posted")
    use_ladder(settings, tmp_path, edited(('"1"', '"2"'), ("-0.2", "-0.7")))
    assert regrade(skill="stig", by="ada").revised == 4
    enter("night-2", "rule_b", "good", "late")
    assert undo(skill="stig", by="bob", run="night-1").revised == 2
    assert (grade_of(), grade_of("rule_b", "night-2")) == (-0.2, 1.0)
    assert undo(skill="stig", by="bob").revised == 1
    assert undo(skill="stig", by="bob").revised == 2
    assert {grade_of(rule, name) for rule in RULES for name in RUNS} == {-0.2}


# --- Any sequence ---------------------------------------------------------------------------------


@dataclass
class Model:
    """What stands in one run: for each change its name, its last step and the state before it."""

    stack: list[tuple[str, int, list[Any]]] = field(default_factory=list)
    last: str | None = None

    def note(self, batch: str, at: int, before: list[Any]) -> None:
        if self.last == batch:
            _, _, before = self.stack.pop()
        self.stack.append((batch, at, before))
        self.last = batch

    def undo(self) -> list[Any]:
        self.last = None
        return self.stack.pop()[2]


ENTER = st.tuples(
    st.sampled_from(RUNS),
    st.sampled_from(RULES),
    st.sampled_from(sorted(VERDICTS)),
    st.sampled_from(["nightly", "other"]),
)
UNDO = st.sampled_from([None, *RUNS])
"""In one run, or in all that the last change touched."""


def one_undo(models: dict[str, Model], target: str | None) -> None:
    """The product and the model take the same back."""
    standing = {name: m for name, m in models.items() if m.stack and target in (None, name)}
    if not standing:
        with pytest.raises(RegradeRefused):
            undo(skill="stig", by="bob", run=target)
        return
    _, last = max((m.stack[-1][1], m.stack[-1][0]) for m in standing.values())
    expected = {name: state(name) for name in models}
    buried = set()
    for name, model in standing.items():
        if model.stack[-1][0] == last:
            expected[name] = model.undo()
        elif any(change == last for change, _, _ in model.stack):
            buried.add(name)
    report = undo(skill="stig", by="bob", run=target)
    assert {one.external_id for one in report.not_done} == buried
    assert {name: state(name) for name in models} == expected


@example(
    steps=[
        ("night-1", "rule_a", "good", "nightly"),
        ("night-1", "rule_a", "broken", "other"),
        ("night-1", "rule_a", "bad", "nightly"),
        ("night-2", "rule_a", "good", "nightly"),
        None,
    ]
)
@hypothesis_settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(ENTER | UNDO, max_size=9))
def test_each_state_comes_back(steps: list[Any]) -> None:
    call_command("flush", interactive=False, verbosity=0, inhibit_post_migrate=True)
    models = {name: Model() for name in RUNS}
    first = {name: state(name) for name in RUNS if stored(name)}
    for at, step in enumerate(steps):
        if not isinstance(step, tuple):
            one_undo(models, step)
            continue
        name, *_, batch = step
        before = state(name)
        if enter(*step):
            models[name].note(batch, at, before)
    while any(model.stack for model in models.values()):
        one_undo(models, None)
    assert {name: state(name) for name in RUNS} == first
    assert evidence.check() == []
