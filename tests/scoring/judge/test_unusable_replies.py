"""A reply that cannot be used was paid for: what it cost is read, carried, stored, summed and shown.

Shaped by replies that ran into their token limit, the dearest of all, and were counted as free.
"""

from __future__ import annotations

import json
import pickle
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command

from scoring.judge import errors
from scoring.judge.accounting import totals
from scoring.judge.accounting_text import lines
from scoring.models import JudgeCall
from tests.factories import make_run
from tests.scoring.judge.bench_rows import FOLLOWED, attempt_with, judged, use_judge
from tests.scoring.judge.questions import failure_of
from tests.scoring.judge.raw_server import RawServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory.models import Run
    from scoring.judge.client import JudgeClient
    from tests.stand_ins.judge_server import JudgeServer

COUNTED = [
    "truncated", "thinking_only", "whitespace", "empty_choices", "null_content", "blank_content",
    "reasoning_only", "two_choices", "list_content", "abort", "no_finish",
]  # fmt: skip
UNCOUNTED = ["garbage", "json_list", "no_choices_key", "huge"]
PRICES = {"stand-in-judge": (1.0, 2.0), "m": (1.0, 2.0)}


@pytest.mark.parametrize("fault", [*COUNTED, *UNCOUNTED])
def test_the_error_of_an_unusable_reply_carries_what_came(
    judge: JudgeServer, client_of: Callable[..., JudgeClient], fault: str
) -> None:
    judge.control(fault=fault)
    error = failure_of(client_of(judge.base_url))
    came = error.received
    assert isinstance(error, errors.JudgeReplyUnusable)
    assert came is not None
    assert (came.content, came.status, came.tries) == ("", 200, 1)
    assert came.raw
    assert came.raw not in repr(error.__dict__), "a reply quotes the judged text"
    if fault in COUNTED:
        assert (came.served_model, came.system_fingerprint) == ("stand-in-judge", "stand-in-1")
        assert came.prompt_tokens
        assert came.completion_tokens
    else:
        assert (came.served_model, came.prompt_tokens, came.completion_tokens) == (None, None, None)
    assert came.reasoning_tokens == (300 if fault == "thinking_only" else None)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert copy.received == came


@pytest.mark.parametrize("fault", ["401", "500", "hang", "reset", "cut"])
def test_an_error_without_a_reply_carries_none(
    judge: JudgeServer, client_of: Callable[..., JudgeClient], fault: str
) -> None:
    judge.control(fault=fault)
    assert failure_of(client_of(judge.base_url, max_tries=1, read_timeout_s=0.3)).received is None


@pytest.mark.django_db
@pytest.mark.parametrize("fault", ["truncated", "thinking_only", "null_content"])
def test_what_it_cost_is_stored_and_summed(judge: JudgeServer, settings: Any, fault: str) -> None:
    use_judge(settings, judge, JUDGE_PRICES=PRICES)
    judge.control(fault=fault)
    run = attempt_with(FOLLOWED).run
    judged(run)
    calls = list(JudgeCall.objects.filter(run=run))
    assert len(calls) == 2
    for call in calls:
        assert (call.served_model, call.system_fingerprint) == ("stand-in-judge", "stand-in-1")
        assert call.error_class.startswith("Reply")
        assert call.latency_s > 0
        assert json.loads(call.raw_reply)["usage"]
    asked = sum(call.prompt_tokens for call in calls)
    said = sum(call.completion_tokens for call in calls)
    sums = totals(run_id=run.pk).sums()
    assert (sums["tokens_in"], sums["tokens_out"]) == (asked, said)
    assert sums["cost"] == pytest.approx((asked + 2 * said) / 1e6, abs=1e-6)
    assert sums["server_seconds"] > 0
    assert (sums["uncounted"], sums["partial"]) == (0, False)


@pytest.mark.django_db
@pytest.mark.parametrize("fault", ["garbage", "no_choices_key"])
def test_a_sum_without_the_counts_of_an_answer_is_called_partial(
    judge: JudgeServer, settings: Any, fault: str
) -> None:
    use_judge(settings, judge, JUDGE_PRICES=PRICES)
    run = make_run(external_id="partly-counted")
    judge.control(fault=fault, times=1)  # the second asking is answered, and counted
    attempt_with(FOLLOWED, run=run)
    judged(run)
    assert JudgeCall.objects.exclude(raw_reply="").count() == 2
    shown = {
        "show_run": _json("show_run", "partly-counted")["sections"]["judge"],
        "judge_report": _json("judge_report"),
    }
    for data in shown.values():
        assert data["total"]["tokens_in"] > 0
        assert (data["total"]["uncounted"], data["total"]["partial"]) == (1, True)
        assert [model["uncounted"] for model in data["models"]] == [1]
    for command in (("show_run", "partly-counted"), ("judge_report",)):
        assert "; partial: 1 answered without counts of tokens" in _text(*command)


@pytest.mark.django_db
def test_a_server_that_never_counts_has_no_sum_and_a_call_without_an_answer_spoils_none(
    settings: Any,
) -> None:
    said = {"choices": [{"message": {"content": "x"}, "finish_reason": "length"}]}
    body = json.dumps(said).encode()
    run = attempt_with(FOLLOWED).run
    opening = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
    with RawServer(opening + body) as server:
        use_judge(settings, server, JUDGE_PRICES=PRICES, JUDGE_MODEL="m")
        judged(run)
    sums = totals(run_id=run.pk).sums()
    assert (sums["tokens_in"], sums["cost"], sums["uncounted"]) == (None, None, 2)

    other = make_run()
    _stored(other, latency_s=1.0, prompt_tokens=10, completion_tokens=10)
    _stored(other, error_class="JudgeTimeout")
    _stored(other, error_class="JudgeServerFault")
    assert totals(run_id=other.pk).sums()["partial"] is False
    _stored(other, error_class="ReplyTruncated")  # as such calls were stored at first
    _stored(other, latency_s=1.0, prompt_tokens=10)
    found = totals(run_id=other.pk)
    assert found.sums()["uncounted"] == 2
    assert "partial: 2 answered" in "\n".join(lines(found))


def _stored(run: Run, **fields: Any) -> None:
    JudgeCall.objects.create(
        run=run, requested_model="m", prompt_sha256="0" * 64, tips=1, http_tries=1, seconds=1.0, **fields
    )  # fmt: skip


def _text(*argv: str) -> str:
    out = StringIO()
    call_command(*argv, stdout=out)
    return out.getvalue()


def _json(*argv: str) -> Any:
    return json.loads(_text(*argv, "--json"))
