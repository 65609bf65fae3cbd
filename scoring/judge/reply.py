"""Reads the body of a chat completion that came with status 200.

Accepted is one choice, ended by itself (``finish_reason`` "stop"), whose content is text; every
other 200 raises a `JudgeReplyUnusable`, which carries what it cost and what it was (``received``):
it was paid for like any other. Fields that servers add are ignored, fields that they leave out are
None. What is kept can be stored as text.

It does not read the verdict in the content, and it never looks for one in the ``reasoning`` that
some servers put beside it. Shaped by clients that took the first choice of whatever came: cut
JSON, empty lists, thinking that ate the whole budget (ADR-0006); and by replies that were billed at
their token limit and entered in no account, because they could not be used.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from scoring.judge.decoding import storable
from scoring.judge.errors import (
    JudgeReplyUnusable,
    ReplyEmpty,
    ReplyNotJson,
    ReplyReasoningOnly,
    ReplyThinkingOnly,
    ReplyTooLarge,
    ReplyTruncated,
    ReplyWrongShape,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_RAW_CHARS: Final = 16_384
MAX_NAME_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """What came with status 200. ``content`` is the unread text of a finished reply, and empty where
    the reply cannot be used; ``raw`` is the body, storable and capped.

    Token counts are None when the server does not count; ``cached_tokens`` are among the prompt's,
    ``reasoning_tokens`` among the completion's. ``latency_s`` is the time of the try that answered;
    ``tries`` counts the requests that were sent, at least 1. A reply quotes the script, so its repr
    leaves its text out.
    """

    content: str = field(repr=False)
    requested_model: str
    served_model: str | None
    system_fingerprint: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    latency_s: float
    raw: str = field(repr=False)
    status: int
    tries: int


def json_object(body: bytes) -> dict[str, object]:
    """Return the body as a JSON object, or raise `ReplyNotJson`."""
    try:
        found = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ReplyNotJson("the body of the reply is not JSON", status=200) from None
    if not isinstance(found, dict):
        raise ReplyNotJson("the body of the reply is JSON, but no object", status=200)
    return found


def read_body(
    body: bytes, *, whole: bool, raw: str, requested_model: str, latency_s: float, tries: int
) -> JudgeReply:
    """As `read_reply`, from the bytes of the body; ``whole`` says whether all of them were read."""
    try:
        if not whole:
            raise ReplyTooLarge("the reply is larger than what is read of one", status=200)
        found = json_object(body)
    except JudgeReplyUnusable as error:
        error.received = _received(
            {}, raw=raw, requested_model=requested_model, latency_s=latency_s, tries=tries
        )
        raise
    return read_reply(
        found, raw=raw, requested_model=requested_model, latency_s=latency_s, tries=tries
    )


def read_reply(
    body: Mapping[str, object], *, raw: str, requested_model: str, latency_s: float, tries: int
) -> JudgeReply:
    """Return the one finished choice of a 200, or raise the `JudgeReplyUnusable` it amounts to."""
    received = _received(
        body, raw=raw, requested_model=requested_model, latency_s=latency_s, tries=tries
    )
    try:
        return replace(received, content=_content(body))
    except JudgeReplyUnusable as error:
        error.received = received
        raise


def _received(
    body: Mapping[str, object], *, raw: str, requested_model: str, latency_s: float, tries: int
) -> JudgeReply:
    counts = _part(body, "usage")
    return JudgeReply(
        content="",
        requested_model=requested_model,
        served_model=text_of(body.get("model")),
        system_fingerprint=text_of(body.get("system_fingerprint")),
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
        cached_tokens=_count(_part(counts, "prompt_tokens_details").get("cached_tokens")),
        reasoning_tokens=_reasoning_tokens(counts),
        latency_s=latency_s,
        raw=raw[:MAX_RAW_CHARS],
        status=200,
        tries=tries,
    )


def text_of(value: object) -> str | None:
    """Return a name or version that a server sent, storable and capped; None if it is no text."""
    return storable(value)[:MAX_NAME_CHARS] if isinstance(value, str) else None


def _content(body: Mapping[str, object]) -> str:
    choices = body.get("choices")
    if not isinstance(choices, list):
        raise ReplyWrongShape("the reply has no list of choices", status=200)
    if not choices:
        raise ReplyEmpty("the list of choices is empty", status=200)
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if len(choices) > 1 or not isinstance(message, dict):
        raise ReplyWrongShape("the reply is not one choice with one message", status=200)
    finish, content = choice.get("finish_reason"), message.get("content")
    blank = content is None or (isinstance(content, str) and not content.strip())
    if finish == "length":
        raise _cut(body, message, blank=blank)
    if blank and _reasons(message):
        raise ReplyReasoningOnly(
            "the content of the reply is blank, and its text stands in the reasoning field",
            mend="serve the model with the reasoning parser that fits it, or without thinking",
            status=200,
        )
    if blank:
        raise ReplyEmpty("the content of the reply is null or blank", status=200)
    if finish != "stop" or not isinstance(content, str):
        raise ReplyWrongShape("the reply is not a text that ended by itself", status=200)
    return content


def _cut(
    body: Mapping[str, object], message: Mapping[str, object], *, blank: bool
) -> ReplyTruncated:
    """Tell an answer that was cut from one that had not begun: the mend is another one."""
    if blank and (_reasons(message) or _reasoning_tokens(_part(body, "usage"))):
        return ReplyThinkingOnly(
            "thinking took all the tokens of the reply",
            mend="switch thinking off, or raise JUDGE_MAX_TOKENS",
            status=200,
        )
    return ReplyTruncated(
        "the reply was cut at its token limit",
        mend="raise JUDGE_MAX_TOKENS or the context length of the server",
        status=200,
    )


def _reasons(message: Mapping[str, object]) -> bool:
    """Whether there is text beside the content, under either of the names that servers use."""
    said = (message.get("reasoning"), message.get("reasoning_content"))
    return any(isinstance(text, str) and text.strip() for text in said)


def _reasoning_tokens(counts: Mapping[str, object]) -> int | None:
    return _count(_part(counts, "completion_tokens_details").get("reasoning_tokens"))


def _part(body: Mapping[str, object], name: str) -> dict[str, object]:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None
