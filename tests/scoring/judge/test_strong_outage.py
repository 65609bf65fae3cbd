"""A stronger judge that is away costs no try, no escalation and no label.

Shaped by: a run with high stakes in an outage, whose rows were closed in the fourth round with "the
judge answered something that is no verdict", and whose budget was spent on calls that nobody answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scoring.judge import stakes
from scoring.models import EscalationBudget, Judgement, JudgePause
from tests.factories import make_run
from tests.scoring.judge.bench_rows import FOLLOWED, IGNORED, attempt_with, due, judged

if TYPE_CHECKING:
    from memory.models import Run
    from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db

UNCLEAR = "judge-says=unclear about the banner"


def spent(run: Run) -> int:
    return sum(EscalationBudget.objects.filter(run=run).values_list("spent", flat=True))


def high_stakes(*tips: str) -> Run:
    return attempt_with(*tips, run=make_run(extra={"high_stakes": True})).run


@pytest.mark.parametrize("fault", ["500", "503", "429", "401", "429_quota", "reset"])
def test_an_outage_of_both_costs_nothing_however_many_rounds_it_lasts(
    judge: JudgeServer, strong: JudgeServer, fault: str
) -> None:
    run = high_stakes(FOLLOWED, IGNORED)
    for server in (judge, strong):
        server.control(fault=fault)
    for number in range(1, 7):
        for row in judged(run, round=number):
            assert (row.llm_reason, row.llm_tries) == ("judge_unavailable", 0)
            assert row.llm_retry_at is not None
        assert spent(run) == 0
        JudgePause.objects.all().delete()
        due(run)
    for server in (judge, strong):
        server.control(fault=None)
    rows = judged(run, round=7)
    assert [(row.llm_label, row.llm_tries) for row in rows] == [
        ("followed", 1),
        ("not_followed", 1),
    ]
    assert {row.judgements.latest("pk").tier for row in rows} == {"high_stakes"}
    assert spent(run) == 2


@pytest.mark.parametrize(("fault", "paid"), [("500", 0), ("extra_prose", 2)])
def test_what_the_stronger_judge_could_not_say_costs_the_row_no_try(
    judge: JudgeServer, strong: JudgeServer, fault: str, paid: int
) -> None:
    """The judge of every day is asked in the same round: its try is the one that counts."""
    strong.control(fault=fault)
    run = high_stakes(FOLLOWED, IGNORED)
    rows = judged(run)
    assert [(row.llm_label, row.llm_tries) for row in rows] == [
        ("followed", 1),
        ("not_followed", 1),
    ]
    assert spent(run) == paid, "an answer was paid for, though it could not be used"


def test_a_verdict_that_could_not_be_put_to_a_judge_who_is_away_costs_no_budget(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    strong.control(fault="500")
    (row,) = judged(attempt_with(UNCLEAR).run)
    assert (row.llm_label, row.llm_tries, spent(row.run)) == ("unclear", 1, 0)
    assert Judgement.objects.filter(tier="high_stakes", reason="judge_unavailable").count() == 1


def test_rows_that_share_a_question_are_paid_back_as_one(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    run = make_run(extra={"high_stakes": True})
    EscalationBudget.objects.create(run=run, spent=7)
    for number in range(3):
        attempt_with(FOLLOWED, run=run, number=number + 1)
    strong.control(fault="500")
    judged(run)
    assert spent(run) == 7


def test_a_row_that_another_took_meanwhile_is_paid_back(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    run = high_stakes(FOLLOWED, IGNORED)
    claim = stakes.claim

    def late(run_id: int, wanted: int) -> int:
        run.retrievals.filter(rank=2).update(llm_reason="judge_error")
        return claim(run_id, wanted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stakes, "claim", late)
        judged(run)
    assert strong.counters()["pairs"] == 1
    assert spent(run) == 1


def test_a_tip_that_cannot_be_shown_is_paid_back(judge: JudgeServer, strong: JudgeServer) -> None:
    run = high_stakes(FOLLOWED, " ")
    judged(run)
    assert strong.counters()["pairs"] == 1
    assert spent(run) == 1


def test_more_is_never_paid_back_than_was_spent(judge: JudgeServer) -> None:
    run = make_run()
    stakes.claim(run.pk, 2)
    stakes.give_back(run.pk, 5)
    assert spent(run) == 0
