"""What judging cost is counted from rows: by run, by model, with errors, and without invented zeros.

Shaped by a bill that nobody could trace, and by models without a price that were shown as free.
"""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scoring.calibrated import MIN_DECIDED
from scoring.judge.accounting import totals
from scoring.judge.accounting_text import lines
from scoring.models import JudgeCall, Judgement
from tests.calibrations import make_calibration
from tests.factories import make_attempt, make_retrieval, make_run
from tests.scoring.judge.bench_rows import (
    FOLLOWED,
    IGNORED,
    SCRIPT,
    attempt_with,
    judged,
    use_judge,
)

if TYPE_CHECKING:
    from memory.models import Run
    from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db


def printed(*argv: str) -> str:
    out = StringIO()
    call_command(*argv, stdout=out)
    return out.getvalue()


def make_call(run: Run, **fields: Any) -> JudgeCall:
    values: dict[str, Any] = {
        "requested_model": "judge-a",
        "prompt_sha256": "0" * 64,
        "tips": 5,
        "http_tries": 1,
        "seconds": 2.0,
        "prompt_tokens": 1_000,
        "completion_tokens": 100,
    }
    return JudgeCall.objects.create(run=run, **(values | fields))


def test_calls_are_summed_by_model_and_priced(settings: Any) -> None:
    settings.JUDGE_PRICES = {"judge-a": (1.0, 10.0)}
    run = make_run()
    make_call(run, cached_tokens=400)
    make_call(run, http_tries=3, again=True, cached_tokens=0)
    make_call(run, error_class="JudgeTimeout", prompt_tokens=None, completion_tokens=None)
    make_call(make_run(), prompt_tokens=999_999)
    (model,) = totals(run_id=run.pk).models
    assert (model.calls, model.tips, model.seconds) == (3, 15, 6.0)
    assert (model.retries, model.asked_again, model.failed) == (2, 1, 1)
    assert (model.tokens_in, model.tokens_cached, model.tokens_out) == (2_000, 400, 200)
    assert model.cost == pytest.approx((2_000 * 1 + 200 * 10) / 1e6)
    assert totals(run_id=run.pk).errors == {"JudgeTimeout": 1}


def test_what_is_unknown_is_not_zero(settings: Any) -> None:
    settings.JUDGE_PRICES = {"judge-a": (1.0, 1.0)}
    run = make_run()
    make_call(run)
    make_call(run, requested_model="unpriced", prompt_tokens=None)
    found = totals(run_id=run.pk)
    assert [model.cost for model in found.models] == [pytest.approx(0.0011), None]
    assert (found.sums()["cost"], found.sums()["tokens_in"]) == (None, None)
    assert found.sums()["calls"] == 2
    assert found.unpriced == ["unpriced"]
    text = "\n".join(lines(found))
    assert "cost of all: unknown (see JUDGE_PRICES)" in text
    assert "tokens in unknown" in text


def test_a_judged_run_shows_calls_hits_labels_and_redactions(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    run = make_run(external_id="counted")
    attempt_with(FOLLOWED, IGNORED, "judge-says=unclear", run=run)
    attempt_with(FOLLOWED, run=run)
    attempt_with(FOLLOWED, run=run, script=f"{SCRIPT}DB_PASSWORD=not-a-real-one\n")
    judged(run)
    shown = json.loads(printed("show_run", "counted", "--json"))["sections"]["judge"]
    assert shown["total"]["calls"] == 2
    assert shown["total"]["tips"] == 4
    assert shown["labels"] == {"followed": 3, "not_followed": 1, "unclear": 1}
    assert (shown["verdicts"], shown["abstained"], shown["cache_hits"]) == (4, 1, 1)
    assert (shown["failures"], shown["redacted"]) == (0, 1)
    assert "judge: 4 yes or no, 1 abstained, 0 failed; 1 from the cache" in printed(
        "show_run", "counted"
    )


def test_failed_calls_are_counted_by_class(judge: JudgeServer, settings: Any) -> None:
    use_judge(settings, judge)
    judge.control(fault="extra_prose")
    run = attempt_with(FOLLOWED).run
    judged(run)
    found = totals(run_id=run.pk)
    assert (found.failures, found.errors) == (1, {"VerdictNotJson": 2})
    assert found.models[0].asked_again == 1
    assert found.sums()["tokens_in"], "a reply that could not be read was paid for"


def test_the_report_sums_the_runs_of_a_skill_from_a_day_on() -> None:
    first = make_call(make_run(skill="stig"))
    make_call(make_run(skill="stig"))
    make_call(make_run(skill="cve"), requested_model="judge-b")
    JudgeCall.objects.filter(pk=first.pk).update(created_at=timezone.now() - timedelta(days=40))

    def calls(*argv: str) -> int:
        found: int = json.loads(printed("judge_report", "--json", *argv))["total"]["calls"]
        return found

    day = f"{timezone.now() - timedelta(days=2):%Y-%m-%d}"
    assert [calls(), calls("--skill", "stig"), calls("--skill", "stig", "--since", day)] == [
        3,
        2,
        1,
    ]
    text = printed("judge_report")
    assert "judge-a (default): 2 calls about 10 tips" in text
    assert "without a price in JUDGE_PRICES: judge-a, judge-b" in text


def test_the_report_refuses_a_skill_without_runs_and_a_date_that_is_none() -> None:
    with pytest.raises(CommandError, match="'nothing'"):
        call_command("judge_report", "--skill", "nothing")
    with pytest.raises(CommandError, match="no date"):
        call_command("judge_report", "--since", "yesterday")
    assert "no call was made" in printed("judge_report")


def test_the_number_of_questions_does_not_grow_with_the_calls() -> None:
    run = make_run()
    counts = []
    for size in (1, 20):
        for number in range(size):
            make_call(run, requested_model=f"judge-{number}")
            make_judgement(f"judge-{number}", "p1")
        with CaptureQueriesContext(connection) as queries:
            totals(skill="stig").as_dict()
        counts.append(len(queries))
    assert counts[0] == counts[1]


def make_judgement(model: str, prompt_sha256: str, **fields: Any) -> Judgement:
    values: dict[str, Any] = {"label": "followed", "followed": True}
    return Judgement.objects.create(
        retrieval=make_retrieval(),
        requested_model=model,
        prompt_sha256=prompt_sha256,
        **(values | fields),
    )


def test_the_report_marks_each_judge_without_a_calibration() -> None:
    make_calibration("judge-7b", "p1")
    make_calibration("judge-8b", "p1", decided=MIN_DECIDED - 1)
    for model, prompt in (("judge-7b", "p1"), ("judge-7b", "p2"), ("judge-8b", "p1")):
        make_judgement(model, prompt)
    make_judgement("judge-7b", "p2", label="unclear", followed=None, reason="unclear")
    make_judgement("judge-7b", "p2", label="", followed=None, reason="judge_error")
    sources = json.loads(printed("judge_report", "--json"))["sources"]
    assert [(one["source"], one["verdicts"], one["calibrated"]) for one in sources] == [
        ("judge-7b@p1", 1, True),
        ("judge-7b@p2", 2, False),
        ("judge-8b@p1", 1, False),
    ]
    shown = printed("judge_report").splitlines()
    assert shown[-3:] == [
        "verdicts of judge-7b@p1: 1",
        "verdicts of judge-7b@p2: 2; uncalibrated",
        "verdicts of judge-8b@p1: 1; uncalibrated",
    ]


def test_a_run_names_its_uncalibrated_judges_with_their_rows() -> None:
    make_calibration("judge-7b", "p1")
    attempt = make_attempt(run=make_run(external_id="run-x"))
    for source in ("judge-7b@p1", "new\x1b[2J@p1", "new\x1b[2J@p1"):
        make_retrieval(attempt=attempt, llm=True, llm_source=source)
    section = json.loads(printed("show_run", "run-x", "--json"))["sections"]["judge"]
    assert section["uncalibrated"] == ["new\x1b[2J@p1"]
    marked = [line for line in printed("show_run", "run-x").splitlines() if "uncalibrated" in line]
    assert marked == ["uncalibrated: new\\x1b[2J@p1 (2 rows)"]
