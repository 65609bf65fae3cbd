"""What an OpenAI-compatible judge says: validation, bodies and answers of the stand-in, no HTTP.

Status, error type, error param and key sets are those recorded from a real vLLM 0.32 (checked by
tests/scoring/judge/test_contract.py). Unlike vLLM, unknown request fields are refused, so that a
typo of ours is seen, and streams are not served, because the client never asks for one.

The answer is a pure function of the request: of its schema, and of the tips and the script in the
last user message; `judge_answers` writes it. It is not a judgement and must never be shown as one.
Shaped by stand-ins that answered by call order, so that a retry or a reordering changed what a test
saw.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from tests.stand_ins.judge_fields import (
    Refusal,
    bad_body,
    bad_request,
    check_ranges,
    check_types,
    checked_limit,
    error,
)

CREATED = 1_790_000_000
FINGERPRINT = "stand-in-1"
CHARS_PER_TOKEN = 4
MAX_TOKEN_CHARS = 64
"""Longest token; a prompt of more characters than that a token is not even counted."""

KNOWN_FIELDS = frozenset(
    {
        "model", "messages", "temperature", "max_tokens", "max_completion_tokens", "seed",
        "response_format", "structured_outputs", "logprobs", "top_logprobs", "n", "stop", "top_p",
        "presence_penalty", "frequency_penalty", "repetition_penalty", "chat_template_kwargs",
        "truncate_prompt_tokens", "stream",
    }
)  # fmt: skip
KINDS = frozenset({"json", "regex", "choice", "grammar", "json_object", "structural_tag"})
FORMATS = frozenset({"date", "date-time", "email", "ipv4", "ipv6", "time", "uri", "uuid"})

_BLOCK = re.compile(
    r"\[\[(SCRIPT|TIP(?: \w+)?) (\S+) BEGIN\]\]\n(.*?)\n\[\[\1 \2 END\]\]", re.DOTALL
)
_FAULT = re.compile(r"judge-fault=(\w+)")


@dataclass
class Question:
    """A valid chat request: its fields, and what its last user message holds.

    ``tips`` maps the ids of the tips to their texts; a message without fences is one nameless tip.
    """

    fields: dict[str, Any]
    text: str
    tips: dict[str, str]
    script: str
    prompt_tokens: int
    max_tokens: int
    schema: dict[str, Any] | None = None
    choices: list[str] = field(default_factory=list)

    @property
    def digests(self) -> list[str]:
        """Identify the pairs that are asked about, whatever fences stand around them."""
        pairs = [f"{tip}\x00{self.script}" for tip in self.tips.values()]
        return [hashlib.sha256(pair.encode()).hexdigest() for pair in pairs]

    @property
    def digest(self) -> str:
        """Identifies the question as a whole."""
        return hashlib.sha256("".join(self.digests).encode()).hexdigest()

    @property
    def fault(self) -> str | None:
        """The fault that the request asks for by a marker in its text."""
        found = _FAULT.search(self.text)
        return found[1] if found else None


def read_question(raw: bytes, *, model: str, max_model_len: int) -> Question:
    """Validate a chat request in the order of the real server; raises `Refusal`."""
    fields = _decoded(raw)
    check_types(fields)
    messages, wanted = fields["messages"], _wanted(fields)
    if unknown := sorted(fields.keys() - KNOWN_FIELDS):
        raise bad_request(f"unknown field {unknown[0]}", unknown[0])
    if fields.get("stream"):
        raise bad_request("the stand-in does not stream", "stream")
    if (fields.get("model") or model) != model:
        absent = f"The model `{fields['model']}` does not exist. Valid aliases: {model}."
        raise error(404, "NotFoundError", absent, "model")
    limit = checked_limit(fields, max_model_len)
    if not messages:
        raise bad_request("Cannot apply chat template to an empty conversation.")
    prompt_tokens = _prompt_tokens(fields, max_model_len)
    if wanted == {}:
        raise bad_request("You must use one kind of structured outputs constraint")
    check_ranges(fields)
    schema, choices = _constraint(wanted or {})
    text = next((str(m.get("content")) for m in reversed(messages) if m.get("role") == "user"), "")
    blocks = [(name, inside) for name, _, inside in _BLOCK.findall(text)]
    tips = {name[4:]: inside for name, inside in blocks if name != "SCRIPT"}
    room = max_model_len - prompt_tokens
    return Question(
        fields=fields,
        text=text,
        tips=tips or {"": text},
        script=dict(blocks).get("SCRIPT", ""),
        prompt_tokens=prompt_tokens,
        max_tokens=min(room, limit) if limit else room,
        schema=schema,
        choices=choices,
    )


def _prompt_tokens(fields: dict[str, Any], max_model_len: int) -> int:
    """Count; refuse what is hopelessly long before it is counted, as the real server does."""
    chars = sum(len(str(message.get("content"))) for message in fields["messages"])
    cut = fields.get("truncate_prompt_tokens")
    count = count_tokens(fields["messages"])
    if cut:
        return min(count, int(cut))
    if chars > max_model_len * MAX_TOKEN_CHARS:
        raise bad_request("The prompt exceeds the model's context length.", "input_text")
    if count > max_model_len:
        raise bad_request("The prompt exceeds the model's context length.", "input_tokens")
    if count == max_model_len:
        raise bad_request("max_tokens must be at least 1, got 0.", "max_tokens")
    return count


def _decoded(raw: bytes) -> dict[str, Any]:
    if not raw:
        raise bad_body("Field required", "body")
    try:
        found = json.loads(raw)
    except json.JSONDecodeError as exc:
        raise bad_body("JSON decode error", f"body.{exc.pos}") from None
    except UnicodeDecodeError:
        raise Refusal(400, {"detail": "There was an error parsing the body"}) from None
    if not isinstance(found, dict):
        raise bad_body("not an object", "body")
    return found


def _wanted(fields: dict[str, Any]) -> dict[str, Any] | None:
    """Return the one constraint by its kind, {} where one is announced and absent, None where none is."""
    wanted = dict(fields.get("structured_outputs") or {})
    form = fields.get("response_format") or {}
    if form.get("type") == "json_schema":
        wanted["json"] = form["json_schema"].get("schema")
    elif fields.get("structured_outputs") is None:
        return None
    found = {kind: wanted[kind] for kind in sorted(KINDS) if wanted.get(kind) is not None}
    if len(found) > 1:
        raise bad_request("You can only use one kind of structured outputs constraint")
    return found


def _constraint(wanted: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the schema or the list of texts that the answer must obey."""
    if wanted.get("choice") == []:
        raise bad_request("Choice '[]' cannot be an empty list")
    if "json" in wanted:
        _check_schema(wanted["json"])
        return wanted["json"], []
    if "regex" in wanted:  # alternatives only: what a judge would ask for
        return None, str(wanted["regex"]).strip("()").split("|")
    return None, list(wanted.get("choice") or [])


def _check_schema(schema: Any) -> None:
    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as exc:
        raise bad_request(f"Grammar error: {exc.message}") from None
    formats = re.findall(r'"format": "([^"]*)"', json.dumps(schema))
    if set(formats) - FORMATS:
        raise bad_request("The provided JSON schema contains features not supported.")


def count_tokens(messages: list[dict[str, Any]]) -> int:
    """Four characters a token: no tokenizer, but monotone, and the same every time."""
    return sum(len(str(message.get("content"))) // CHARS_PER_TOKEN + 1 for message in messages)


def completion(
    question: Question, *, model: str, content: str, finish: str = "stop"
) -> dict[str, Any]:
    """Build the body of a 200, with the null extras that the real server sends."""
    number = question.fields.get("n") or 1
    used = max(1, -(-len(content) // CHARS_PER_TOKEN))  # a cut reply has max_tokens, not one more
    usage = {
        "prompt_tokens": question.prompt_tokens,
        "total_tokens": question.prompt_tokens + used * number,
        "completion_tokens": used * number,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }
    body: dict[str, Any] = {
        "id": f"chatcmpl-{question.digest[:16]}",
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [_choice(i, content, finish, question) for i in range(number)],
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": usage,
    }
    nulls = ("prompt_logprobs", "prompt_token_ids", "prompt_text", "kv_transfer_params")
    return body | dict.fromkeys((*nulls, "ec_transfer_params", "metrics"))


def _choice(index: int, content: str, finish: str, question: Question) -> dict[str, Any]:
    extras = ("refusal", "annotations", "audio", "function_call", "reasoning")
    logprobs = None
    if question.fields.get("logprobs"):
        token = {"token": content[:4], "logprob": -0.1, "bytes": list(content[:4].encode())}
        logprobs = {"content": [token | {"top_logprobs": [token]}]}
    return {
        "index": index,
        "message": {"role": "assistant", "content": content} | dict.fromkeys(extras),
        "logprobs": logprobs,
        "finish_reason": finish,
        "stop_reason": None,
        "token_ids": None,
        "routed_experts": None,
    }


def models(model: str, max_model_len: int) -> dict[str, Any]:
    """Build the body of /v1/models."""
    card = {
        "id": model,
        "object": "model",
        "created": CREATED,
        "owned_by": "stand-in",
        "root": model,
        "parent": None,
        "max_model_len": max_model_len,
        "permission": [],
    }
    return {"object": "list", "data": [card]}


def tokenized(raw: bytes, max_model_len: int) -> dict[str, Any]:
    """Build the body of /tokenize."""
    count = count_tokens(_decoded(raw).get("messages") or [])
    return {
        "count": count,
        "max_model_len": max_model_len,
        "tokens": list(range(count)),
        "token_strs": None,
    }
