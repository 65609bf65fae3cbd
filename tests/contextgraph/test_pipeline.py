"""From ingested to done: every step is a claim, and the reaper finishes from rows alone."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from contextgraph import pipeline
from memory.models import DreamPass, Retrieval, Run
from scoring.judge import pause
from scoring.models import Judgement, ScoreBatch
from tests.factories import make_attempt, make_retrieval, make_run, make_tip
from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db(transaction=True)

TIP = "Set the banner: write `Banner /etc/issue.net` to /etc/ssh/sshd_config.d/10-banner.conf"
SCRIPT = (
    "echo 'Banner /etc/issue.net' > /etc/ssh/sshd_config.d/10-banner.conf\nsystemctl reload sshd\n"
)


@pytest.fixture(autouse=True)
def _broker(broker: str) -> None:
    """Chords are really published; nobody consumes them, so that only rows can finish a run."""


def ingested(attempts: int = 2, tips: int = 2, **fields: Any) -> Run:
    run = make_run(**fields)
    shown = [make_tip(text=f"{TIP} ({number})") for number in range(tips)]
    for number in range(attempts):
        script = f"{SCRIPT}sshd -t -f /etc/ssh/{number}\n"
        attempt = make_attempt(run=run, rule_id=f"rule-{number}", script=script)
        for rank, tip in enumerate(shown, start=1):
            make_retrieval(attempt=attempt, tip=tip, rank=rank)
    return run


def sweep_until_done(run: Run, limit: int = 10) -> Run:
    for _ in range(limit):
        pipeline.reap(inline=True, impatient=True)
        run.refresh_from_db()
        if run.status == Run.Status.DONE:
            return run
    pytest.fail(f"still {run.status} after {limit} sweeps")


def use_judge(settings: Any, server: JudgeServer) -> None:
    settings.JUDGE_BASE_URL = server.base_url
    settings.JUDGE_MODEL = "stand-in-judge"
    settings.JUDGE_HTTP_TRIES = 1
    settings.JUDGE_READ_TIMEOUT_S = 2.0
    settings.JUDGE_DEADLINE_S = 3.0
    settings.JUDGE_RETRY_AFTER_S = 0.1


def test_it_dispatches_a_run_once() -> None:
    run = ingested()
    assert pipeline.dispatch(run.pk)
    assert not pipeline.dispatch(run.pk)
    run.refresh_from_db()
    assert (run.status, run.scoring_round) == ("scoring", 1)
    assert sorted(run.score_batches.values_list("signal", flat=True)) == ["embed", "trace"]


def test_a_round_with_open_batches_is_not_finalized() -> None:
    run = ingested()
    pipeline.dispatch(run.pk)
    assert not pipeline.finalize(run.pk)
    assert not DreamPass.objects.exists()


def test_rows_alone_finish_a_run_and_its_dream_pass_is_counted_once() -> None:
    run = sweep_until_done(ingested())
    assert run.done_at is not None
    assert DreamPass.objects.filter(run=run).count() == 1
    assert not pipeline.finalize(run.pk)
    assert not pipeline.finish(run.pk)
    assert DreamPass.objects.filter(run=run).count() == 1
    for row in run.retrievals.all():
        assert row.tip_followed_emb is not None
        assert row.tip_followed_trace is not None
        assert (row.tip_followed_llm, row.llm_reason) == (None, "skipped")


def test_a_run_that_stopped_between_finalizing_and_done_is_finished() -> None:
    run = ingested()
    pipeline.dispatch(run.pk)
    ScoreBatch.objects.filter(run=run).update(state="done")
    Run.objects.filter(pk=run.pk).update(status="finalizing")
    assert sweep_until_done(run).status == "done"


@pytest.mark.parametrize("attempts", [0, 1])
def test_a_run_with_nothing_to_score_becomes_final(attempts: int) -> None:
    run = make_run()
    for _ in range(attempts):
        attempt = make_attempt(run=run, script=None, script_sha256="")
        reasons = dict.fromkeys(("llm_reason", "emb_reason", "trace_reason"), "no_script")
        make_retrieval(attempt=attempt, **reasons)
    assert sweep_until_done(run).status == "done"
    assert not run.score_batches.exists()


def test_the_judge_answers_and_every_label_names_its_source(settings: Any) -> None:
    with JudgeServer() as server:
        use_judge(settings, server)
        run = sweep_until_done(ingested())
    rows = list(run.retrievals.all())
    assert all(row.tip_followed_llm is not None and row.llm_source for row in rows)
    assert Judgement.objects.count() == len(rows)
    counted = server.counters()
    assert (counted["questions"], counted["pairs"]) == (2, len(rows)), "one call per attempt"


def test_a_sweep_may_ask_the_judge_anew_but_only_in_its_own_process(settings: Any) -> None:
    with pytest.raises(CommandError, match="--inline"):
        call_command("reap_runs", "--no-cache")
    with JudgeServer() as server:
        use_judge(settings, server)
        for options in ([], [], ["--no-cache"]):
            ingested(attempts=1)
            call_command("reap_runs", "--inline", "--until-done", *options, stdout=StringIO())
        assert server.counters()["pairs"] == 4, "asked, found in the cache, asked anew"


@pytest.mark.parametrize(
    ("fault", "reason"), [("500", "judge_unavailable"), ("garbage", "judge_error")]
)
def test_a_run_whose_every_judge_call_fails_is_final_and_asked_again_later(
    fault: str, reason: str, settings: Any
) -> None:
    with JudgeServer(fault=fault) as server:
        use_judge(settings, server)
        settings.JUDGE_RETRY_AFTER_S = 3600.0
        run = sweep_until_done(ingested())
        rows = run.retrievals.all()
        assert {(row.tip_followed_llm, row.llm_reason) for row in rows} == {(None, reason)}
        assert all(row.llm_retry_at for row in rows)

        server.control(fault=None)
        Retrieval.objects.update(llm_retry_at=timezone.now() - timedelta(seconds=1))
        run = sweep_until_done(reopened(run))
    assert run.scoring_round == 2
    assert all(row.tip_followed_llm is not None for row in run.retrievals.all())
    assert list(run.dream_passes.values_list("number", flat=True)) == [1, 2]


def reopened(run: Run) -> Run:
    pause.resume(by="the test")
    assert pipeline.reap(impatient=True).reopened == [run.pk]
    run.refresh_from_db()
    return run


def test_a_failing_judge_is_left_alone_after_its_tries(settings: Any) -> None:
    with JudgeServer(fault="garbage") as server:
        use_judge(settings, server)
        settings.JUDGE_MAX_TRIES = 2
        settings.JUDGE_RETRY_AFTER_S = 0.1
        run = ingested(attempts=1, tips=1)
        for _ in range(12):
            pipeline.reap(inline=True, impatient=True)
            Retrieval.objects.filter(llm_retry_at__isnull=False).update(llm_retry_at=timezone.now())
    row = run.retrievals.get()
    assert (row.llm_tries, row.llm_reason, row.llm_retry_at) == (2, "judge_error", None)
    run.refresh_from_db()
    assert run.status == "done"


def test_a_batch_whose_worker_always_dies_fails_with_a_reason_and_the_run_ends(
    settings: Any,
) -> None:
    run = ingested()
    pipeline.dispatch(run.pk)
    past = timezone.now() - timedelta(seconds=1)
    ScoreBatch.objects.filter(signal="embed").update(
        state="leased", leased_until=past, tries=settings.SCORE_BATCH_MAX_TRIES
    )
    run = sweep_until_done(run)
    assert run.score_batches.get(signal="embed").state == "failed"
    assert {row.emb_reason for row in run.retrievals.all()} == {"embedding_error"}


def test_a_lease_that_is_held_is_not_taken() -> None:
    run = ingested()
    pipeline.dispatch(run.pk)
    future = timezone.now() + timedelta(hours=1)
    ScoreBatch.objects.update(state="leased", leased_until=future, tries=1)
    pipeline.reap(inline=True, impatient=True)
    run.refresh_from_db()
    assert run.status == "scoring"
    assert set(ScoreBatch.objects.values_list("tries", flat=True)) == {1}


@pytest.mark.parametrize(
    ("unchanged_s", "unsent_s", "due"),
    [(11, 11, True), (31, 11, False), (41, 21, True), (10_000, 140, False), (10_000, 151, True)],
)
def test_a_batch_that_nobody_takes_is_sent_ever_more_rarely(
    unchanged_s: int, unsent_s: int, due: bool, settings: Any
) -> None:
    settings.REDISPATCH_AFTER_S = 10.0
    run = ingested()
    pipeline.dispatch(run.pk)
    now = timezone.now()
    ScoreBatch.objects.update(
        changed_at=now - timedelta(seconds=unchanged_s), sent_at=now - timedelta(seconds=unsent_s)
    )
    assert bool(pipeline.reap().resent) is due


def test_an_outage_of_the_judge_costs_no_try_and_its_rows_come_back_together(settings: Any) -> None:
    with JudgeServer(fault="503") as server:
        use_judge(settings, server)
        settings.JUDGE_RETRY_AFTER_S = 3600.0
        run = sweep_until_done(ingested(attempts=2, tips=5))
        rows = list(run.retrievals.all())
        assert {(row.llm_reason, row.llm_tries) for row in rows} == {("judge_unavailable", 0)}
        due = [row.llm_retry_at for row in rows if row.llm_retry_at]
        assert len(due) == len(rows)
        assert max(due) - min(due) < timedelta(minutes=2)
        Retrieval.objects.update(llm_retry_at=timezone.now() - timedelta(seconds=1799))
        assert not pipeline.reap().reopened, "the rows that fail last are waited for"
        Retrieval.objects.update(llm_retry_at=timezone.now() - timedelta(seconds=1801))
        assert pipeline.reap().reopened == [run.pk]


def test_a_broker_that_is_away_does_not_undo_the_dispatch(settings: Any) -> None:
    run = ingested()
    database = settings.DATABASES["default"]
    environment = os.environ | {
        "DATABASE_URL": f"postgresql://{database['USER']}@/{connection.settings_dict['NAME']}"
        f"?host={database['HOST']}&port={database['PORT']}",
        "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
        "DJANGO_SETTINGS_MODULE": "contextgraph.settings",
    }
    script = (
        "import django; django.setup()\n"
        f"from contextgraph import pipeline; assert pipeline.dispatch({run.pk})"
    )
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=60)
    run.refresh_from_db()
    assert run.status == "scoring"
    assert sweep_until_done(run).status == "done"


def test_a_large_run_never_needs_more_than_200_header_tasks(settings: Any) -> None:
    settings.JUDGE_BASE_URL, settings.JUDGE_MODEL = "http://127.0.0.1:1/v1", "m"
    run = make_run()
    first = make_retrieval(attempt=make_attempt(run=run, script=SCRIPT))
    tips = [make_tip() for _ in range(40)]
    attempts = [make_attempt(run=run, script=SCRIPT) for _ in range(40)]
    rows = []
    for attempt in attempts:
        for rank, tip in enumerate(tips, start=1):
            row = Retrieval.objects.get(pk=first.pk)
            row.pk, row.attempt, row.tip, row.rank = None, attempt, tip, rank
            rows.append(row)
    Retrieval.objects.bulk_create(rows)
    pipeline.dispatch(run.pk)
    batches = ScoreBatch.objects.filter(run=run)
    assert batches.count() <= 200
    for signal in ("judge", "embed", "trace"):
        spans = list(batches.filter(signal=signal).values_list("first_id", "last_id"))
        assert sum(Retrieval.objects.filter(pk__range=span).count() for span in spans) == 1601
