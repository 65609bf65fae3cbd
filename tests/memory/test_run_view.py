"""One run as data: the promised keys, who decided, and the one reason that explains a NULL."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.reasons import Reason
from memory.run_view import load_bearing_reason, run_view
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip

pytestmark = pytest.mark.django_db


def test_attempts_hold_their_tips_by_rank_with_every_signal() -> None:
    run = make_run(external_id="run-x")
    first = make_attempt(run=run, rule_id="rule_a", outcome=0.0)
    make_attempt(run=run, rule_id="rule_a", number=2, outcome=None, script=None)
    evidence = [{"clause": "forbids", "text": "writes /etc/app.conf", "line": 3}]
    tip = make_tip(external_id="t-2")
    make_retrieval(attempt=first, tip=tip, rank=2, llm=True, emb=0.1, llm_tries=1)
    make_retrieval(
        attempt=first, tip=make_tip(external_id="t-1"), trace="violated", emb=0.9,
        tip_followed_trace_evidence=evidence,
    )  # fmt: skip

    view = json.loads(json.dumps(run_view(run)))
    assert view["run"]["id"] == run.pk
    assert [view["run"][name] for name in ("external_id", "skill", "status")] == [
        "run-x", "stig", "ingested",
    ]  # fmt: skip
    one, two = view["attempts"]
    assert (one["rule_id"], one["number"], one["outcome_value"]) == ("rule_a", 1, 0.0)
    assert (two["outcome_value"], two["outcome_reason"]) == (None, "no_outcome")
    assert (one["has_script"], two["has_script"], two["retrievals"]) == (True, False, [])
    rank_one, rank_two = one["retrievals"]
    assert (rank_one["tip"], rank_one["followed"], rank_one["followed_source"]) == (
        "t-1", False, "trace",
    )  # fmt: skip
    assert (rank_one["quadrant"], rank_one["tip_followed_trace_verdict"]) == (
        "bystander", "violated",
    )  # fmt: skip
    assert rank_one["tip_followed_trace_evidence"] == evidence
    assert (rank_two["tip_followed_llm"], rank_two["followed_source"]) == (True, "llm")
    assert (rank_two["quadrant"], rank_two["tip_followed_emb"]) == ("misleading", 0.1)
    assert {"tip", "rank", "shown", "tip_followed_emb_max_chunk", "llm_reason"} <= set(rank_two)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"shown": False}, "not_shown"),
        ({"llm_reason": Reason.SCRIPT_TRUNCATED}, "script_truncated"),
        ({"trace_reason": Reason.NO_SCRIPT}, "no_script"),
        ({"llm_reason": Reason.JUDGE_ERROR, "emb": 0.5}, "judge_error"),
        ({"llm_reason": Reason.SKIPPED, "trace": "abstained"}, "skipped"),
        ({"llm": True, "emb_reason": Reason.EMBEDDING_ERROR}, "embedding_error"),
        ({"llm": True, "emb": 0.5, "trace": "abstained"}, "trace_abstained"),
        ({"llm": True, "emb": 0.5, "trace": "followed"}, None),
        ({}, None),  # not scored yet
    ],
)
def test_the_reason_explains_the_null_that_matters_most(
    fields: dict[str, Any], expected: str | None
) -> None:
    assert load_bearing_reason(make_retrieval(**fields)) == expected


def test_a_missing_outcome_outranks_a_judge_that_was_skipped() -> None:
    attempt = make_attempt(outcome=None)
    row = make_retrieval(attempt=attempt, llm_reason=Reason.SKIPPED)
    assert load_bearing_reason(row) == "no_outcome"
    assert load_bearing_reason(make_retrieval(attempt=attempt, shown=False)) == "not_shown"


def test_a_superseded_revision_is_shown_and_marked() -> None:
    run = make_run(superseded_at=MOMENT)
    assert run_view(run)["run"]["superseded_at"] == MOMENT.isoformat()


def test_the_number_of_queries_does_not_grow_with_the_rows() -> None:
    run = make_run()
    counts = []
    for size in (1, 10):
        for _ in range(size):
            make_retrieval(attempt=make_attempt(run=run))
        with CaptureQueriesContext(connection) as queries:
            run_view(run)
        counts.append(len(queries))
    assert counts == [2, 2]
