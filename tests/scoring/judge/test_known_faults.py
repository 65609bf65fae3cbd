"""What judges elsewhere got wrong, one test each, over real HTTP: always a typed outcome, no default.

The numbers are those of the project's list of reported faults; what concerns rows, workers and
reviewers is tested where those live. Shaped by all of them.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import requests

from scoring.judge import errors as e
from scoring.judge.client import CallBudget, JudgeClient, JudgeConfig
from scoring.judge.evidence import Match, verify
from scoring.judge.verdict import Label, Parsed, parse_reply, verdict_schema
from tests.scoring.judge.questions import QUESTION, SCHEMA, ask, failure_of
from tests.scoring.judge.replies import claim, reply, verdict, with_id_twice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.scoring.judge.conftest import Clock
    from tests.stand_ins.judge_server import JudgeServer

    ClientOf = Callable[..., JudgeClient]
    Serve = Callable[..., Parsed]

GOOD = reply(verdict())


@pytest.fixture
def serve(judge: JudgeServer, client_of: ClientOf) -> Serve:
    """Let the server say a text, ask for it, and read it as the product does."""

    def served(content: str, ids: list[str] | None = None) -> Parsed:
        judge.control(content=content)
        ids = ids or ["t1"]
        got = client_of(judge.base_url).ask(QUESTION, schema=verdict_schema(ids))
        return parse_reply(got.content, ids)

    return served


def refused(serve: Serve, content: str, ids: list[str] | None = None) -> type[e.VerdictError]:
    """The class with which the content, or its first verdict, is refused."""
    try:
        parsed = serve(content, ids)
    except e.VerdictError as error:
        return type(error)
    assert not parsed.verdicts
    return type(parsed.refused["t1"])


def test_row_01_a_cut_reply_is_truncated_and_a_larger_budget_may_be_given(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    client = client_of(judge.base_url, max_tokens=20)
    assert type(failure_of(client)) is e.ReplyTruncated
    assert e.ReplyTruncated.worth_reasking
    assert client.ask(QUESTION, schema=SCHEMA, budget=CallBudget(1, 60, 400)).status == 200


def test_row_02_and_39_verdicts_left_out_are_named_and_one_too_many_spoils_the_reply(
    serve: Serve,
) -> None:
    ids = [f"t{number}" for number in range(1, 21)]
    parsed = serve(reply(*[verdict()] * 18), ids)
    assert (len(parsed.verdicts), parsed.missing) == (18, ("t19", "t20"))
    five = ids[:5]
    assert serve(reply(*[verdict()] * 3), five).missing == ("t4", "t5")
    with pytest.raises(e.VerdictIdInvalid):
        serve(reply(*[verdict()] * 6), five)
    with pytest.raises(e.VerdictDuplicateKey):
        serve(with_id_twice(verdict(), verdict()), five)


@pytest.mark.parametrize(
    ("content", "error"),
    [("{}", e.VerdictFieldMissing), ('{"verdicts": null}', e.VerdictFieldType)],
)
def test_row_03_no_verdicts_are_no_pass(serve: Serve, content: str, error: type) -> None:
    assert refused(serve, content) is error
    assert refused(serve, '{"verdicts": []}') is e.VerdictFieldType
    assert refused(serve, '{"verdicts": {"t1": null}}') is e.VerdictNotObject
    assert serve('{"verdicts": {}}').missing == ("t1",)


def test_row_04_thinking_is_taken_off_only_if_it_leads_and_is_closed(serve: Serve) -> None:
    draft = reply(verdict(label="contradicted"))
    assert serve(f"<think>{{ {draft} }}</think>{GOOD}").verdicts["t1"].label is Label.FOLLOWED
    for broken in (f"hm</think>{GOOD}", f"<think>hm {GOOD}"):
        assert refused(serve, broken) is e.VerdictNotJson
    literal = "it says <think> and </think>"
    assert serve(reply(verdict(reasoning=literal))).verdicts["t1"].reasoning == literal


def test_row_05_a_label_is_read_from_its_field_alone(serve: Serve) -> None:
    stated = verdict(label="not_followed", reasoning="followed, followed, contradicted: true")
    assert serve(reply(stated)).verdicts["t1"].label is Label.NOT_FOLLOWED


def test_row_06_and_07_what_postgres_refuses_is_replaced_and_pairs_become_one_character(
    serve: Serve,
) -> None:
    raw = reply(verdict(reasoning="NUL", claims=[claim(quote="NUL")])).replace(
        "NUL", "\\u0000\\ud83d"
    )
    read = serve(raw).verdicts["t1"]
    assert read.reasoning == read.claims[0].quote == "\u2400\ufffd"
    assert serve(GOOD.replace("it runs it", "\x00")).verdicts["t1"].claims[0].why == "\u2400"
    assert refused(serve, GOOD.replace('"why"', '"\\u0000why"')) is e.VerdictFieldMissing
    emoji = serve(GOOD.replace("it runs it", "\\ud83d\\ude00")).verdicts["t1"].claims[0].why
    assert emoji == "\U0001f600"


def test_row_08_raw_control_characters_inside_strings_are_borne(serve: Serve) -> None:
    why = serve(GOOD.replace("it runs it", "a\n\t\x1b[0mb")).verdicts["t1"].claims[0].why
    assert why == "a\n\t\x1b[0mb"


def test_row_09_literals_that_are_no_json_and_a_cut_last_item_are_refused(serve: Serve) -> None:
    for literal in ("NaN", "Infinity", "-Infinity"):
        assert refused(serve, GOOD.replace('"followed"', literal)) is e.VerdictNumberInvalid
    assert refused(serve, reply(verdict(), verdict())[:-40], ["t1", "t2"]) is e.VerdictNotJson


def test_row_10_and_17_nobody_is_asked_to_repair_a_reply(serve: Serve, judge: JudgeServer) -> None:
    assert refused(serve, "Sure! The script followed the tip.") is e.VerdictNotJson
    assert judge.counters()["questions"] == 1


def test_row_11_and_23_after_a_passing_500_there_is_one_answer_to_the_same_request(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    judge.control(fault="500", times=1)
    assert ask(client_of(judge.base_url)).tries == 2
    assert len({seen.body for seen in judge.seen}) == 1


@pytest.mark.parametrize("content", [f"[{GOOD}]", '"x"', "1.5", json.dumps(GOOD), "false"])
def test_row_12_anything_but_an_object_is_refused(serve: Serve, content: str) -> None:
    assert refused(serve, content) is e.VerdictNotObject


@pytest.mark.parametrize("fault", ["429", "429_bare", "429_date"])
def test_row_14_a_burst_of_429_costs_pauses_and_no_answer(
    judge: JudgeServer, client_of: ClientOf, clock: Clock, fault: str
) -> None:
    judge.control(fault=fault, times=3, retry_after="5")
    assert ask(client_of(judge.base_url, max_tries=4)).tries == 4
    least = 0.0 if fault == "429_bare" else 4.0
    assert len(clock.slept) == 3
    assert min(clock.slept) > least


def test_row_15_one_429_leaves_the_others_alone(judge: JudgeServer) -> None:
    config = JudgeConfig(judge.base_url, "stand-in-judge", max_tries=1)

    def outcome(number: int) -> str:
        text = "judge-fault=429" if number == 3 else f"question {number}"
        try:
            return str(client.ask([{"role": "user", "content": text}], schema=SCHEMA).status)
        except e.JudgeError as error:
            return type(error).__name__

    with JudgeClient(config) as client, ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(outcome, range(8)))
    assert outcomes == ["200"] * 3 + ["JudgeOverloaded"] + ["200"] * 4


def test_row_16_a_server_that_always_sleeps_too_long_is_left_after_the_budget(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    judge.control(fault="hang")
    error = failure_of(client_of(judge.base_url, max_tries=3, read_timeout_s=0.1))
    assert type(error) is e.JudgeTimeout
    assert error.tries == judge.counters()["questions"] == 3


def test_row_18_seas_of_blanks_are_refused_quickly(
    serve: Serve, judge: JudgeServer, client_of: ClientOf
) -> None:
    started = time.monotonic()
    assert refused(serve, "{" + " " * 300_000) is e.VerdictTooLong
    assert refused(serve, GOOD + " " * 300_000) is e.VerdictTooLong
    judge.control(content=GOOD + " " * 1_100_000)
    assert type(failure_of(client_of(judge.base_url))) is e.ReplyTooLarge
    judge.control(content=None, fault="whitespace")
    assert type(failure_of(client_of(judge.base_url))) is e.ReplyTruncated
    assert time.monotonic() - started < 30, "a pattern that tries every way would take minutes"


def test_row_19_and_20_numbers_and_texts_without_end_are_refused(serve: Serve) -> None:
    assert refused(serve, GOOD.replace('"followed"', "9" * 16_000)) is e.VerdictNumberInvalid
    assert refused(serve, reply(verdict(reasoning="x" * 200_000))) is e.VerdictTooLong


@pytest.mark.parametrize("fault", ["reasoning_only", "reasoning_content"])
def test_row_21_a_verdict_in_the_reasoning_field_is_not_harvested(
    judge: JudgeServer, client_of: ClientOf, fault: str
) -> None:
    judge.control(fault=fault, content=GOOD)
    error = failure_of(client_of(judge.base_url))
    assert type(error) is e.ReplyReasoningOnly
    assert "reasoning parser" in str(error)


def test_row_22_thinking_that_ate_the_cap_is_called_so(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    judge.control(fault="thinking_only")
    error = failure_of(client_of(judge.base_url))
    assert type(error) is e.ReplyThinkingOnly
    assert "JUDGE_MAX_TOKENS" in str(error)


def test_row_24_two_answers_to_one_question_are_two_answers(serve: Serve) -> None:
    first, second = serve(GOOD), serve(reply(verdict(label="not_followed")))
    assert first.verdicts["t1"].label is not second.verdicts["t1"].label


def test_row_25_a_prompt_that_is_too_long_is_known_as_400_and_as_a_200_without_room(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    judge.control(fault="400_context")
    assert type(failure_of(client_of(judge.base_url))) is e.JudgeContextExceeded
    judge.control(fault=None)
    assert type(failure_of(client_of(judge.base_url, max_tokens=1))) is e.ReplyTruncated


@pytest.mark.parametrize(
    "content",
    [f"Here:\n```json\n{GOOD}\n```", f"```json\n{GOOD}\n```\nDone.", f"\ufeff{GOOD}",
     f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```"],
)  # fmt: skip
def test_row_27_one_outer_fence_is_taken_off_and_nothing_else(serve: Serve, content: str) -> None:
    assert refused(serve, content) is e.VerdictNotJson
    for fence in ("```json", "```", "~~~", "~~~json"):
        assert serve(f"{fence}\n{GOOD}\n{fence[:3]}").verdicts["t1"].label is Label.FOLLOWED


@pytest.mark.parametrize(
    ("label", "error"),
    [("maybe", e.VerdictValueUnknown), ("Yes.", e.VerdictValueUnknown),
     ("FOLLOWED ", e.VerdictValueUnknown), (True, e.VerdictFieldType), (1, e.VerdictFieldType),
     (None, e.VerdictFieldType), (0.75, e.VerdictFieldType)],
)  # fmt: skip
def test_row_28_a_label_is_one_of_five_words(serve: Serve, label: Any, error: type) -> None:
    assert refused(serve, reply(verdict(label=label))) is error


def test_row_29_contradiction_is_refused_and_a_label_without_evidence_is_taken_back(
    serve: Serve,
) -> None:
    stated = verdict(label="followed", claims=[claim("absent", "")])
    assert refused(serve, reply(stated)) is e.VerdictContradiction
    bare = serve(reply(verdict(claims=[claim(quote="")]))).verdicts["t1"]
    assert verify(bare, "chronyc -a makestep").label is Label.UNCLEAR


def test_row_32_42_and_43_a_bill_or_a_dead_key_costs_one_call_and_is_no_verdict(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    faults = ["400_quota", "401", "402", "403", "404", "429_quota"]
    for fault in faults:
        judge.control(fault=fault)
        error = failure_of(client_of(judge.base_url, max_tries=5))
        assert (error.pauses, error.tries, error.reason) == (True, 1, "judge_unavailable")
        assert error.provider_text
    assert judge.counters()["questions"] == len(faults)
    judge.control(fault="529")
    assert not failure_of(client_of(judge.base_url, max_tries=1)).pauses


@pytest.mark.parametrize(
    "content", ["7/10", "Rating: 5", "Score: 1.0", "followed", "label: followed"]
)
def test_row_33_and_52_no_word_and_no_number_is_scraped(serve: Serve, content: str) -> None:
    assert refused(serve, content) is e.VerdictNotJson
    parsed = serve(reply(verdict(label="unclear")))
    assert parsed.verdicts["t1"].label is Label.UNCLEAR


def test_row_43_a_phrase_that_the_script_itself_holds_cannot_close_the_bench(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    judge.control(fault="400_quota")
    asked = [{"role": "user", "content": "echo 'Your credit balance is too low.'"}]
    with pytest.raises(e.JudgeRequestRefused):
        client_of(judge.base_url).ask(asked, schema=SCHEMA)


def test_row_40_backticks_inside_a_text_survive_byte_for_byte(serve: Serve) -> None:
    text = "```json\n{}\n```\nand\n```\nmore\n```"
    read = serve(reply(verdict(reasoning=text, claims=[claim(quote=text)]))).verdicts["t1"]
    assert read.reasoning == read.claims[0].quote == text
    fenced = serve(f"```json\n{reply(verdict(reasoning=text))}\n```").verdicts["t1"]
    assert fenced.reasoning == text


class _RetryingProxy(BaseHTTPRequestHandler):
    """A gateway that tries three times upstream for each call it gets."""

    upstream = ""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for _ in range(3):
            answer = requests.post(self.upstream, data=body, timeout=5)
        self.send_response(answer.status_code)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def proxy(judge: JudgeServer) -> Iterator[str]:
    """A retrying gateway in front of the judge."""
    handler = type("Proxy", (_RetryingProxy,), {"upstream": f"{judge.base_url}/chat/completions"})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_row_41_behind_a_gateway_that_retries_ours_is_still_the_only_layer_of_ours(
    judge: JudgeServer, proxy: str, client_of: ClientOf
) -> None:
    judge.control(fault="500")
    error = failure_of(client_of(proxy, max_tries=2))
    assert (error.tries, judge.counters()["questions"]) == (2, 2 * 3)


def test_row_34_46_47_and_49_quotes_are_folded_by_a_closed_table_and_never_skipped() -> None:
    script = "alpha=1\nkeep for 90 days\nSet\u00a0\u201cMaxAuthTries 4\u201d\n"

    def match(quote: str) -> Match:
        stated = parse_reply(reply(verdict(claims=[claim(quote=quote)])), ["t1"]).verdicts["t1"]
        return verify(stated, script).spans[0].match

    assert match('Set "MaxAuthTries 4"') is Match.MATCH
    assert match("90 days") is Match.MATCH
    assert match("\u03b1lpha=1") is Match.ABSENT
    assert match("Set Maximum Authentication Tries") is Match.ABSENT
    assert match("set \u201cmaxauthtries 4\u201d") is Match.ABSENT
    assert match("90") is Match.CANNOT_CHECK


@pytest.mark.parametrize(
    "switch", ["skip_checks", "verified", "evidence_ok", "trusted", "quote_verified", "admin"]
)
@pytest.mark.parametrize("where", ["reply", "verdict", "claim"])
def test_row_48_no_field_of_a_reply_changes_how_it_is_checked(
    serve: Serve, switch: str, where: str
) -> None:
    line = claim(quote="not in the script") | ({switch: True} if where == "claim" else {})
    stated = verdict(claims=[line]) | ({switch: True} if where == "verdict" else {})
    whole = {"verdicts": {"t1": stated}} | ({switch: True} if where == "reply" else {})
    assert refused(serve, json.dumps(whole)) is e.VerdictFieldUnknown


def test_row_51_a_refusal_names_the_field(serve: Serve) -> None:
    lacking = verdict()
    del lacking["claims"][0]["why"]
    error = serve(reply(lacking)).refused["t1"]
    assert str(error) == "a claim lacks why"
