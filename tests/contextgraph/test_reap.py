"""The sweep over waiting runs: no run stops another, nothing is sent to nobody, nothing twice."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.utils import timezone

from contextgraph import pipeline
from contextgraph.outbox import Outbox
from contextgraph.reaping import Reaped
from memory.models import DreamPass, Retrieval, Run
from scoring.judge import bench
from scoring.models import Judgement, ScoreBatch
from tests.factories import make_attempt, make_retrieval, make_run
from tests.scoring.judge.raw_server import RawServer, redirect_to
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _without_a_model(broker: str, settings: Any) -> None:
    """Embedding is not the point here; messages are really published, and nobody takes them."""
    settings.SIGNALS = ["trace", "judge"]


def waiting_run(**fields: Any) -> Run:
    run = make_run(**fields)
    make_retrieval(attempt=make_attempt(run=run))
    return run


def status_of(run: Run) -> str:
    run.refresh_from_db()
    return str(run.status)


def use_judge(settings: Any, base_url: str) -> None:
    settings.JUDGE_BASE_URL, settings.JUDGE_MODEL = base_url, "stand-in-judge"
    settings.JUDGE_HTTP_TRIES = 1
    settings.JUDGE_RETRY_AFTER_S = 0.1
    bench._bench.cache_clear()


def broken_for(run: Run, original: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """A fault that only one run's rows meet."""

    def step(run_id: int, **kwargs: Any) -> Any:
        if run_id == run.pk:
            raise error
        return original(run_id, **kwargs)

    return step


@pytest.mark.parametrize(
    ("step", "status"),
    [("dispatch", "ingested"), ("finalize", "scoring"), ("finish", "finalizing")],
)
def test_a_run_that_meets_an_error_stops_no_other(
    step: str, status: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, healthy = waiting_run(status=status), waiting_run(status=status)
    step_of = getattr(pipeline, step)
    monkeypatch.setattr(pipeline, step, broken_for(broken, step_of, ValueError("bad row")))
    assert pipeline.reap(inline=True, impatient=True).errors == [broken.pk]
    assert status_of(broken) != "done"
    assert status_of(healthy) == "done"
    assert "bad row" in caplog.text


@pytest.mark.parametrize("away", [False, True])
def test_a_look_for_runs_that_fails_stops_no_other(
    away: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = waiting_run()

    def fail() -> Any:
        if away:
            connection.close()
            raise OperationalError("the connection is lost")
        raise ValueError("bad look")

    monkeypatch.setattr(pipeline, "silent_recordings", fail)
    if away:
        with pytest.raises(OperationalError):
            pipeline.reap(inline=True, impatient=True)
        return
    swept = pipeline.reap(inline=True, impatient=True)
    assert (swept.finalized, swept.failed_looks, swept.errors) == ([run.pk], ["recording"], [])
    assert "bad look" in caplog.text


@pytest.mark.parametrize("more", [(), ("--until-done",)])
def test_the_command_says_which_look_failed_and_does_not_wait_for_whom_it_cannot_see(
    more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = waiting_run()

    def fail(*_: Any) -> Any:
        raise ValueError("bad look")

    def never(_seconds: float) -> None:
        raise AssertionError("it sweeps again")

    monkeypatch.setattr(pipeline, "_ids", fail)
    monkeypatch.setattr(time, "sleep", never)
    out = StringIO()
    with pytest.raises(CommandError, match=r"every run that waits in recording, .* in scoring"):
        call_command("reap_runs", "--inline", *more, stdout=out)
    assert out.getvalue().strip() == "4 failed looks"
    assert status_of(run) == "ingested"


@pytest.mark.parametrize("judge_at", ["//[", "no address at all"])
def test_a_judge_that_cannot_even_be_looked_for_stops_no_run_but_those_that_wait_for_it(
    judge_at: str, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hour = timezone.now() - timedelta(hours=1)
    waiting = waiting_run(status="done", done_at=hour)
    waiting.retrievals.update(llm_reason="judge_unavailable", llm_retry_at=hour)
    healthy = waiting_run(status="finalizing")
    with RawServer(redirect_to(judge_at)) as server:
        use_judge(settings, server.base_url if judge_at == "//[" else judge_at)
        swept = pipeline.reap(inline=True, impatient=True)
    assert healthy.pk in swept.finalized
    # a server that redirects is there, and its answer a row's reason; an address that is none is an error
    assert (swept.reopened, swept.errors) == (
        ([waiting.pk], []) if judge_at == "//[" else ([], [waiting.pk])
    )
    assert waiting.retrievals.get().llm_reason == "judge_unavailable"
    assert ("judge.paused" in caplog.text) is (judge_at == "//[")


def test_a_database_that_is_away_ends_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    run = waiting_run()

    def lose(run_id: int, **_: Any) -> bool:
        connection.close()
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(pipeline, "dispatch", lose)
    with pytest.raises(OperationalError):
        pipeline.reap(impatient=True)
    assert status_of(run) == "ingested"


def test_the_command_exits_with_an_error_and_finishes_the_other_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken, healthy = waiting_run(), waiting_run()
    step = broken_for(broken, pipeline.dispatch, ValueError("bad row"))
    monkeypatch.setattr(pipeline, "dispatch", step)
    out = StringIO()
    with pytest.raises(CommandError, match=f"run {broken.pk}"):
        call_command("reap_runs", "--inline", "--until-done", "--json", stdout=out)
    assert json.loads(out.getvalue())["errors"] == [broken.pk]
    assert status_of(healthy) == "done"


def test_until_done_is_impatient_once_and_never_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    run = waiting_run()
    sweeps: list[bool] = []
    pauses: list[float] = []

    def sweep(*, inline: bool, impatient: bool) -> Reaped:
        sweeps.append(impatient)
        if len(sweeps) == 3:
            Run.objects.filter(pk=run.pk).update(status="done", done_at=timezone.now())
        return Reaped(resent=[1])

    monkeypatch.setattr(pipeline, "reap", sweep)
    monkeypatch.setattr(time, "sleep", pauses.append)
    call_command("reap_runs", "--until-done", stdout=StringIO())
    assert sweeps == [True, False, False]
    assert min(pauses) >= 1.0


def test_what_a_sweep_has_just_dispatched_it_does_not_send_again() -> None:
    run = waiting_run()
    swept = pipeline.reap(impatient=True)
    assert (swept.dispatched, swept.resent) == ([run.pk], [])


def test_after_a_message_that_fails_a_sweep_sends_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [waiting_run() for _ in range(4)]
    sent: list[object] = []

    def unreachable(*args: Any, **_: Any) -> None:
        sent.append(args)
        raise ConnectionError("nobody listens")

    monkeypatch.setattr("celery.canvas._chord.apply_async", unreachable)
    assert len(pipeline.reap(impatient=True).dispatched) == 1
    assert len(sent) == 1
    assert sorted(map(status_of, runs)) == ["ingested"] * 3 + ["scoring"]
    monkeypatch.undo()
    assert len(pipeline.reap(impatient=True).dispatched) == 3


def test_a_header_that_could_not_be_sent_again_is_due_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = waiting_run()
    pipeline.dispatch(run.pk)
    ago = timezone.now() - timedelta(hours=1)
    ScoreBatch.objects.update(changed_at=ago, sent_at=ago)
    with monkeypatch.context() as patch:
        patch.setattr("celery.app.task.Task.apply_async", lambda *_a, **_k: 1 / 0)
        assert pipeline.reap().resent == []
    assert set(ScoreBatch.objects.values_list("sent_at", flat=True)) == {ago}
    assert pipeline.reap().resent


def test_an_inline_sweep_sends_nothing_and_finishes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("celery.canvas._chord.apply_async", lambda *_a, **_k: 1 / 0)
    run = waiting_run()
    assert pipeline.reap(inline=True, impatient=True).finalized == [run.pk]
    assert status_of(run) == "done"


def test_an_outbox_publishes_until_the_first_failure() -> None:
    sent: list[str] = []
    outbox = Outbox()
    assert outbox.publish(lambda: sent.append("one"))
    assert not outbox.publish(lambda: 1 / 0, run_id=7)
    assert not outbox.publish(lambda: sent.append("two"))
    assert (sent, outbox.away) == (["one"], True)
    assert not Outbox(muted=True).publish(lambda: sent.append("three"))
    assert sent == ["one"]


def unanswered(run: Run, *, since_s: float = 1.0) -> None:
    Retrieval.objects.filter(run=run).update(
        llm_reason="judge_unavailable", llm_retry_at=timezone.now() - timedelta(seconds=since_s)
    )


def test_due_retries_wait_while_nobody_is_at_the_judges_address(settings: Any) -> None:
    runs = [waiting_run(status="done") for _ in range(2)]
    for run in runs:
        unanswered(run)
    with JudgeServer() as server:
        base_url = server.base_url
    use_judge(settings, base_url)
    assert not pipeline.reap(impatient=True).reopened
    assert [run.scoring_round for run in Run.objects.all()] == [0, 0]
    with JudgeServer() as server:
        use_judge(settings, server.base_url)
        assert sorted(pipeline.reap(impatient=True).reopened) == [run.pk for run in runs]
        assert server.counters()["requests"] == 1, "one probe for the sweep"


def test_a_round_that_changed_nothing_is_closed_without_a_dream_pass(settings: Any) -> None:
    with JudgeServer(fault="garbage") as server:
        use_judge(settings, server.base_url)
        run = waiting_run()
        for _ in range(2):
            pipeline.reap(inline=True, impatient=True)
            Retrieval.objects.filter(run=run).update(llm_retry_at=timezone.now())
        assert (status_of(run), run.scoring_round) == ("done", 2)
        assert list(run.dream_passes.values_list("number", flat=True)) == [1]
        server.control(fault=None)
        pipeline.reap(inline=True, impatient=True)
    assert (status_of(run), run.scoring_round) == ("done", 3)
    assert list(run.dream_passes.values_list("number", flat=True)) == [1, 3]
    assert DreamPass.objects.count() == 2


def test_a_superseded_revision_is_not_judged(settings: Any) -> None:
    with JudgeServer() as server:
        use_judge(settings, server.base_url)
        before = waiting_run(superseded_at=timezone.now())
        meanwhile = waiting_run()
        later = waiting_run(status="done")
        unanswered(later)
        for run in (before, meanwhile):
            pipeline.dispatch(run.pk)
        assert before.retrievals.get().llm_reason == "skipped"
        for run in (meanwhile, later):
            Run.objects.filter(pk=run.pk).update(superseded_at=timezone.now())
            Retrieval.objects.filter(run=run).update(superseded=True)
        for _ in range(2):
            pipeline.reap(inline=True, impatient=True)
        assert server.counters()["requests"] == 0, "not even a probe"
    for run in (before, meanwhile):
        assert status_of(run) == "done"
        assert run.retrievals.get().llm_reason == "skipped"
        assert run.retrievals.get().tip_followed_trace_verdict
    assert not Judgement.objects.exists()
    later.refresh_from_db()
    assert later.scoring_round == 0


def test_a_judge_batch_that_is_given_up_is_asked_again_while_its_rows_have_tries(
    settings: Any,
) -> None:
    settings.JUDGE_BASE_URL = "http://127.0.0.1:1/v1"
    settings.JUDGE_MODEL = "m"
    settings.JUDGE_MAX_TRIES = 3
    run = waiting_run()
    past = timezone.now() - timedelta(seconds=1)
    seen = []
    for _ in range(3):
        Run.objects.filter(pk=run.pk).update(status="ingested")
        Retrieval.objects.update(llm_reason="")
        pipeline.dispatch(run.pk)
        ScoreBatch.objects.filter(signal="judge", run=run).exclude(state="failed").update(
            state="leased", leased_until=past, tries=settings.SCORE_BATCH_MAX_TRIES
        )
        pipeline.reap()
        row = run.retrievals.get()
        seen.append((row.llm_reason, row.llm_tries, row.llm_retry_at is not None))
    assert seen == [("judge_error", n, n < 3) for n in (1, 2, 3)]
