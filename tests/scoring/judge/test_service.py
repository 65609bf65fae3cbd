"""Rows before the judge: every call leaves something, no error is a label, nothing is asked for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from memory.models import Retrieval
from scoring.judge import service
from scoring.judge.client import JudgeClient
from scoring.models import Judgement, ScoreBatch, Signal
from tests.factories import make_attempt, make_retrieval, make_run
from tests.scoring.score_batches import batch_over, claimed
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.django_db


@pytest.fixture
def served(settings: Any) -> Iterator[JudgeServer]:
    """A judge that this process has never asked before."""
    with JudgeServer() as server:
        settings.JUDGE_BASE_URL, settings.JUDGE_MODEL = server.base_url, "stand-in-judge"
        settings.JUDGE_HTTP_TRIES = 1
        service._bench.cache_clear()
        yield server
    service._bench.cache_clear()


def rows_of_a_run(number: int = 1, **fields: Any) -> list[Retrieval]:
    run = make_run(status="scoring", scoring_round=1)
    return [make_retrieval(attempt=make_attempt(run=run), **fields) for _ in range(number)]


def judged(rows: list[Retrieval], *, scoring_round: int = 1) -> ScoreBatch:
    """After a new batch over *rows* has been worked on once."""
    batch = batch_over(rows, Signal.JUDGE, round=scoring_round)
    service.score(claimed(batch))
    for row in rows:
        row.refresh_from_db()
    return batch


def seconds_to_retry(row: Retrieval) -> float:
    assert row.llm_retry_at is not None
    return (row.llm_retry_at - timezone.now()).total_seconds()


def test_an_answer_is_a_label_with_its_source_and_a_judgement(served: JudgeServer) -> None:
    (row,) = rows_of_a_run()
    judged([row])
    judgement = row.judgements.get()
    assert row.tip_followed_llm is not None
    assert (row.tip_followed_llm, row.llm_reason) == (judgement.followed, "")
    assert row.llm_source == f"stand-in-judge@{judgement.prompt_sha256}"
    assert (row.llm_tries, row.llm_retry_at) == (1, None)


def test_a_prompt_that_does_not_fit_is_stored_and_asked_about_again_when_it_is_mended(
    served: JudgeServer, settings: Any, tmp_path: Path
) -> None:
    good = settings.PROMPTS_DIR / "stig" / "tip_follow_judge.md"
    settings.PROMPTS_DIR = tmp_path
    file = tmp_path / "stig" / "tip_follow_judge.md"
    file.parent.mkdir()
    file.write_text("no heading\n")
    rows = rows_of_a_run(2)
    judged(rows)
    for row in rows:
        assert (row.tip_followed_llm, row.llm_reason) == (None, "judge_error")
        assert row.llm_tries == 0, "an operator's fault costs the row no try"
        assert 0 < seconds_to_retry(row) <= settings.JUDGE_RETRY_AFTER_S
        assert str(file) in row.judgements.get().error
    assert served.counters()["questions"] == 0
    file.write_bytes(good.read_bytes())
    Retrieval.objects.update(llm_reason="", llm_retry_at=None)
    judged(rows, scoring_round=2)
    assert all(row.tip_followed_llm is not None for row in rows)


def test_a_prompt_that_is_never_mended_is_not_asked_about_for_ever(
    served: JudgeServer, settings: Any, tmp_path: Path
) -> None:
    settings.PROMPTS_DIR = tmp_path
    (row,) = rows_of_a_run()
    rounds = 0
    while not rounds or row.llm_retry_at is not None:
        rounds += 1
        Retrieval.objects.update(llm_reason="", llm_retry_at=None)
        judged([row], scoring_round=rounds)
    assert rounds == service.LONGEST_BACKOFF + settings.JUDGE_MAX_TRIES
    assert row.llm_reason == "judge_error"


def test_a_fault_of_the_product_is_stored_and_the_other_rows_go_on(
    served: JudgeServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = rows_of_a_run(2)
    ask = JudgeClient.ask
    broken = iter([True])

    def fragile(client: JudgeClient, *args: Any, **kwargs: Any) -> Any:
        if next(broken, False):
            raise TypeError("not what was expected")
        return ask(client, *args, **kwargs)

    monkeypatch.setattr(JudgeClient, "ask", fragile)
    judged([first, second])
    assert (first.llm_reason, first.llm_tries) == ("judge_error", 1)
    assert seconds_to_retry(first) > 0
    assert "TypeError" in first.judgements.get().error
    assert second.tip_followed_llm is not None
    assert "not what was expected" in caplog.text


def test_a_row_whose_process_always_died_is_left_with_a_reason_that_says_so(
    served: JudgeServer, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (row,) = rows_of_a_run(llm_tries=settings.JUDGE_MAX_TRIES)
    judged([row])
    assert (row.llm_reason, row.llm_retry_at) == ("judge_error", None)
    assert served.counters()["questions"] == 0
    assert "judge.worker_lost" in caplog.text


def test_a_row_that_is_out_of_tries_with_a_stored_failure_is_not_called_a_lost_worker(
    served: JudgeServer, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    served.control(fault="garbage")
    (row,) = rows_of_a_run(llm_tries=1)
    judged([row])
    settings.JUDGE_MAX_TRIES = 2
    Retrieval.objects.update(llm_reason="", llm_retry_at=None)
    judged([row], scoring_round=2)
    assert (row.llm_reason, row.llm_retry_at) == ("judge_error", None)
    assert "judge.out_of_tries" in caplog.text
    assert "judge.worker_lost" not in caplog.text


def test_a_late_duplicate_verdict_changes_nothing(
    served: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = rows_of_a_run()
    ask = JudgeClient.ask

    def slow(client: JudgeClient, *args: Any, **kwargs: Any) -> Any:
        try:
            return ask(client, *args, **kwargs)
        finally:
            Retrieval.objects.filter(pk=row.pk).update(  # meanwhile, another worker
                tip_followed_llm=True,
                llm_source="another@0",
                tip_followed_computed_at=timezone.now(),
            )

    monkeypatch.setattr(JudgeClient, "ask", slow)
    judged([row])
    assert (row.tip_followed_llm, row.llm_source) == (True, "another@0")
    served.control(fault="garbage")
    Retrieval.objects.update(tip_followed_llm=None)
    judged([row], scoring_round=2)
    assert (row.tip_followed_llm, row.llm_reason, row.llm_retry_at) == (True, "", None)
    assert not Judgement.objects.exists()


def test_a_dead_server_is_asked_a_few_times_and_then_left_alone(served: JudgeServer) -> None:
    served.control(fault="503")
    rows = rows_of_a_run(service.FAILURES_TO_OPEN + 3)
    judged(rows)
    assert served.counters()["questions"] == service.FAILURES_TO_OPEN
    assert {row.llm_reason for row in rows} == {"judge_unavailable"}
    assert {row.llm_tries for row in rows} == {0}
    assert all(seconds_to_retry(row) > 0 for row in rows)


def test_the_breaker_opens_on_failures_in_a_row_only_and_closes_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(service.time, "monotonic", lambda: now[0])
    breaker = service.Breaker()
    for _ in range(3):
        for unavailable in [True] * (service.FAILURES_TO_OPEN - 1) + [False]:
            breaker.record(unavailable=unavailable)
    assert not breaker.is_open()
    for _ in range(service.FAILURES_TO_OPEN):
        assert not breaker.is_open()
        breaker.record(unavailable=True)
    assert breaker.is_open()
    now[0] += service.OPEN_FOR_S
    assert not breaker.is_open()


@pytest.mark.parametrize("failures", [1, 2, 5, 8, 9, 1000])
def test_a_retry_is_later_each_time_within_bounds_and_together_for_a_round(
    failures: int, settings: Any
) -> None:
    settings.JUDGE_RETRY_AFTER_S = 60.0
    longest = 60.0 * 2 ** (min(failures, service.LONGEST_BACKOFF) - 1)
    rounds = [ScoreBatch(run_id=run, round=number) for run in range(5) for number in range(1, 6)]
    delays = [service.retry_delay(failures, of=batch) for batch in rounds]
    assert all(longest / 2 <= delay <= longest for delay in delays)
    assert len(set(delays)) == len(rounds), "runs do not come back all at once"
    assert delays == [service.retry_delay(failures, of=batch) for batch in rounds]


def test_a_retry_is_never_sooner_than_the_server_asked_for(
    served: JudgeServer, settings: Any
) -> None:
    settings.JUDGE_RETRY_AFTER_S = 1.0
    served.control(fault="429", retry_after="3600")
    (row,) = rows_of_a_run()
    judged([row])
    assert 3590 < seconds_to_retry(row) <= 3600
    batch = ScoreBatch(run_id=1, round=1)
    assert service.retry_delay(1, of=batch, asked_for=0.001) >= 0.5


def test_nobody_at_the_judges_address_is_told_from_one_who_dislikes_the_question(
    served: JudgeServer, settings: Any
) -> None:
    assert not service.is_away()
    settings.JUDGE_MODEL = "a model that it does not list"
    assert not service.is_away()
    with JudgeServer() as another:
        settings.JUDGE_BASE_URL = another.base_url
    assert service.is_away()
    settings.JUDGE_BASE_URL = "ftp://nobody"
    assert service.is_away()


def test_the_least_tried_rows_are_asked_first(served: JudgeServer) -> None:
    rows = rows_of_a_run(3)
    Retrieval.objects.filter(pk=rows[0].pk).update(llm_tries=2)
    judged(rows)
    asked = Judgement.objects.order_by("pk").values_list("retrieval_id", flat=True)
    assert list(asked) == [rows[1].pk, rows[2].pk, rows[0].pk]
