"""The stronger judge is asked where it matters, within the budget, and its word supersedes and stays.

Shaped by second opinions that were asked for every row, and by verdicts that replaced others without a
trace.
"""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from memory.evidence import refresh
from memory.models import TipEvidence
from scoring.judge import stakes
from scoring.judge.accounting import totals
from scoring.models import EscalationBudget, Judgement, JudgePause
from tests.factories import make_attempt, make_retrieval, make_run, make_tip, signal_fields
from tests.scoring.judge.bench_rows import (
    FOLLOWED,
    IGNORED,
    SCRIPT,
    attempt_with,
    judged,
)

if TYPE_CHECKING:
    from memory.models import Retrieval, Run, Tip
    from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db

UNCLEAR = "judge-says=unclear about the banner"


def pairs(*servers: JudgeServer) -> list[int]:
    return [server.counters()["pairs"] for server in servers]


def causes_of(row: Retrieval) -> list[str]:
    found: list[str] = row.judgements.get(tier="high_stakes").stakes
    return found


def test_what_is_settled_and_changes_nothing_is_not_escalated(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    judged(attempt_with(FOLLOWED, IGNORED).run)
    assert pairs(judge, strong) == [2, 0]
    assert not EscalationBudget.objects.filter(spent__gt=0).exists()


def test_an_unclear_verdict_is_superseded_and_both_are_kept(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    strong.control(content=None)
    run = attempt_with(FOLLOWED, UNCLEAR).run
    rows = judged(run)
    assert pairs(judge, strong) == [2, 1]
    first, second = rows[1].judgements.order_by("pk")
    assert (first.tier, second.tier) == ("default", "high_stakes")
    assert second.supersedes == first
    assert second.requested_model == "strong-judge"
    assert rows[1].llm_source == f"strong-judge@{second.prompt_sha256}"
    assert rows[0].llm_source.startswith("stand-in-judge@")
    assert "unclear" in causes_of(rows[1])
    assert EscalationBudget.objects.get(run=run).spent == 1
    found = totals(run_id=run.pk)
    assert (found.escalated, {model.tier for model in found.models}) == (
        1,
        {"default", "high_stakes"},
    )


def test_the_stronger_word_is_the_one_that_counts(judge: JudgeServer, strong: JudgeServer) -> None:
    """The two servers disagree: the marker that the first obeys is one that the second never sees."""
    tip = f"{FOLLOWED} judge-says=not_followed"
    row = make_retrieval(
        attempt=make_attempt(script=SCRIPT), tip=make_tip(text=tip), trace="followed"
    )
    from tests.stand_ins import judge_answers

    answer = judge_answers.answer

    def contrary(question: Any) -> Any:
        asked_strong = question.fields["model"] == "strong-judge"
        if asked_strong:
            question.tips = {
                name: text.replace("judge-says=not_followed", "")
                for name, text in question.tips.items()
            }
        return answer(question)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge_answers, "answer", contrary)
        judged(row.run)
    row.refresh_from_db()
    assert (row.llm_label, row.tip_followed_llm) == ("followed", True)
    assert list(row.judgements.values_list("label", flat=True)) == ["not_followed", "followed"]
    assert totals(run_id=row.run_id).superseded_with_other_label == 1
    assert causes_of(row)[0] == "against_trace"


def test_a_yes_that_the_script_does_not_show_is_put_to_the_stronger_judge(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    """No trace is stored yet: it is computed, so that the order of batches decides nothing."""
    (row,) = judged(attempt_with(f"judge-says=followed {IGNORED}: `systemctl mask kdump`").run)
    assert "against_trace" in causes_of(row)


# --- What follows from a verdict ------------------------------------------------------------------


def causes_in(run: Run) -> list[list[str]]:
    """Per row, in order, why it was put to the stronger judge."""
    rows = run.retrievals.order_by("pk")
    return [
        [cause for asked in row.judgements.filter(tier="high_stakes") for cause in asked.stakes]
        for row in rows
    ]


def shown_at(tip: Tip, *, attempts: int, run: Run | None = None, **fields: Any) -> Run:
    """A run that was shown the tip at some rules, each with a script of its own."""
    run = run or make_run()
    for number in range(attempts):
        attempt = make_attempt(
            run=run, script=f"{SCRIPT}# {number}\n", rule_id=f"r{number}", number=1, **fields
        )
        make_retrieval(attempt=attempt, tip=tip, trace="abstained")
    return run


def each_alone(run: Run) -> None:
    """Judge the rows one after the other, in a batch each."""
    for number, pk in enumerate(list(run.retrievals.order_by("pk").values_list("pk", flat=True))):
        judged(run, first_id=pk, last_id=pk, number=number + 50)


def test_a_followed_tip_at_a_failure_would_be_called_misleading(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    run = shown_at(make_tip(text=FOLLOWED), attempts=1, outcome=0.0)
    judged(run)
    assert causes_in(run) == [["misleading"]]


def test_a_tip_that_is_called_misleading_without_the_verdict_is_not_escalated_for_it(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    """Its trace says so, which is asked where the judge is silent."""
    run = attempt_with(FOLLOWED, outcome=0.0).run
    judged(run)
    assert causes_in(run) == [[]]


@pytest.mark.parametrize("apart", [True, False])
def test_a_tip_that_stands_on_the_misleading_list_already_is_not_escalated_for_it(
    judge: JudgeServer, strong: JudgeServer, apart: bool
) -> None:
    tip = make_tip(text=FOLLOWED)
    refresh([make_retrieval(attempt=make_attempt(outcome=0.0), tip=tip, llm=True).run_id])
    run = shown_at(tip, attempts=3, outcome=0.0)
    (each_alone if apart else judged)(run)
    assert causes_in(run) == [[], [], []]
    assert not EscalationBudget.objects.filter(spent__gt=0).exists()


def test_the_first_verdict_of_a_run_that_lists_a_tip_is_escalated_and_no_other(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    run = shown_at(make_tip(text=FOLLOWED), attempts=3, outcome=0.0)
    each_alone(run)
    assert causes_in(run) == [["misleading"], [], []]


def test_a_run_that_listed_the_tip_itself_before_is_asked_again(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    """What the run gave is taken out; else a tip could never leave the list for want of a second look."""
    run = shown_at(make_tip(text=FOLLOWED), attempts=1, outcome=0.0)
    run.retrievals.update(**signal_fields(llm=True))
    refresh([run.pk])
    run.retrievals.update(tip_followed_llm=None, llm_source="", tip_followed_computed_at=None)
    judged(run)
    assert causes_in(run) == [["misleading"]]


@pytest.mark.parametrize(("says", "expected"), [("not_followed", True), ("followed", False)])
def test_a_verdict_that_moves_a_tip_across_its_eviction_gate_is_escalated(
    judge: JudgeServer, strong: JudgeServer, says: str, expected: bool
) -> None:
    """Six visits worth 0; a seventh decides whether the whole interval lies below the gate's 0.3."""
    tip = make_tip(text=f"judge-says={says} Keep it tidy")
    past = [make_retrieval(tip=tip, llm=False).run_id for _ in range(6)]
    refresh(past)
    row = make_retrieval(attempt=make_attempt(script=SCRIPT), tip=tip, trace="abstained")
    judged(row.run)
    given = list(row.judgements.filter(tier="high_stakes").values_list("stakes", flat=True))
    assert given == ([["eviction_gate"]] if expected else [])


@pytest.mark.parametrize("apart", [True, False])
def test_of_verdicts_that_evict_a_tip_together_the_one_that_completes_it_is_escalated(
    judge: JudgeServer, strong: JudgeServer, apart: bool
) -> None:
    """Four visits of other runs and five of this one, which count as unknown until they are judged."""
    tip = make_tip(text="judge-says=not_followed Keep it tidy")
    refresh([make_retrieval(tip=tip, llm=False).run_id for _ in range(4)])
    run = shown_at(tip, attempts=5)
    (each_alone if apart else judged)(run)
    expected: list[list[str]] = [[], [], [], ["eviction_gate"], []]
    found = causes_in(run)
    assert found == expected if apart else found.count(["eviction_gate"]) == 1


def test_attempts_at_one_rule_are_one_visit(judge: JudgeServer, strong: JudgeServer) -> None:
    tip = make_tip(text="judge-says=not_followed Keep it tidy")
    refresh([make_retrieval(tip=tip, llm=False).run_id for _ in range(5)])
    run = make_run()
    for number in range(1, 6):
        attempt = make_attempt(run=run, script=f"{SCRIPT}# {number}\n", number=number, rule_id="r")
        make_retrieval(attempt=attempt, tip=tip, trace="abstained")
    each_alone(run)
    assert causes_in(run) == [[]] * 5


@pytest.mark.parametrize("what", ["gate", "list"])
def test_verdicts_that_came_at_the_same_moment_do_not_hide_each_other(
    judge: JudgeServer, strong: JudgeServer, what: str
) -> None:
    """All were written before one of them was looked at: none of them alone moves the tip any more."""
    if what == "gate":
        tip = make_tip(text="judge-says=not_followed Keep it tidy")
        refresh([make_retrieval(tip=tip, llm=False).run_id for _ in range(4)])
        run = shown_at(tip, attempts=5)
    else:
        run = shown_at(make_tip(text=FOLLOWED), attempts=5, outcome=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stakes, "stakes_of", lambda *_, **__: {})
        each_alone(run)
    unlooked = list(run.retrievals.order_by("pk"))
    before = {row.pk: copy.copy(row) for row in unlooked}
    for row in before.values():
        row.llm_label, row.tip_followed_llm, row.llm_source = "", None, ""
    expected = (stakes.Stake.EVICTION_GATE if what == "gate" else stakes.Stake.MISLEADING,)
    for row in unlooked:
        assert stakes.stakes_of([row], before=before, script=SCRIPT) == {row.pk: expected}
    Judgement.objects.create(
        retrieval=unlooked[0], tier="high_stakes", stakes=[expected[0].value],
        label=unlooked[0].llm_label, followed=unlooked[0].tip_followed_llm,
        requested_model="strong-judge", prompt_sha256="0" * 64,
    )  # fmt: skip
    for row in unlooked:
        assert stakes.stakes_of([row], before=before, script=SCRIPT) == {}


def test_a_run_whose_tips_have_lost_their_sums_is_judged_all_the_same(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    run = shown_at(make_tip(text="judge-says=not_followed Keep it tidy"), attempts=1)
    refresh([run.pk])
    TipEvidence.objects.all().delete()
    assert [row.llm_label for row in judged(run)] == ["not_followed"]


def test_what_the_run_itself_gave_before_is_not_counted_twice(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    tip = make_tip(text="judge-says=not_followed Keep it tidy")
    refresh([make_retrieval(tip=tip, llm=False).run_id for _ in range(5)])
    row = make_retrieval(attempt=make_attempt(script=SCRIPT), tip=tip, trace="abstained")
    refresh([row.run_id])
    judged(row.run)
    assert not row.judgements.filter(tier="high_stakes").exists()


def test_a_row_that_a_person_has_reviewed_is_not_escalated(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    row = make_retrieval(
        attempt=make_attempt(script=SCRIPT), tip=make_tip(text=UNCLEAR), review=True
    )
    judged(row.run)
    assert pairs(judge, strong) == [1, 0]


# --- Asked for, budget, failures ------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [True, "yes", 1, None])
def test_a_run_may_ask_for_the_stronger_judge_in_so_many_words(
    judge: JudgeServer, strong: JudgeServer, wanted: Any
) -> None:
    run = make_run(extra={"high_stakes": wanted})
    rows = judged(attempt_with(FOLLOWED, IGNORED, run=run).run)
    assert pairs(judge, strong) == ([0, 2] if wanted is True else [2, 0])
    if wanted is True:
        assert [causes_of(row) for row in rows] == [["asked_for"]] * 2
        assert [row.llm_tries for row in rows] == [1, 1]


def test_the_budget_of_a_run_is_not_exceeded_and_the_rest_is_judged_all_the_same(
    judge: JudgeServer, strong: JudgeServer, settings: Any
) -> None:
    settings.JUDGE_ESCALATIONS_PER_RUN = 3
    run = make_run(extra={"high_stakes": True})
    for number in range(3):
        attempt_with(FOLLOWED, IGNORED, run=run, script=f"{SCRIPT}# {number}\n")
    rows = judged(run)
    assert pairs(strong, judge) == [3, 3]
    assert EscalationBudget.objects.get().spent == 3
    assert all(row.llm_label for row in rows)


@pytest.mark.django_db(transaction=True)
def test_workers_that_claim_at_once_share_one_budget(settings: Any) -> None:
    settings.JUDGE_ESCALATIONS_PER_RUN = 10
    run = make_run()

    def claim(_: int) -> int:
        try:
            return stakes.claim(run.pk, 3)
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        granted = list(pool.map(claim, range(6)))
    assert sorted(granted) == [0, 0, 1, 3, 3, 3]


def test_a_hit_of_the_cache_costs_no_budget(judge: JudgeServer, strong: JudgeServer) -> None:
    for _ in range(2):
        run = make_run(extra={"high_stakes": True})
        (row,) = judged(attempt_with(FOLLOWED, run=run).run)
    assert row.judgements.get().cached
    assert pairs(strong) == [1]
    assert not EscalationBudget.objects.filter(run=run, spent__gt=0).exists()


@pytest.mark.parametrize("fault", ["401", "extra_prose"])
def test_a_stronger_judge_that_fails_leaves_the_verdict_standing(
    judge: JudgeServer, strong: JudgeServer, fault: str
) -> None:
    strong.control(fault=fault)
    (row,) = judged(attempt_with(UNCLEAR).run)
    assert (row.llm_label, row.llm_reason, row.llm_retry_at) == ("unclear", "unclear", None)
    failed = row.judgements.get(tier="high_stakes")
    assert (failed.label, failed.reason != "") == ("", True)
    paused = JudgePause.objects.filter(tier="high_stakes").count()
    assert paused == (fault == "401")
    spent = EscalationBudget.objects.get().spent
    judged(attempt_with(f"{UNCLEAR}!", run=row.run).run, number=2)
    assert EscalationBudget.objects.get().spent == spent + (not paused), (
        "no budget for a closed door"
    )
    assert Judgement.objects.filter(tier="default").count() == 2


def test_a_run_that_asked_for_it_is_judged_every_day_when_the_stronger_one_is_away(
    judge: JudgeServer, strong: JudgeServer
) -> None:
    strong.control(fault="401")
    run = make_run(extra={"high_stakes": True})
    rows = judged(attempt_with(FOLLOWED, IGNORED, run=run).run)
    assert [row.llm_label for row in rows] == ["followed", "not_followed"]
    assert {row.judgements.latest("pk").tier for row in rows} == {"default"}
