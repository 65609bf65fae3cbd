"""The judge's client against a server that speaks real HTTP: every fault has its typed error.

Shaped by clients whose errors became verdicts, whose retries multiplied, and whose logs held keys.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from scoring.judge import errors
from scoring.judge.client import CallBudget, JudgeClient, JudgeConfig
from scoring.judge.verdict import Label, VerdictError
from tests.scoring.judge.questions import QUESTION, SCHEMA, ask, failure_of, label_of
from tests.stand_ins import judge_faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scoring.judge.conftest import Clock
    from tests.stand_ins.judge_server import JudgeServer

    ClientOf = Callable[..., JudgeClient]

REFUSED_BY = {
    "400": errors.JudgeRequestRefused,
    "400_context": errors.JudgeContextExceeded,
    "400_quota": errors.JudgeQuotaExhausted,
    "401": errors.JudgeMisconfigured,
    "402": errors.JudgeQuotaExhausted,
    "403": errors.JudgeMisconfigured,
    "404": errors.JudgeMisconfigured,
    "408": errors.JudgeServerFault,
    "429": errors.JudgeOverloaded,
    "429_quota": errors.JudgeQuotaExhausted,
    "429_date": errors.JudgeOverloaded,
    "429_bare": errors.JudgeOverloaded,
    "500": errors.JudgeServerFault,
    "501": errors.JudgeMisconfigured,
    "502": errors.JudgeServerFault,
    "502_huge": errors.JudgeServerFault,
    "503": errors.JudgeOverloaded,
    "529": errors.JudgeOverloaded,
    "redirect": errors.JudgeMisconfigured,
    "hang": errors.JudgeTimeout,
    "reset": errors.JudgeUnreachable,
    "cut": errors.JudgeUnreachable,
    "drip": errors.JudgeTimeout,
    "not_http": errors.JudgeUnreachable,
    "bad_chunk": errors.JudgeUnreachable,
    "garbage": errors.ReplyNotJson,
    "json_list": errors.ReplyNotJson,
    "no_choices_key": errors.ReplyWrongShape,
    "empty_choices": errors.ReplyEmpty,
    "two_choices": errors.ReplyWrongShape,
    "null_content": errors.ReplyEmpty,
    "blank_content": errors.ReplyEmpty,
    "list_content": errors.ReplyWrongShape,
    "reasoning_only": errors.ReplyReasoningOnly,
    "reasoning_content": errors.ReplyReasoningOnly,
    "thinking_only": errors.ReplyThinkingOnly,
    "truncated": errors.ReplyTruncated,
    "whitespace": errors.ReplyTruncated,
    "abort": errors.ReplyWrongShape,
    "repetition": errors.ReplyWrongShape,
    "no_finish": errors.ReplyWrongShape,
    "huge": errors.ReplyTooLarge,
}
UNREADABLE = set(judge_faults.CONTENT) - judge_faults.HARMLESS


def test_a_question_comes_back_as_a_verdict_with_its_accounting(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    reply = ask(client_of(judge.base_url))
    assert label_of(reply.content) is Label.FOLLOWED
    assert (reply.requested_model, reply.served_model) == ("stand-in-judge", "stand-in-judge")
    assert reply.system_fingerprint == "stand-in-1"
    assert reply.prompt_tokens
    assert reply.completion_tokens
    assert (reply.cached_tokens, reply.reasoning_tokens) == (None, None)
    assert (reply.status, reply.tries) == (200, 1)
    assert json.loads(reply.raw)["choices"][0]["message"]["content"] == reply.content


def test_tokens_from_the_cache_and_tokens_of_thinking_are_counted_where_the_server_does(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    judge.control(fault="usage_details")
    reply = ask(client_of(judge.base_url))
    assert (reply.cached_tokens, reply.reasoning_tokens) == (48, 7)


def test_the_request_asks_for_one_deterministic_answer_under_the_schema(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    ask(client_of(judge.base_url, seed=7, max_tokens=99))
    sent = json.loads(judge.seen[0].body)
    form = sent.pop("response_format")
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"] == SCHEMA
    assert form["json_schema"]["strict"] is True
    assert sent == {
        "model": "stand-in-judge",
        "messages": QUESTION,
        "temperature": 0,
        "top_p": 1,
        "n": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "repetition_penalty": 1.0,
        "chat_template_kwargs": {"enable_thinking": False},
        "max_tokens": 99,
        "seed": 7,
    }


def test_a_server_that_knows_openais_fields_only_gets_no_others(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    ask(client_of(judge.base_url, dialect="openai", max_tokens=99))
    sent = json.loads(judge.seen[0].body)
    assert sent.keys().isdisjoint({"repetition_penalty", "chat_template_kwargs", "max_tokens"})
    assert sent["max_completion_tokens"] == 99


def test_a_call_may_have_a_budget_of_its_own(
    judge: JudgeServer, client_of: ClientOf, clock: Clock
) -> None:
    client = client_of(judge.base_url, max_tries=4, max_tokens=300)
    judge.control(fault="500")
    with pytest.raises(errors.JudgeServerFault) as caught:
        client.ask(QUESTION, schema=SCHEMA, budget=CallBudget(2, 60, 600))
    assert caught.value.tries == judge.counters()["questions"] == 2
    assert {json.loads(seen.body)["max_tokens"] for seen in judge.seen} == {600}
    with pytest.raises(errors.JudgeServerFault):
        client.ask(QUESTION, schema=SCHEMA, budget=CallBudget(9, 1.0, 600))
    assert judge.counters()["questions"] == 4  # the second pause would pass its deadline
    for wrong in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        with pytest.raises(ValueError, match="at least 1"):
            CallBudget(*wrong)


def test_no_fault_of_the_stand_in_is_left_out() -> None:
    covered = set(REFUSED_BY) | UNREADABLE | judge_faults.HARMLESS
    assert covered == judge_faults.NAMES


@pytest.mark.parametrize("fault", sorted(set(REFUSED_BY) - {"drip"}))
def test_each_fault_is_a_typed_error_and_never_an_answer(
    judge: JudgeServer, client_of: ClientOf, fault: str
) -> None:
    judge.control(fault=fault)
    silence_s = 0.3 if fault == "hang" else 60.0
    error = failure_of(client_of(judge.base_url, max_tries=1, read_timeout_s=silence_s))
    assert type(error) is REFUSED_BY[fault]
    available = isinstance(error, errors.JudgeUnavailable)
    assert error.reason == ("judge_unavailable" if available else "judge_error")
    assert error.status in {None, 200, judge_faults.STATUS.get(fault, (200, ""))[0]}


@pytest.mark.parametrize("fault", sorted(UNREADABLE))
def test_content_that_is_no_verdict_is_refused_by_the_parser(
    judge: JudgeServer, client_of: ClientOf, fault: str
) -> None:
    judge.control(fault=fault)
    reply = ask(client_of(judge.base_url))
    try:
        label = label_of(reply.content)
    except VerdictError:
        label = None
    assert label is None


@pytest.mark.parametrize("fault", sorted(judge_faults.HARMLESS - {"slow"}))
def test_what_correct_servers_really_send_is_read(
    judge: JudgeServer, client_of: ClientOf, fault: str
) -> None:
    judge.control(fault=fault)
    assert label_of(ask(client_of(judge.base_url)).content) is Label.FOLLOWED


@pytest.mark.parametrize("fault", ["500", "502", "503", "408", "429_bare", "reset", "cut"])
def test_a_passing_fault_is_retried_until_the_answer_comes(
    judge: JudgeServer, client_of: ClientOf, fault: str
) -> None:
    judge.control(fault=fault, times=2)
    reply = ask(client_of(judge.base_url, max_tries=4))
    assert reply.tries == judge.counters()["questions"] == 3


@pytest.mark.parametrize(
    "fault",
    ["401", "402", "403", "404", "400", "400_quota", "429_quota", "501", "redirect", "garbage"],
)
def test_a_lasting_fault_costs_one_request(
    judge: JudgeServer, client_of: ClientOf, clock: Clock, fault: str
) -> None:
    judge.control(fault=fault)
    error = failure_of(client_of(judge.base_url, max_tries=5))
    assert not error.retryable
    assert error.pauses is (fault not in {"400", "garbage"})
    assert error.tries == judge.counters()["questions"] == 1
    assert clock.slept == []


def test_retries_end_at_max_tries_with_growing_pauses(
    judge: JudgeServer, client_of: ClientOf, clock: Clock
) -> None:
    judge.control(fault="500")
    error = failure_of(client_of(judge.base_url, max_tries=4))
    assert error.tries == judge.counters()["questions"] == 4
    assert clock.slept == [0.5, 1.0, 2.0]


def test_the_pause_that_the_server_asks_for_is_kept_and_jitter_comes_on_top(
    judge: JudgeServer, client_of: ClientOf, clock: Clock
) -> None:
    judge.control(fault="429", times=1, retry_after="7")
    assert ask(client_of(judge.base_url)).tries == 2
    assert clock.slept == [7.5]


def test_a_retry_after_that_is_a_date_is_understood(
    judge: JudgeServer, client_of: ClientOf, clock: Clock
) -> None:
    judge.control(fault="429_date", times=1, retry_after="30")
    assert ask(client_of(judge.base_url)).tries == 2
    assert 29.0 <= clock.slept[0] - 0.5 <= 31.5


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        ("soon", None),
        ("", None),
        ("-5", None),
        ("1e9", None),
        ("86401", 86_400.0),
        ("9" * 400, 86_400.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Mon, 99 Foo 2026 99:99:99 GMT", None),
    ],
)
def test_a_retry_after_that_says_nothing_falls_back_to_backoff(
    judge: JudgeServer, client_of: ClientOf, header: str, asked: float | None
) -> None:
    judge.control(fault="429", retry_after=header)
    assert failure_of(client_of(judge.base_url, max_tries=1)).retry_after_s == asked


def test_a_pause_beyond_the_deadline_ends_the_call_at_once_and_is_reported(
    judge: JudgeServer, client_of: ClientOf, clock: Clock
) -> None:
    judge.control(fault="429", retry_after="3600")
    error = failure_of(client_of(judge.base_url, deadline_s=60))
    assert (error.tries, error.retry_after_s, clock.slept) == (1, 3600.0, [])


def test_retries_stop_at_the_deadline_of_the_call(
    judge: JudgeServer, client_of: ClientOf, clock: Clock
) -> None:
    judge.control(fault="503")
    error = failure_of(client_of(judge.base_url, max_tries=100, deadline_s=10))
    assert sum(clock.slept) < 10
    assert 4 <= error.tries == judge.counters()["questions"] < 100


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_a_silent_or_trickling_server_holds_a_call_no_longer_than_its_deadline(
    judge: JudgeServer, fault: str
) -> None:
    judge.control(fault=fault)
    config = JudgeConfig(judge.base_url, "stand-in-judge", read_timeout_s=60, deadline_s=0.6)
    started = time.monotonic()
    with JudgeClient(config) as client:
        error = failure_of(client)
    assert type(error) is errors.JudgeTimeout
    assert time.monotonic() - started < 15, "a body that drips takes half a minute"


def test_a_call_whose_deadline_has_passed_is_not_sent(judge: JudgeServer, clock: Clock) -> None:
    config = JudgeConfig(judge.base_url, "stand-in-judge", deadline_s=10)

    def jumping() -> float:
        clock.now += 11
        return clock.now

    with JudgeClient(config, clock=jumping) as client:
        assert type(failure_of(client)) is errors.JudgeTimeout
    assert judge.counters()["questions"] == 0


def test_a_reply_that_unpacks_beyond_the_limit_is_refused(judge: JudgeServer) -> None:
    judge.control(fault="gzip")
    config = JudgeConfig(judge.base_url, "stand-in-judge")
    with JudgeClient(config) as client, pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "scoring.judge.transport.MAX_BODY_BYTES", 500
        )  # packed it is below, bare above
        assert type(failure_of(client)) is errors.ReplyTooLarge


def test_a_slow_answer_within_the_limits_is_an_answer(judge: JudgeServer) -> None:
    judge.control(fault="slow")
    with JudgeClient(JudgeConfig(judge.base_url, "stand-in-judge")) as client:
        reply = ask(client)
    assert reply.tries == 1
    assert reply.latency_s >= 1.0


def test_a_refused_connection_is_unavailable_and_retried(client_of: ClientOf) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: every connection is refused
        error = failure_of(client_of(f"http://127.0.0.1:{taken.getsockname()[1]}", max_tries=3))
    assert type(error) is errors.JudgeUnreachable
    assert (error.reason, error.tries) == ("judge_unavailable", 3)


def test_a_server_that_does_not_speak_tls_is_a_matter_of_configuration(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    error = failure_of(client_of(judge.base_url.replace("http:", "https:"), max_tries=3))
    assert type(error) is errors.JudgeMisconfigured
    assert error.tries == 1


def test_eight_threads_share_a_client_and_get_their_own_answers(
    judge: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_there = threading.Barrier(8)

    def together(_: object) -> None:
        all_there.wait(60)

    monkeypatch.setattr(judge.state, "fault_for", together)
    config = JudgeConfig(judge.base_url, "stand-in-judge", read_timeout_s=60)

    def said(number: int) -> Label | None:
        text = f"judge-says={'unclear' if number % 2 else 'false'} {number}"
        reply = client.ask([{"role": "user", "content": text}], schema=SCHEMA)
        return label_of(reply.content)

    with JudgeClient(config) as client, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(said, range(40))) == [Label.NOT_FOLLOWED, Label.UNCLEAR] * 20
    assert judge.counters()["questions"] == 40


def test_each_thread_keeps_one_connection_for_all_its_questions(judge: JudgeServer) -> None:
    with JudgeClient(JudgeConfig(judge.base_url, "stand-in-judge")) as client:
        for _ in range(3):
            ask(client)
        thread = threading.Thread(target=ask, args=(client,))
        thread.start()
        thread.join()
    assert (judge.counters()["questions"], judge.counters()["connections"]) == (4, 2)


def test_a_forked_worker_does_not_use_the_sockets_of_its_parent(judge: JudgeServer) -> None:
    with JudgeClient(JudgeConfig(judge.base_url, "stand-in-judge")) as client:
        ask(client)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: the server is a thread here
            child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                ask(client)
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        ask(client)
    assert (judge.counters()["questions"], judge.counters()["connections"]) == (3, 2)
