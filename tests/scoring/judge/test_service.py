"""A batch is judged against a real server and real rows: what is asked, and what becomes of each row.

Shaped by: errors stored as labels, rows that killed their neighbours, and verdicts written twice.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from django.db import IntegrityError, transaction

from memory.models import Retrieval
from memory.reasons import JudgeLabel
from scoring import batches
from scoring.judge import service, verdict_store
from scoring.judge.verdict import Label
from scoring.models import JudgeCall, Judgement, JudgePause, Signal
from tests.factories import make_attempt, make_retrieval, make_run, make_tip
from tests.scoring.judge.bench_rows import (
    FOLLOWED,
    IGNORED,
    SCRIPT,
    attempt_with,
    batch_of,
    due,
    held,
    judged,
    use_judge,
)

if TYPE_CHECKING:
    from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db

SAYS = {label: f"judge-says={label} about `{label}`" for label in Label}


def answers(rows: list[Retrieval]) -> list[tuple[str, bool | None, str]]:
    return [(row.llm_label, row.tip_followed_llm, row.llm_reason) for row in rows]


def asked(judge: JudgeServer) -> tuple[int, int]:
    counted = judge.counters()
    return counted["questions"], counted["pairs"]


@pytest.mark.parametrize(("mode", "calls"), [("per_attempt", 2), ("per_tip", 6)])
def test_each_mode_judges_every_row_of_every_attempt(
    judge: JudgeServer, settings: Any, mode: str, calls: int
) -> None:
    use_judge(settings, judge, JUDGE_MODE=mode)
    run = make_run()
    for number in range(2):
        attempt_with(
            FOLLOWED, IGNORED, SAYS[Label.UNCLEAR], run=run, script=f"{SCRIPT}# {number}\n"
        )
    rows = judged(run)
    assert (
        answers(rows)
        == [
            ("followed", True, ""),
            ("not_followed", False, ""),
            ("unclear", None, "unclear"),
        ]
        * 2
    )
    assert asked(judge) == (calls, 6)
    assert JudgeCall.objects.count() == calls
    assert Judgement.objects.filter(call__isnull=False, cached=False).count() == 6
    for row in rows:
        assert row.llm_source.startswith("stand-in-judge@")
        assert row.tip_followed_computed_at is not None
        assert (row.llm_tries, row.llm_retry_at) == (1, None)


def test_a_call_asks_about_no_more_tips_than_allowed(judge: JudgeServer, settings: Any) -> None:
    use_judge(settings, judge, JUDGE_TIPS_PER_CALL=2)
    attempt = attempt_with(*(f"{FOLLOWED} {n}" for n in range(5)))
    judged(attempt.run)
    assert asked(judge) == (3, 5)


def test_every_label_is_stored_with_what_it_means(judge: JudgeServer, settings: Any) -> None:
    use_judge(settings, judge)
    rows = judged(attempt_with(*SAYS.values()).run)
    assert {row.llm_label: (row.tip_followed_llm, row.llm_reason) for row in rows} == {
        "followed": (True, ""),
        "contradicted": (False, ""),
        "not_followed": (False, ""),
        "not_applicable": (None, "not_applicable"),
        "unclear": (None, "unclear"),
    }
    assert set(JudgeLabel.values) == {label.value for label in Label}
    for judgement in Judgement.objects.all():
        row = judgement.retrieval
        assert (judgement.label, judgement.followed, judgement.reason) == (
            row.llm_label, row.tip_followed_llm, row.llm_reason,
        )  # fmt: skip


def test_an_abstention_is_not_asked_about_again(judge: JudgeServer, settings: Any) -> None:
    use_judge(settings, judge)
    run = attempt_with(SAYS[Label.UNCLEAR], SAYS[Label.NOT_APPLICABLE]).run
    judged(run)
    assert not run.retrievals.filter(llm_retry_at__isnull=False).exists()
    assert not batches.pending(Signal.JUDGE, run.pk).exists()


def test_a_yes_without_a_quote_that_does_something_becomes_unclear_and_keeps_what_was_said(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    (row,) = judged(attempt_with(SAYS[Label.FOLLOWED], script="# followed, as advised\n").run)
    assert answers([row]) == [("unclear", None, "quote_unverified")]
    judgement = row.judgements.get()
    assert (judgement.said, judgement.label, judgement.followed) == ("followed", "unclear", None)


def test_the_judgement_holds_claims_spans_prompt_and_call(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    judge.control(fault="usage_details")
    (row,) = judged(attempt_with(FOLLOWED).run)
    judgement = row.judgements.get()
    (claim,) = judgement.evidence
    assert claim["finding"] == "done"
    assert claim["match"] == "match"
    assert SCRIPT[claim["start"] : claim["end"]] == claim["quote"]
    assert judgement.prompt_id
    assert judgement.prompt_version >= 1
    assert row.llm_source == f"stand-in-judge@{judgement.prompt_sha256}"
    assert (judgement.prompt_skill, judgement.tier, judgement.position) == ("stig", "default", 1)
    assert len(judgement.request_key) == 64
    call = judgement.call
    assert (call.tips, call.http_tries, call.error_class) == (1, 1, "")
    assert None not in {call.prompt_tokens, call.cached_tokens, call.completion_tokens}
    assert call.seconds >= call.latency_s > 0
    assert json.loads(call.raw_reply)["choices"]


def test_secrets_stay_here_and_the_row_says_so(judge: JudgeServer, settings: Any) -> None:
    use_judge(settings, judge)
    script = f"{SCRIPT}export DB_PASSWORD=hunter2-not-real\n"
    run = attempt_with(FOLLOWED, "Set `api_key: abcd1234efgh-not-real`", script=script).run
    attempt_with(IGNORED, run=run)
    rows = judged(run)
    sent = b"".join(seen.body for seen in judge.seen)
    assert b"not-real" not in sent
    assert b"[REDACTED:password:1]" in sent
    assert [row.llm_redacted for row in rows] == [True, True, False]
    assert [row.judgements.get().redactions for row in rows] == [
        {"script": {"password": 1}},
        {"script": {"password": 1}, "tip": {"password": 1}},
        {},
    ]
    assert rows[0].llm_label == "followed", "quotes are looked up in the script that was sent"


def test_a_tip_of_another_skill_is_judged_by_the_prompt_of_the_run_and_says_so(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    attempt = make_attempt(run=make_run(skill="cve"), script=SCRIPT)
    make_retrieval(attempt=attempt, tip=make_tip(skill="stig", text=FOLLOWED))
    make_retrieval(attempt=attempt, tip=make_tip(skill="cve", text=IGNORED), rank=2)
    rows = judged(attempt.run)
    given = [(row.judgements.get().cross_skill, row.judgements.get().prompt_skill) for row in rows]
    assert given == [(True, "cve"), (False, "cve")]


# --- Failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "reason", "counted"),
    [("500", "judge_unavailable", 0), ("extra_prose", "judge_error", 1), ("400", "judge_error", 1)],
)
def test_a_failure_is_a_reason_with_a_time_for_the_next_try(
    judge: JudgeServer, settings: Any, fault: str, reason: str, counted: int
) -> None:
    use_judge(settings, judge)
    judge.control(fault=fault)
    run = attempt_with(FOLLOWED, IGNORED).run
    rows = judged(run)
    assert answers(rows) == [("", None, reason)] * 2
    assert all(row.llm_retry_at for row in rows)
    assert [row.llm_tries for row in rows] == [counted] * 2
    assert {judgement.reason for judgement in Judgement.objects.all()} == {reason}

    judge.control(fault=None)
    due(run)
    assert answers(judged(run)) == [("followed", True, ""), ("not_followed", False, "")]


def test_a_reply_that_lacks_one_verdict_leaves_the_others_standing(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    judge.control(fault="no_claims")
    rows = judged(attempt_with(FOLLOWED, IGNORED).run)
    assert sorted(row.llm_reason for row in rows) == ["", "judge_error"]
    assert sorted(JudgeCall.objects.values_list("tips", "again")) == [(1, True), (2, False)]


def test_a_row_that_was_tried_before_is_asked_alone(judge: JudgeServer, settings: Any) -> None:
    use_judge(settings, judge)
    run = attempt_with(FOLLOWED, IGNORED, f"{IGNORED} too").run
    run.retrievals.filter(rank=2).update(llm_tries=1)
    rows = judged(run)
    assert list(JudgeCall.objects.values_list("tips", flat=True)) == [2, 1]
    assert [row.llm_tries for row in rows] == [1, 2, 1]


def test_a_row_whose_process_always_died_is_closed_and_costs_no_call(
    judge: JudgeServer, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    use_judge(settings, judge, JUDGE_MAX_TRIES=2)
    run = attempt_with(FOLLOWED, IGNORED).run
    run.retrievals.filter(rank=2).update(llm_tries=2)
    rows = judged(run)
    assert answers(rows) == [("followed", True, ""), ("", None, "judge_error")]
    assert rows[1].llm_retry_at is None
    assert asked(judge) == (1, 1)
    assert "judge.worker_lost" in caplog.text


def test_a_row_that_another_worker_has_taken_is_no_lost_worker(
    judge: JudgeServer, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It is settled between the moment at which the rows were read, and that of its try."""
    use_judge(settings, judge, JUDGE_MAX_TRIES=2)
    run = attempt_with(FOLLOWED, IGNORED, f"{IGNORED} too").run
    run.retrievals.filter(rank=3).update(llm_tries=2)
    taken = run.retrievals.get(rank=2)
    count_try = verdict_store.count_try

    def late(ids: Any) -> Any:
        run.retrievals.filter(pk=taken.pk).update(llm_reason="judge_error")
        return count_try(ids)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict_store, "count_try", late)
        rows = judged(run)
    assert [row.llm_reason for row in rows] == ["", "judge_error", "judge_error"]
    lost = [record.rows for record in caplog.records if "worker_lost" in record.getMessage()]
    assert lost == [[rows[2].pk]]


def test_the_try_is_counted_before_the_call(judge: JudgeServer, settings: Any) -> None:
    use_judge(settings, judge)
    run = attempt_with(FOLLOWED, IGNORED).run

    class Killed(BaseException):
        pass

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr("scoring.judge.client.JudgeClient.ask", die)
        judged(run)
    assert [row.llm_tries for row in run.retrievals.all()] == [1, 1]
    assert answers(judged(run, number=2))[0][0] == "followed"


def test_a_late_duplicate_changes_nothing_and_leaves_no_judgement(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge, JUDGE_CACHE=False)
    run = attempt_with(FOLLOWED, SAYS[Label.UNCLEAR]).run
    publish = verdict_store.publish

    def twice(*given: Any, **options: Any) -> list[Judgement]:
        """Somebody else was quicker."""
        publish(*given, **options)
        return publish(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict_store, "publish", twice)
        rows = judged(run)
    assert [row.judgements.count() for row in rows] == [1, 1]
    assert answers(rows) == [("followed", True, ""), ("unclear", None, "unclear")]


def test_no_label_can_stand_beside_a_boolean_that_says_otherwise() -> None:
    row = make_retrieval(llm=True)
    for wrong in (
        {"llm_label": "not_followed"},
        {"llm_label": "unclear", "llm_reason": "unclear"},
        {"llm_label": "followed", "tip_followed_llm": None},
        {"llm_label": "unclear", "tip_followed_llm": None, "llm_reason": ""},
        {"llm_label": "unclear", "tip_followed_llm": None, "llm_reason": "judge_error"},
        {"llm_label": "followed", "llm_source": ""},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Retrieval.objects.filter(pk=row.pk).update(**wrong)


# --- When the judge is away -----------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["401", "404", "429_quota"])
def test_an_error_that_an_operator_must_mend_costs_one_call_and_one_line(
    judge: JudgeServer, settings: Any, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    use_judge(settings, judge, JUDGE_PAUSE_S=600.0)
    judge.control(fault=fault)
    run = make_run()
    for number in range(3):
        attempt_with(FOLLOWED, IGNORED, run=run, script=f"{SCRIPT}# {number}\n")
    with caplog.at_level(logging.WARNING, "scoring"):
        rows = judged(run)
        other = judged(attempt_with(FOLLOWED).run)
    assert asked(judge)[0] == 1
    pause = JudgePause.objects.get()
    assert pause.cleared_at is None
    assert caplog.text.count("judge.paused") == 1
    for row in [*rows[2:], *other]:
        assert (row.llm_reason, row.llm_tries) == ("judge_unavailable", 0)
        assert row.llm_retry_at >= pause.until


def test_a_server_that_is_away_is_left_alone_after_a_few_calls(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    judge.control(fault="503")
    run = make_run()
    for number in range(9):
        attempt_with(FOLLOWED, run=run, script=f"{SCRIPT}# {number}\n")
    rows = judged(run)
    assert asked(judge)[0] == 5
    assert {row.llm_reason for row in rows} == {"judge_unavailable"}
    assert {row.llm_tries for row in rows} == {0}


def test_a_batch_without_a_judge_is_refused_by_name(settings: Any) -> None:
    settings.JUDGE_BASE_URL = ""
    with pytest.raises(ValueError, match="JUDGE_BASE_URL"):
        service.score(held(batch_of(attempt_with(FOLLOWED).run)))
