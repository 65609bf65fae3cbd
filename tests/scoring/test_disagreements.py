"""The queue of disagreements: the causes of `doubt` in SQL, in a window, read by index."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.models import Retrieval, Run
from memory.reasons import Reason
from scoring.attribution import Cause, doubt, signals_of
from scoring.disagreements import CAUSES, DISAGREEMENTS, Queue, run_named
from scoring.following_model import HAND_SET, probability
from scoring.reviews import record_review
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip, signal_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db

cosines = st.one_of(
    st.none(), st.sampled_from([0.3, 0.29999, 0.8, 0.79999]), st.floats(-1.0, 1.0, allow_nan=False)
)
labels = st.sampled_from(
    ["", "followed", "contradicted", "not_followed", "unclear", "not_applicable"]
)


@st.composite
def judged_fields(draw: st.DrawFn) -> dict[str, Any]:
    """Columns of a shown row whose p is the one that its run's dream pass would have stored."""
    label = draw(labels)
    followed = {"followed": True, "contradicted": False, "not_followed": False}.get(label)
    if not label:
        followed = draw(st.sampled_from([None, True, False]))
    fields = signal_fields(
        llm=followed,
        emb=draw(cosines),
        trace=draw(st.sampled_from(["", "followed", "violated", "not_followed", "abstained"])),
        review=draw(st.sampled_from([None, None, True])),
    )
    if label:
        fields |= {"llm_label": label, "llm_source": "judge-a@0"}
    if label in ("unclear", "not_applicable"):
        fields["llm_reason"] = label
    p = probability(signals_of(Retrieval(shown=True, **fields)), HAND_SET)
    return fields | {
        "tip_followed_p": p,
        "tip_followed_p_version": "" if p is None else HAND_SET.version,
    }


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(judged_fields(), min_size=1, max_size=12))
def test_the_causes_in_sql_are_those_of_doubt(rows: list[dict[str, Any]]) -> None:
    with transaction.atomic():
        Retrieval.objects.all().delete()
        attempt = make_attempt(run=make_run(status=Run.Status.DONE))
        for fields in rows:
            make_retrieval(attempt=attempt, **fields)
        for cause in Cause:
            expected = {
                row.pk
                for row in Retrieval.objects.all()
                if (seen := doubt(row)) is not None and cause in seen.causes
            }
            found = Queue(skill="stig", run=attempt.run, cause=cause).rows()
            assert {row.pk for row in found} == expected, cause
        every = list(Queue(skill="stig", run=attempt.run).rows())
        doubts = [seen for row in Retrieval.objects.all() if (seen := doubt(row)) is not None]
        expected = {seen.row.pk for seen in doubts if set(seen.causes) & set(DISAGREEMENTS)}
        assert {row.pk for row in every} == expected
        keys = [(-row.causes, abs(row.tip_followed_p - 0.5), row.pk) for row in every]
        assert keys == sorted(keys)
    assert set(CAUSES) == set(Cause)


def contradicted(run: Run, **fields: Any) -> Retrieval:
    """A row on which judge and trace say opposite things."""
    values = {
        "llm": True,
        "trace": "violated",
        "tip_followed_p": 0.6,
        "tip_followed_p_version": "x@0",
    }
    return make_retrieval(attempt=make_attempt(run=run), **(values | fields))


def found(queue: Queue) -> list[int]:
    return [row.pk for row in queue.rows()]


def test_only_rows_of_the_latest_final_runs_of_the_skill_are_listed() -> None:
    runs = [make_run(status=Run.Status.DONE) for _ in range(7)]
    rows = [contradicted(run).pk for run in runs]
    contradicted(make_run(status=Run.Status.SCORING))
    contradicted(make_run(status=Run.Status.DONE, superseded_at=MOMENT))
    elsewhere = contradicted(make_run(status=Run.Status.DONE, skill="cve"))
    contradicted(runs[-1], shown=False, llm=None, trace="", tip_followed_p=None,
                 tip_followed_p_version="")  # fmt: skip
    assert found(Queue(skill="stig")) == rows[2:]
    assert found(Queue(skill="stig", window=20)) == rows
    assert found(Queue(skill="stig", run=runs[0])) == rows[:1]
    assert found(Queue(skill="cve")) == [elsewhere.pk]
    assert found(Queue(skill="nothing")) == []


def test_a_row_leaves_the_queue_when_somebody_has_looked_at_it() -> None:
    run = make_run(status=Run.Status.DONE)
    one, two, three = (contradicted(run) for _ in range(3))
    record_review(one.pk, followed=True, by="ann")
    record_review(two.pk, followed=None, by="ann")
    assert found(Queue(skill="stig")) == [three.pk]
    assert found(Queue(skill="stig", undecided=True)) == [two.pk]


def test_a_row_that_the_judge_could_not_tell_is_listed() -> None:
    run = make_run(status=Run.Status.DONE)
    row = make_retrieval(
        attempt=make_attempt(run=run), llm_label="unclear", llm_reason=Reason.UNCLEAR
    )
    assert found(Queue(skill="stig")) == [row.pk]
    assert found(Queue(skill="stig", cause=Cause.JUDGE_AGAINST_TRACE)) == []


@pytest.mark.parametrize("key", ["", "0", "9" * 30, "²", "\0", "run-1"])
def test_a_key_that_names_no_run_names_none(key: str) -> None:
    make_run()
    assert run_named(key) is None


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def test_the_default_queue_reads_its_runs_by_index_and_no_other_row() -> None:
    tips = [make_tip() for _ in range(20)]
    for _ in range(40):
        template = contradicted(make_run(status=Run.Status.DONE), tip=tips[0])
        attempts = [make_attempt(run=template.run) for _ in range(4)]
        columns = {
            field.attname: getattr(template, field.attname)
            for field in Retrieval._meta.concrete_fields
            if not field.primary_key and field.name not in ("attempt", "tip")
        }
        Retrieval.objects.bulk_create(
            Retrieval(**columns, attempt=attempt, tip=tip) for attempt in attempts for tip in tips
        )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE runs")
        cursor.execute("ANALYZE tip_retrievals")
        # of a small table on a slow disk it may be right to read the whole of it
        cursor.execute("SET LOCAL random_page_cost = 1.1")
    for queue in (Queue(skill="stig"), Queue(skill="stig", cause=Cause.UNCERTAIN)):
        (plan,) = json.loads(queue.rows()[:50].explain(format="json"))
        scans = [
            node for node in nodes(plan["Plan"]) if node.get("Relation Name") == "tip_retrievals"
        ]
        by_index = [node for node in nodes(plan["Plan"]) if "run_id" in node.get("Index Cond", "")]
        assert scans, plan
        assert all(node["Node Type"] != "Seq Scan" for node in scans), plan
        assert by_index, plan
