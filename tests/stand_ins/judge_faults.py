"""The faults that a judge server can show, by name.

`STATUS` answers with an error status, `BODY` spoils the body of a 200, `CONTENT` replaces the text
of the verdict in it. Faults of the connection (`WIRE`) are done by the server itself. Those that
a client must bear are `HARMLESS`. Every one was seen at a real server or gateway; none depends on
the order of calls.
Shaped by clients whose tests knew only 200 and 500.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.stand_ins.judge_protocol import error

if TYPE_CHECKING:
    from collections.abc import Callable


def _refusal(status: int, kind: str, message: str, param: str | None = None) -> tuple[int, Any]:
    return status, error(status, kind, message, param).body


STATUS: dict[str, tuple[int, Any]] = {
    "400": _refusal(400, "BadRequestError", "Grammar error: unknown keyword"),
    "400_context": _refusal(400, "BadRequestError", "prompt too long", "input_tokens"),
    "400_quota": _refusal(400, "invalid_request_error", "Your credit balance is too low."),
    "401": (401, {"error": "Unauthorized"}),
    "402": _refusal(402, "billing", "insufficient credit"),
    "403": _refusal(403, "Forbidden", "no access"),
    "404": _refusal(404, "NotFoundError", "no such model", "model"),
    "408": (408, {"detail": "Request Timeout"}),
    "429": _refusal(429, "rate_limit", "slow down"),
    "429_quota": (
        429,
        {"error": {"message": "no more", "type": "t", "code": "insufficient_quota"}},
    ),
    "429_date": _refusal(429, "rate_limit", "slow down"),
    "429_bare": _refusal(429, "rate_limit", "slow down"),
    "500": _refusal(500, "InternalServerError", "generation failed"),
    "501": _refusal(501, "NotImplementedError", "not with this model"),
    "502": (502, "<html>bad gateway</html>"),
    "502_huge": (502, "<html>" + "bad gateway " * 200_000),
    "503": _refusal(503, "ServiceUnavailableError", "the queue is full"),
    "529": (529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
    "redirect": (307, {}),
}
WIRE = frozenset(
    {"hang", "slow", "drip", "reset", "cut", "not_http", "bad_chunk", "chunked", "gzip"}
)
HARMLESS = frozenset(
    {"slow", "chunked", "gzip", "control_char", "fenced", "think", "usage_details"}
)


def _first(body: dict[str, Any], **message: Any) -> dict[str, Any]:
    body["choices"][0]["message"].update(message)
    return body


def _finish(body: dict[str, Any], reason: str | None, content: str | None = None) -> dict[str, Any]:
    body["choices"][0]["finish_reason"] = reason
    return body if content is None else _first(body, content=content)


def _text(body: dict[str, Any]) -> str:
    return str(body["choices"][0]["message"]["content"])


def _thought(body: dict[str, Any]) -> dict[str, Any]:
    body["usage"]["completion_tokens_details"] = {"reasoning_tokens": 300}
    return _finish(_first(body, reasoning="Let me see. " * 90), "length", "")


def _counted(body: dict[str, Any]) -> dict[str, Any]:
    body["usage"]["prompt_tokens_details"] = {"cached_tokens": 48}
    body["usage"]["completion_tokens_details"] = {"reasoning_tokens": 7}
    return body


def _edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[str], str]:
    """Change the first verdict of a reply; what the change returns takes its place, if anything."""

    def edit(text: str) -> str:
        reply = json.loads(text)
        name, verdict = next(iter(reply["verdicts"].items()))
        changed = change(verdict)
        if isinstance(changed, dict):
            reply["verdicts"][name] = changed
        return json.dumps(reply)

    return edit


def _renamed(text: str) -> str:
    """Put the first verdict under an id that nobody asked about."""
    first, *others = json.loads(text)["verdicts"].items()
    return json.dumps({"verdicts": {"nobody": first[1], **dict(others)}})


def _twice(text: str) -> str:
    """Write every id twice, which no dict can hold."""
    inside = json.dumps(json.loads(text)["verdicts"])[1:-1]
    return f'{{"verdicts": {{{inside}, {inside}}}}}'


BODY: dict[str, Callable[[dict[str, Any]], Any]] = {
    "garbage": lambda _: "<html><body>Welcome to the captive portal</body></html>",
    "json_list": lambda body: [body],
    "no_choices_key": lambda _: {"object": "error", "message": "failed with 200"},
    "empty_choices": lambda body: body | {"choices": []},
    "two_choices": lambda body: body | {"choices": body["choices"] * 2},
    "null_content": lambda body: _first(body, content=None),
    "blank_content": lambda body: _first(body, content=" \n"),
    "list_content": lambda body: _first(body, content=[{"type": "text", "text": _text(body)}]),
    "reasoning_only": lambda body: _first(body, reasoning=_text(body), content=None),
    "reasoning_content": lambda body: _first(body, reasoning_content=_text(body), content=" "),
    "thinking_only": _thought,
    "usage_details": _counted,
    "truncated": lambda body: _finish(body, "length", _text(body)[:-9]),
    "whitespace": lambda body: _finish(body, "length", "{" + "\n" * 4_000),
    "abort": lambda body: _finish(body, "abort"),
    "repetition": lambda body: _finish(body, "repetition"),
    "no_finish": lambda body: _finish(body, None),
    "huge": lambda body: _first(body, content=_text(body) + " " * 2_000_000),
}

CONTENT: dict[str, Callable[[str], str]] = {
    "control_char": lambda text: text.replace('"reasoning": "', '"reasoning": "\x01\n\x1b[0m', 1),
    "fenced": lambda text: f"```json\n{text}\n```",
    "think": lambda text: '<think>Perhaps {"verdicts": {}}?</think>\n' + text,
    "open_think": lambda text: "<think>I am not done with " + text,
    "extra_prose": lambda text: f"Here is my verdict: {text} I hope this helps.",
    "inf_number": lambda text: text.replace('"label": "', '"label": 1e999, "x": "', 1),
    "nan": lambda text: text.replace('"label": "', '"label": NaN, "x": "', 1),
    "wrong_type": _edited(lambda verdict: verdict | {"label": True}),
    "null_verdict": _edited(lambda verdict: verdict | {"label": None}),
    "wrong_label": _edited(lambda verdict: verdict | {"label": "maybe"}),
    "missing_field": _edited(lambda verdict: verdict.pop("reasoning")),
    "extra_field": _edited(lambda verdict: verdict | {"confidence": 1}),
    "duplicate_key": lambda text: text.replace('"label": "', '"label": "unclear", "label": "', 1),
    "double_encoded": lambda text: json.dumps(text),
    "no_verdicts": lambda _: '{"verdicts": {}}',
    "verdict_list": lambda text: json.dumps(
        {"verdicts": list(json.loads(text)["verdicts"].values())}
    ),
    "unknown_id": _renamed,
    "duplicate_id": _twice,
    "no_claims": _edited(lambda verdict: verdict | {"claims": []}),
    "contradiction": _edited(lambda verdict: verdict | {"label": "contradicted"}),
    "other_schema": lambda _: '{"followed": true, "reasoning": "x"}',
}

NAMES = frozenset(STATUS) | WIRE | frozenset(BODY) | frozenset(CONTENT)


def spoil(name: str | None, body: dict[str, Any]) -> Any:
    """Return the body of a 200 as the fault leaves it."""
    if name in CONTENT:
        return _first(body, content=CONTENT[name](_text(body)))
    return BODY[name](body) if name in BODY else body
