"""One request ends in time and in a typed error, whatever bytes come back, and at whatever pace.

Shaped by headers that trickled on for ten times the deadline, and by a redirect to ``//[`` whose
ValueError stopped the sweep over all runs.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from scoring.judge import errors, service
from scoring.judge.client import CallBudget, JudgeClient, JudgeConfig
from tests.scoring.judge.bench_rows import use_judge
from tests.scoring.judge.questions import QUESTION, SCHEMA, ask, failure_of
from tests.scoring.judge.raw_server import RawServer, redirect_to

if TYPE_CHECKING:
    from tests.stand_ins.judge_server import JudgeServer

DEADLINE_S = 0.6
LATE_S = 15.0
"""What a busy machine may add; what is not cut takes a minute."""
OK = b"HTTP/1.1 200 OK\r\n"
TRICKLES = {
    "the status line": (b"HTTP/1.1 200 ", b"O"),
    "a header": (OK + b"X: ", b"a"),
    "headers": (OK, b"X: a\r\n"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a chunk's extension": (OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a"),
    "a chunk": (OK + b"Transfer-Encoding: chunked\r\n\r\nff\r\n", b"a"),
    "trailers": (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: a\r\n"),
    "a body": (OK + b"Content-Length: 9999\r\n\r\n", b" "),
    "a body until the end": (b"HTTP/1.0 200 OK\r\n\r\n", b" "),
    "the body of an error": (b"HTTP/1.1 500 no\r\nContent-Length: 9999\r\n\r\n", b" "),
    "the body of a redirect": (b"HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 9999\r\n\r\n", b" "),
}  # fmt: skip
NOWHERE = ["//[", "http://[::1", "http://a b/", "\xff\xfe", "http://x:99999999/", "", "a" * 60_000]


def short(address: str, **more: Any) -> JudgeClient:
    wanted: dict[str, Any] = {"deadline_s": DEADLINE_S, "read_timeout_s": 60, "max_tries": 1}
    return JudgeClient(JudgeConfig(address, "m", **(wanted | more)))


@pytest.mark.parametrize("what", TRICKLES)
def test_what_trickles_in_is_cut_at_the_deadline(what: str) -> None:
    with RawServer(*TRICKLES[what]) as server, short(server.base_url) as client:
        started = time.monotonic()
        error = failure_of(client)
        took = time.monotonic() - started
        probed = client.probe(timeout_s=0.3)
        assert time.monotonic() - started - took < 0.3 + LATE_S
    assert type(error) is errors.JudgeTimeout
    assert DEADLINE_S * 0.9 < took < DEADLINE_S + LATE_S
    assert probed.status is None
    assert "deadline" in probed.problem


def test_the_deadline_holds_over_all_tries(judge: JudgeServer) -> None:
    with RawServer(*TRICKLES["a header"]) as server, short(server.base_url, max_tries=99) as client:
        started = time.monotonic()
        assert type(failure_of(client)) is errors.JudgeTimeout
        assert time.monotonic() - started < DEADLINE_S + LATE_S


def test_a_proxy_that_trickles_is_cut_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(OK + b"X: ", b"a") as proxy, short("https://judge.invalid") as client:
        monkeypatch.setenv("https_proxy", proxy.base_url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        started = time.monotonic()
        assert type(failure_of(client)) is errors.JudgeTimeout
        assert time.monotonic() - started < DEADLINE_S + LATE_S


def test_after_a_cut_the_next_question_gets_its_answer_and_no_thread_is_left(
    judge: JudgeServer,
) -> None:
    before = threading.active_count()
    with JudgeClient(JudgeConfig(judge.base_url, "stand-in-judge", max_tries=1)) as client:
        for _ in range(3):
            judge.control(fault="drip", times=1)
            with pytest.raises(errors.JudgeTimeout):
                client.ask(QUESTION, schema=SCHEMA, budget=CallBudget(1, 0.2, 300))
            assert ask(client).tries == 1
    # the stand-in's own, one a connection, and the one that rings all alarms
    assert threading.active_count() - before <= 2 + judge.counters()["connections"]


@pytest.mark.parametrize("location", NOWHERE)
def test_a_redirect_is_a_matter_of_configuration_wherever_it_leads(location: str) -> None:
    with (
        RawServer(redirect_to(location)) as server,
        short(server.base_url, max_tries=3, deadline_s=60) as client,
    ):
        error = failure_of(client)
        probed = client.probe(timeout_s=60)
    assert type(error) is errors.JudgeMisconfigured
    assert (error.status, error.tries) == (302, 1)
    assert (probed.reachable, probed.status) == (True, 302)


def test_whether_the_judge_is_away_can_be_asked_of_a_server_that_redirects(settings: Any) -> None:
    with RawServer(redirect_to("//[")) as server:
        use_judge(settings, server)
        assert service.is_away() is False, "it is there, and what it says pauses the bench"


def test_an_address_that_no_request_can_go_to_is_a_matter_of_configuration() -> None:
    for address in ("http://" + "a" * 70 + ".invalid", "http://.invalid", "http://a..b.invalid"):
        with short(address, max_tries=3) as client:
            error = failure_of(client)
        assert isinstance(error, errors.JudgeMisconfigured | errors.JudgeUnreachable)


BODY = b'{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}'
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: a=b; Domain=x; Path=/\r\n"
    b"Transfer-Encoding: chunked\r\nContent-Encoding: identity\r\nRetry-After: 3\r\n\r\n"
)
SPICES = [
    b"\r\n", b"\x00", b"\xff", b":", b"Content-Length: -1\r\n", b"Content-Length: 9" + b"9" * 30,
    b"Content-Encoding: gzip\r\n", b"Content-Encoding: x\r\n", b"HTTP/9.9 999 \r\n", b";", b"-1\r\n",
    b"ffffffffffffffffff\r\n", b"Location: //[\r\n", b"X: " + b"y" * 70_000 + b"\r\n", b"301", b" ",
    b"Set-Cookie: =\xfe; Expires=\x00\r\n", b"Transfer-Encoding: gzip\r\n", b"X: y\r\n" * 150,
]  # fmt: skip


def test_any_bytes_on_the_wire_are_an_answer_or_a_typed_error() -> None:
    dice = random.Random(3)
    whole = HEAD + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    ends: set[str] = set()
    with RawServer(b"") as server, short(server.base_url, deadline_s=60) as client:
        for _ in range(400):
            raw = whole
            for _ in range(dice.randint(1, 3)):
                at, spice = dice.randrange(len(raw)), dice.choice(SPICES)
                raw = raw[:at] + spice + raw[at + dice.choice((0, 0, 1, 4)) :]
            server.opening = raw[: dice.choice((len(raw), len(raw), dice.randrange(len(raw))))]
            try:
                ends.add(type(ask(client)).__name__)
            except errors.JudgeError as error:
                ends.add(type(error).__name__)
    assert {"JudgeReply", "JudgeUnreachable", "ReplyNotJson"} <= ends
