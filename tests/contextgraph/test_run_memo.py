"""A run that becomes final gets its memo; whatever is wrong with the memo, the run is final."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.db import transaction

from contextgraph import pipeline
from scoring.memos import memo_making, service
from scoring.memos.service import memo, run_memo
from scoring.models import JudgeCall, Memo
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip
from tests.scoring.judge.bench_rows import use_judge
from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db(transaction=True)


def finished(**fields: Any) -> Any:
    """A run, made final by the pipeline."""
    run = make_run(**({"status": "finalizing"} | fields))
    attempt = make_attempt(run=run, outcome=0.0)
    make_retrieval(attempt=attempt, trace="followed", tip=make_tip(skill=run.skill))
    assert pipeline.finish(run.pk)
    run.refresh_from_db()
    assert run.status == "done"
    return run


def test_the_memo_is_there_when_the_run_is_done(settings: Any) -> None:
    settings.SIGNALS = ["trace"]
    run = finished()
    row = Memo.objects.get()
    assert (row.product, row.identifier) == ("run", f"stig/{run.external_id}")
    made = memo("run", run.external_id)
    assert made.cached
    assert made.text == row.text


def test_a_recount_renews_it_when_facts_have_changed(settings: Any) -> None:
    settings.SIGNALS = ["trace"]
    run = finished()
    before = Memo.objects.get()
    run.retrievals.update(tip_followed_review=False, tip_followed_review_by="ann")
    assert pipeline.recount(run.pk)
    after = Memo.objects.get()
    assert after.pk == before.pk
    assert after.text != before.text


def test_a_memo_that_fails_does_not_fail_the_run(
    settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings.SIGNALS = ["trace"]

    def broken(*_args: Any, **_how: Any) -> None:
        raise RuntimeError("out of ink")

    monkeypatch.setattr(memo_making, "synthesise", broken)
    finished()
    assert not Memo.objects.exists()
    assert "memo.run_failed" in caplog.text


def test_it_can_be_switched_off(settings: Any) -> None:
    settings.SIGNALS, settings.MEMOS = ["trace"], "off"
    finished()
    assert not Memo.objects.exists()


def test_what_is_taken_back_has_no_memo(settings: Any) -> None:
    settings.SIGNALS = ["trace"]
    run = make_run(status="finalizing")
    make_retrieval(attempt=make_attempt(run=run, outcome=0.0), trace="followed")
    with transaction.atomic():
        assert pipeline.finish(run.pk)
        transaction.set_rollback(True)
    assert not Memo.objects.exists()


def test_an_older_revision_and_no_run_at_all_get_none(caplog: pytest.LogCaptureFixture) -> None:
    run_memo(10**9)
    run_memo(make_run(superseded_at=MOMENT).pk)
    assert not Memo.objects.exists()
    assert "memo.run_failed" not in caplog.text


def test_a_setting_that_says_nothing_is_logged_and_fails_no_run(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.SIGNALS, settings.MEMOS = ["trace"], "perhaps"
    finished()
    assert "CONTEXTGRAPH_MEMOS is one of writer, model, off" in caplog.text


def test_a_model_is_asked_after_a_pass_only_where_the_setting_says_so(settings: Any) -> None:
    settings.SIGNALS = ["trace"]
    with JudgeServer() as server:
        use_judge(settings, server)
        run = finished()
        assert server.counters()["requests"] == 0
        assert Memo.objects.get().variant == "writer"
        settings.MEMOS = "model"
        run_memo(run.pk)
        asked = Counter(JudgeCall.objects.values_list("purpose", flat=True))
        assert (asked.pop("memo_synthesis"), set(asked)) == (1, {"memo_judge"}), (
            "a text and its audit"
        )
        assert {row.variant for row in Memo.objects.all()} == {"writer", "single"}


def test_the_run_is_named_by_its_key_and_never_by_another_runs_name(settings: Any) -> None:
    settings.MEMOS = "writer"
    run = make_run(external_id="first")
    make_run(external_id=str(run.pk))
    run_memo(run.pk)
    assert Memo.objects.get().identifier == "stig/first"


def test_a_fault_of_the_database_spoils_no_transaction_of_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = make_run()

    def broken(*_args: Any, **_how: Any) -> None:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM no_such_table")

    monkeypatch.setattr(service, "snapshot_of_run", broken)
    with transaction.atomic():
        run_memo(run.pk)
        run.refresh_from_db()
