"""Requests that a real vLLM 0.32 refuses with 400: what is changed, and the error's type and param.

Seen at a real server; tests/scoring/judge/test_contract.py sends each to the server under test. Not
every request that is refused is here. Shaped by a stand-in that took a temperature of 3.
"""

from __future__ import annotations

import math
from typing import Any

from tests.scoring.judge.served import SMALL, schema_format

MESSAGES = "body.messages.0.ChatCompletionDeveloperMessageParam"
FORMAT = "body.response_format"
BODY, FACT = "Bad Request", "BadRequestError"
"""The two types of a 400: of a body that is not well-formed, and of a value that cannot be served."""

REFUSED: list[tuple[dict[str, Any], str, str | None]] = [
    ({"model": 5}, BODY, "body.model"),
    ({"messages": None}, BODY, "body.messages"),
    ({"messages": "hi"}, BODY, "body.messages"),
    ({"messages": []}, FACT, None),
    ({"messages": ["hi"]}, BODY, MESSAGES),
    ({"messages": [{"content": "no role"}]}, BODY, f"{MESSAGES}.role"),
    ({"messages": [{"role": "user", "content": 3}]}, BODY, f"{MESSAGES}.content"),
    ({"temperature": "hot"}, BODY, "body.temperature"),
    ({"temperature": -1}, FACT, "temperature"),
    ({"temperature": 3}, FACT, "temperature"),
    ({"temperature": math.nan}, FACT, "temperature"),
    ({"top_p": 0}, FACT, "top_p"),
    ({"top_p": 2}, FACT, "top_p"),
    ({"presence_penalty": 9}, FACT, None),
    ({"frequency_penalty": -9}, FACT, None),
    ({"repetition_penalty": 0}, FACT, None),
    ({"n": 0}, FACT, None),
    ({"n": 2, "temperature": 0}, FACT, None),
    ({"seed": "x"}, BODY, "body.seed"),
    ({"seed": 2**70}, BODY, "body.seed"),
    ({"max_tokens": "many"}, BODY, "body.max_tokens"),
    ({"max_tokens": 1.5}, BODY, "body.max_tokens"),
    ({"max_tokens": 0}, FACT, "max_tokens"),
    ({"max_completion_tokens": 0}, FACT, "max_tokens"),
    ({"logprobs": True, "top_logprobs": 21}, FACT, "logprobs"),
    ({"logprobs": True, "top_logprobs": -1}, FACT, "logprobs"),
    ({"top_logprobs": 5}, FACT, "top_logprobs"),
    ({"chat_template_kwargs": "x"}, BODY, "body.chat_template_kwargs"),
    ({"response_format": "json"}, BODY, FORMAT),
    ({"response_format": {"type": "wibble"}}, BODY, f"{FORMAT}.type"),
    ({"response_format": {"type": "json_schema"}}, FACT, "response_format"),
    ({"response_format": schema_format(None)}, FACT, None),
    ({"response_format": schema_format([])}, BODY, f"{FORMAT}.json_schema.schema"),
    ({"response_format": schema_format({"type": "wibble"})}, FACT, None),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SMALL}}},
        BODY,
        f"{FORMAT}.json_schema.name",
    ),
    ({"structured_outputs": {}}, FACT, None),
    ({"structured_outputs": {"choice": []}}, FACT, None),
    ({"structured_outputs": {"choice": ["a"], "regex": "b"}}, FACT, None),
    # the first of two faults is the one that is named
    ({"presence_penalty": 9, "temperature": 3}, FACT, None),
    ({"temperature": 3, "max_tokens": 0}, FACT, "temperature"),
    (
        {"temperature": -1, "response_format": schema_format({"type": "wibble"})},
        FACT,
        "temperature",
    ),
]
