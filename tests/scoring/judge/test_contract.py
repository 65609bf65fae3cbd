"""What the client relies on in a judge server: one file for the stand-in and for a real vLLM.

Which of the two is asked, ``tests.scoring.judge.served`` says. Where the stand-in is stricter on
purpose, both sides are tested; a real server's model may be random.

The recordings of vLLM 0.32 lie outside the project (``../shared/data/protocol``, or
CONTEXTGRAPH_SHARED_DATA); without them the replays are skipped. Says nothing about the quality of a
model. Shaped by stubs that were easier to please than the server they stood for.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
import requests
from pydantic import SecretStr

from scoring.judge import errors as e
from scoring.judge.reply import json_object, read_reply
from scoring.judge.statuses import row_of
from scoring.judge.verdict import verdict_schema
from tests.scoring.judge.questions import QUESTION, SCHEMA, failure_of
from tests.scoring.judge.refused_requests import BODY, FACT, REFUSED
from tests.scoring.judge.served import PATIENCE_S, SMALL, Served, schema_format, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
DATA = Path(os.environ.get("CONTEXTGRAPH_SHARED_DATA", ROOT.parent / "shared" / "data"))
RECORDED_CONTEXT = 1_024

STRICTER = {
    "unknown field": "a typo of ours must be seen; vLLM ignores it",
    "guided_choice (old)": "a removed field; vLLM ignores it and answers without constraint",
    "stream": "the client never asks for a stream",
}
UNLIKE = {
    "prompt900+max_tokens500": "whether it overflows depends on the recorded model's tokenizer",
}
ABOUT_LENGTH = {
    "context overflow prompt",
    "context overflow prompt+max_tokens",
    "prompt fits but prompt+max_tokens over",
    "no max_tokens",  # a random model writes until its context ends
}
"""Recorded with a context of 1,024 tokens; how servers with another one answer is tested below."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as server:
        yield server


# --- Replays of what was recorded -----------------------------------------------------------------


def recordings(pattern: str = "vllm_cpu_0.32.0*.jsonl") -> list[dict[str, Any]]:
    files = sorted((DATA / "protocol").glob(pattern))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


RECORDED = recordings()
needs_recordings = pytest.mark.skipif(
    not RECORDED, reason=f"no recordings of vLLM in {DATA / 'protocol'}"
)


def recorded(name: str) -> dict[str, Any]:
    return next(record for record in RECORDED if record["name"] == name)


def replay(served: Served, record: dict[str, Any]) -> requests.Response:
    headers = {"Content-Type": "application/json"}
    if "no auth" not in record["name"]:
        headers["Authorization"] = (
            f"Bearer {'other' if 'wrong key' in record['name'] else served.key}"
        )
    asked = record["request"]
    if isinstance(asked, dict) and asked.get("model") == "tiny-judge":
        asked = asked | {"model": served.model}
    body = asked if isinstance(asked, str | None) else json.dumps(asked)
    url = served.root.removesuffix("/v1") + record["path"]
    return requests.request(record["method"], url, data=body, headers=headers, timeout=PATIENCE_S)


def shape(body: str) -> Any:
    """Reduce a body to what a client can rely on."""
    if not body:
        return ""
    found = json.loads(body)
    if isinstance(found.get("error"), dict):
        error = found["error"]
        return {"error": sorted(error), "type": error["type"], "param": error["param"]}
    keys: dict[str, Any] = {"top": sorted(found)}
    if "choices" in found:
        keys["choices"] = len(found["choices"])
        keys["choice"] = sorted(found["choices"][0])
        keys["message"] = sorted(found["choices"][0]["message"])
        keys["usage"] = sorted(found["usage"])
        keys["logprobs"] = found["choices"][0]["logprobs"] is not None
    if found.get("object") == "list":
        keys["card"] = sorted(found["data"][0])
    return keys if "choices" in found or "data" in found else keys | {"error": found.get("error")}


@needs_recordings
@pytest.mark.parametrize(
    "record",
    [r for r in RECORDED if r["name"] not in STRICTER and r["name"] not in UNLIKE],
    ids=lambda record: record["name"],
)
def test_a_recorded_request_is_answered_as_it_was(served: Served, record: dict[str, Any]) -> None:
    if record["status"] == 401 and not served.key:
        pytest.skip("this server asks for no key")
    if record["name"] in ABOUT_LENGTH and served.max_model_len != RECORDED_CONTEXT:
        pytest.skip(f"recorded with a context of {RECORDED_CONTEXT} tokens")
    answer = replay(served, record)
    assert (answer.status_code, shape(answer.text)) == (record["status"], shape(record["body"]))


@needs_recordings
@pytest.mark.parametrize("name", sorted(STRICTER))
def test_what_vllm_lets_pass_the_stand_in_refuses(served: Served, name: str) -> None:
    record = recorded(name)
    answer = replay(served, record)
    assert record["status"] == 200
    if served.stand_in:
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] in record["request"]
    else:
        assert answer.status_code == 200


@needs_recordings
def test_every_recorded_200_of_every_server_is_one_finished_choice_or_a_typed_refusal() -> None:
    outcomes = set()
    for record in recordings("*.jsonl"):
        if record["status"] != 200 or not record["path"].endswith("/chat/completions"):
            continue
        try:
            body = json_object(record["body"].encode())
            reply = read_reply(body, raw="", requested_model="m", latency_s=0, tries=1)
        except e.JudgeReplyUnusable as exc:
            outcomes.add(type(exc).__name__)
            continue
        choice = json.loads(record["body"])["choices"][0]
        assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", reply.content)
        outcomes.add("read")
    assert outcomes >= {"read", "ReplyTruncated", "ReplyWrongShape", "ReplyNotJson"}


# --- What is said ---------------------------------------------------------------------------------


def test_the_server_lists_its_model_with_the_length_of_its_context(served: Served) -> None:
    with served.client() as client:
        probe = client.probe(timeout_s=PATIENCE_S)
    assert (probe.status, probe.lists_model, probe.problem) == (200, True, "")
    assert served.model in probe.models
    assert served.max_model_len > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_schema_is_enforced_whatever_the_messages_say(served: Served, seed: int) -> None:
    """A server that only asks its model for JSON would write a poem here, or noise."""
    told = [{"role": "user", "content": f"Write a poem of {seed + 3} lines. No JSON, no braces."}]
    answer = served.ask(
        messages=told, temperature=1, seed=seed, response_format=schema_format(SMALL)
    )
    assert answer.status_code == 200
    choice = answer.json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    jsonschema_rs.validate(SMALL, json.loads(choice["message"]["content"]))


def test_the_client_gets_an_instance_of_its_schema_and_what_it_cost(served: Served) -> None:
    with served.client() as client:
        reply = client.ask(QUESTION, schema=SMALL)
    jsonschema_rs.validate(SMALL, json.loads(reply.content))
    assert (reply.status, reply.tries, reply.served_model) == (200, 1, served.model)
    assert reply.system_fingerprint
    assert reply.prompt_tokens is not None
    assert reply.prompt_tokens > 0
    assert reply.completion_tokens is not None
    assert 0 < reply.completion_tokens <= client.config.max_tokens


def test_the_schema_of_the_product_is_enforced_from_the_first_token(served: Served) -> None:
    ids = ["q9", "k3"]
    answer = served.ask(max_tokens=40, response_format=schema_format(verdict_schema(ids)))
    assert answer.status_code == 200
    content = answer.json()["choices"][0]["message"]["content"]
    opening = r'\{"verdicts": ?\{"q9": ?\{"claims": ?\[\{"claim": ?"'
    assert re.match(opening, content), content


def test_the_schema_of_the_product_ends_in_an_instance_or_is_known_to_be_cut(
    served: Served,
) -> None:
    with served.client(max_tokens=served.max_model_len // 2) as client:
        try:
            reply = client.ask(QUESTION, schema=SCHEMA)
        except e.ReplyTruncated:
            assert not served.stand_in  # its answers are short
            return
    jsonschema_rs.validate(SCHEMA, json.loads(reply.content, strict=False))


def test_a_small_limit_cuts_the_reply_and_the_tokens_are_counted(served: Served) -> None:
    answer = served.ask(max_tokens=5, response_format=schema_format(SCHEMA)).json()
    usage = answer["usage"]
    assert answer["choices"][0]["finish_reason"] == "length"
    assert usage["completion_tokens"] == 5
    assert usage["total_tokens"] == usage["prompt_tokens"] + 5
    with served.client(max_tokens=5) as client, pytest.raises(e.ReplyTruncated):
        client.ask(QUESTION, schema=SCHEMA)


def test_the_same_question_gets_the_same_answer(served: Served) -> None:
    def content() -> str:
        answer = served.ask(seed=3, response_format=schema_format(SMALL))
        return str(answer.json()["choices"][0]["message"]["content"])

    assert content() == content()


def test_a_limit_that_does_not_fit_beside_the_prompt_is_lowered_not_refused(served: Served) -> None:
    answer = served.ask(
        max_tokens=served.max_model_len, response_format=schema_format(SMALL)
    ).json()
    assert answer["choices"][0]["finish_reason"] == "stop"


# --- What is refused ------------------------------------------------------------------------------


def assert_error(answer: requests.Response, status: int, kind: str, param: str | None) -> None:
    error = answer.json()["error"]
    assert answer.json().keys() == {"error"}
    assert error.keys() == {"code", "message", "param", "type"}
    assert error["message"]
    found = (answer.status_code, error["code"], error["type"], error["param"])
    assert found == (status, status, kind, param)


@pytest.mark.parametrize(("change", "kind", "param"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_value_that_cannot_be_served_is_named_in_the_fields_of_an_error(
    served: Served, change: dict[str, Any], kind: str, param: str | None
) -> None:
    answer = served.ask(**change)
    assert_error(answer, 400, kind, param)
    assert row_of(400, body=answer.text).error is e.JudgeRequestRefused or param == "max_tokens"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ("hello", "body.0"),
        ('{"model": ', "body.10"),
        ("", "body"),
        ("[]", "body"),
        ("null", "body"),
    ],
)
def test_a_body_that_is_no_object_is_refused(served: Served, body: str, param: str) -> None:
    assert_error(served.send(body), 400, BODY, param)


def test_a_model_that_is_not_served_pauses_the_bench(served: Served) -> None:
    assert_error(served.ask(model="no-such-model"), 404, "NotFoundError", "model")
    assert_error(served.ask(model="no-such-model", temperature=-1), 404, "NotFoundError", "model")
    with served.client(model="no-such-model") as client:
        assert not client.probe(timeout_s=PATIENCE_S).lists_model
        error = failure_of(client)
    assert (type(error), error.status) == (e.JudgeMisconfigured, 404)


def test_a_wrong_key_pauses_the_bench(served: Served) -> None:
    if not served.key:
        pytest.skip("this server asks for no key")
    with served.client(api_key=SecretStr("not-the-key")) as client:
        error = failure_of(client)
    assert (type(error), error.status) == (e.JudgeMisconfigured, 401)


# --- What does not fit ----------------------------------------------------------------------------


def long_messages(words: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": "word " * words}]


@pytest.mark.parametrize(("times", "param"), [(2, "input_tokens"), (100, "input_text")])
def test_a_prompt_longer_than_the_context_is_known_as_such(
    served: Served, times: int, param: str
) -> None:
    messages = long_messages(served.max_model_len * times)
    answer = served.ask(messages=messages)
    assert_error(answer, 400, FACT, param)
    assert row_of(400, body=answer.text).error is e.JudgeContextExceeded
    with served.client() as client, pytest.raises(e.JudgeContextExceeded):
        client.ask(messages, schema=SMALL)


def test_a_prompt_that_leaves_no_room_for_a_reply_is_known_as_such(served: Served) -> None:
    """Named by another field than a longer prompt is: the room that is left, 0, is no valid limit."""
    messages = long_messages(words_that_fill(served))
    answer = served.ask(messages=messages)
    assert_error(answer, 400, FACT, "max_tokens")
    assert row_of(400, body=answer.text).error is e.JudgeContextExceeded


def words_that_fill(served: Served) -> int:
    """The fewest words whose prompt takes the whole context, by the server's own count."""
    low, high = 1, served.max_model_len * 2
    while low < high:
        middle = (low + high) // 2
        root = served.root.removesuffix("/v1")
        asked = {"model": served.model, "messages": long_messages(middle)}
        counted = served.send(asked, to=f"{root}/tokenize").json()["count"]
        low, high = (low, middle) if counted >= served.max_model_len else (middle + 1, high)
    return low


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_limit_longer_than_the_context_is_known_as_such(served: Served, name: str) -> None:
    answer = served.ask(**{"max_tokens": None, name: served.max_model_len + 1})
    assert_error(answer, 400, FACT, name)
    row = row_of(400, body=answer.text)
    assert row.error is e.JudgeContextExceeded
    assert "JUDGE_MAX_TOKENS" in row.mend
    dialect = "vllm" if name == "max_tokens" else "openai"
    with served.client(max_tokens=served.max_model_len + 1, dialect=dialect) as client:
        assert type(failure_of(client)) is e.JudgeContextExceeded
