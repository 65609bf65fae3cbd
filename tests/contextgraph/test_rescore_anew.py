"""A run that is judged anew: no verdict comes from the cache, whichever process asks, retries included.

Shaped by an operator who wanted a second verdict of the same judge, and got the first one 7,405 times.
"""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from contextgraph import pipeline
from scoring.models import Judgement, JudgePause, VerdictCache
from tests.contextgraph.test_pipeline import sweep_until_done, use_judge
from tests.contextgraph.test_rescore import answered, call, final_run, labels
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from memory.models import Run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _judge_named(broker: str, settings: Any) -> None:
    """Every signal is enabled."""
    settings.JUDGE_BASE_URL, settings.JUDGE_MODEL = "http://127.0.0.1:1/v1", "m"


def judged_run(settings: Any, server: JudgeServer) -> Run:
    """A run of two rows that share a pair, judged with the cache on."""
    settings.SIGNALS = ["judge"]
    use_judge(settings, server)
    run, tip = make_run(), make_tip(text="Mask the `kdump` service")
    for number in (1, 2):
        make_retrieval(attempt=make_attempt(run=run, script="true\n", number=number), tip=tip)
    return sweep_until_done(run)


def asked(server: JudgeServer) -> int:
    return server.counters()["pairs"]


def test_a_run_can_be_judged_anew_by_whatever_process_and_the_cache_stays_as_it_was(
    settings: Any,
) -> None:
    """The sweep that works on the batches knows of no option: it stands in their rows."""
    with JudgeServer() as server:
        run = judged_run(settings, server)
        assert asked(server) == 1
        [kept] = VerdictCache.objects.values_list("key", "created_at")
        call(run.external_id)
        sweep_until_done(run)
        assert asked(server) == 1, "everything is found"
        call(run.external_id, "--no-cache")
        sweep_until_done(run)
        assert asked(server) == 3
        assert list(VerdictCache.objects.values_list("key", "created_at")) == [kept]
        call(run.external_id)
        sweep_until_done(run)
        assert asked(server) == 3, "the next round uses the cache again"
    given = run.score_batches.order_by("round", "number").values_list("round", "without_cache")
    assert sorted(set(given)) == [(1, False), (2, False), (3, True), (4, False)]
    assert Judgement.objects.filter(cached=False).count() == 3


def test_what_fails_while_a_run_is_judged_anew_is_asked_again_without_the_cache_too(
    settings: Any,
) -> None:
    with JudgeServer() as server:
        run = judged_run(settings, server)
        server.control(fault="500")
        call(run.external_id, "--no-cache")
        sweep_until_done(run)
        assert not run.retrievals.exclude(llm_label="").exists()
        server.control(fault=None, reset=True)
        JudgePause.objects.all().delete()
        run.retrievals.update(llm_retry_at=MOMENT)
        assert pipeline.reopen(run.pk)
        sweep_until_done(run)
        assert asked(server) == 2
        assert list(run.score_batches.filter(round__gt=1).values_list("without_cache", flat=True)) == [
            True, True, True, True,
        ]  # fmt: skip
    assert set(run.retrievals.values_list("llm_label", flat=True)) == {"not_followed"}


def test_only_the_judges_batches_are_without_the_cache() -> None:
    run = final_run()
    answered(run)
    call(run.external_id, "--no-cache")
    given = run.score_batches.filter(without_cache=True).values_list("signal", flat=True)
    assert list(given) == ["judge"]
    assert run.score_batches.count() == 3


def test_a_dry_run_says_that_nothing_would_be_taken_from_the_cache() -> None:
    run = final_run()
    answered(run)
    out = StringIO()
    call_command("rescore", run.external_id, "--no-cache", "--dry-run", stdout=out)
    assert "The judge would be asked about 1 rows, none taken from the cache" in out.getvalue()
    assert call(run.external_id, "--no-cache", "--dry-run")["no_cache"] is True
    assert call(run.external_id, "--dry-run")["no_cache"] is False
    assert not run.score_batches.exists()


def test_without_the_cache_makes_no_sense_for_what_uses_none() -> None:
    run = final_run()
    row = answered(run)
    with pytest.raises(
        CommandError, match="--no-cache is about the judge's verdicts, not about trace"
    ):
        call(run.external_id, "--no-cache", "--signal", "trace")
    assert labels(row) == (True, 0.7, 1.0)
