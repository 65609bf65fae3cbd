"""Which answer of a server means which error: the table, and the one function that reads it.

Guarantees: every HTTP status but 200 has exactly one class; a status that nobody foresaw is an error
that is not asked again for ever (other 4xx: refused; other 5xx: retried within the call's budget).
Bodies are read by their ``type``, ``code`` and ``param``; their wording, which changes with every
release, decides one thing only: whether a refusal is about money. A phrase that stands in our own
request is no evidence of that, because servers quote what they refuse, and a script must not be able
to close the bench. A message that speaks of money and of a rate is about money: it is tried again
after a pause either way. Shaped by 3,341 judgements that were burnt on an unpaid bill, one by one, by
a help URL with "organization" in it that made the bill look like a rate limit, and by
``requests_per_minute_per_project``, a rate that looked like a bill.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scoring.judge.errors import (
    JudgeContextExceeded,
    JudgeError,
    JudgeMisconfigured,
    JudgeOverloaded,
    JudgeQuotaExhausted,
    JudgeRequestRefused,
    JudgeServerFault,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class StatusRow:
    """One line of the table: the class of a status, and what an operator can do about it."""

    error: type[JudgeError]
    mend: str = ""


STATUS_TABLE: Final[Mapping[int, StatusRow]] = {
    401: StatusRow(JudgeMisconfigured, "check JUDGE_API_KEY"),
    402: StatusRow(JudgeQuotaExhausted, "the account at the judge server has run out"),
    403: StatusRow(JudgeMisconfigured, "the key may not use this model or address"),
    404: StatusRow(JudgeMisconfigured, "check JUDGE_MODEL and JUDGE_BASE_URL"),
    405: StatusRow(
        JudgeMisconfigured, "JUDGE_BASE_URL is not the root of an OpenAI-compatible API"
    ),
    408: StatusRow(JudgeServerFault),
    413: StatusRow(JudgeContextExceeded, "the server refuses bodies of this size"),
    425: StatusRow(JudgeServerFault),
    429: StatusRow(JudgeOverloaded),
    501: StatusRow(JudgeMisconfigured, "this server cannot do chat completions with this model"),
    503: StatusRow(JudgeOverloaded),
    529: StatusRow(JudgeOverloaded),
}
REDIRECT: Final = StatusRow(JudgeMisconfigured, "JUDGE_BASE_URL must be the final address")
OTHER_4XX: Final = StatusRow(JudgeRequestRefused)
OTHER_5XX: Final = StatusRow(JudgeServerFault)

CONTEXT: Final = StatusRow(
    JudgeContextExceeded, "raise the server's context length or ask about fewer tips a call"
)
CONTEXT_NAMES: Final = frozenset(
    {"input_tokens", "input_text", "context_length_exceeded", "exceed_context_size_error"}
)
"""Values of ``param``, ``type`` or ``code``: vLLM, OpenAI and llama.cpp name it in these."""

ROOM: Final = StatusRow(
    JudgeContextExceeded,
    "lower JUDGE_MAX_TOKENS, raise the server's context length or ask about fewer tips a call",
)
LIMIT_NAMES: Final = frozenset({"max_tokens", "max_completion_tokens"})
"""Values of ``param``: our limit is over the context, or the prompt leaves no room for any reply."""
FIELD_REFUSED: Final = frozenset({"unsupported_parameter", "unknown_parameter"})
"""Values of ``code`` beside which ``param`` names a field that the server does not take at all."""

QUOTA: Final = StatusRow(JudgeQuotaExhausted, "the account at the judge server has run out")
QUOTA_STATUSES: Final = frozenset({400, 403, 429})
QUOTA_PHRASES: Final = (
    "insufficient quota", "billing", "credit balance", "insufficient credit",
    "insufficient balance", "insufficient funds", "out of credits", "payment required",
    "current quota", "monthly quota", "spending limit", "usage limit reached", "hard limit",
)  # fmt: skip
QUOTA_WORD: Final = "quota"
RATE_WORDS: Final = (
    "per minute", "per second", "per min", "/min", "per hour", "per day", "rate limit",
    "requests per", "tokens per", "too many requests", "rpm", "tpm",
)  # fmt: skip
"""Beside these, the bare word "quota" means a rate that passes, not a bill. Names join words by ``_``
or ``-``, which are read as blanks."""

MAX_MESSAGE_CHARS: Final = 600
_URL = re.compile(r"https?://\S+")
_BLANKS = str.maketrans("_-", "  ")


def row_of(
    status: int, *, body: str = "", sent: str = "", retry_after_s: float | None = None
) -> StatusRow:
    """Return the line of the table for an answer that is not 200.

    ``body`` is what the server said, ``sent`` the text of our own request, ``retry_after_s`` the
    pause in seconds that the server asked for.
    """
    said = _said(body)
    passes = status == 429 and retry_after_s is not None
    if status in QUOTA_STATUSES and _is_about_money(said, sent, passes=passes):
        return QUOTA
    if status == 400 and not CONTEXT_NAMES.isdisjoint(said.values()):
        return CONTEXT
    if status == 400 and _leaves_no_room(said):
        return ROOM
    if status < 400:
        return REDIRECT  # not followed: it would carry the key along
    return STATUS_TABLE.get(status, OTHER_5XX if status >= 500 else OTHER_4XX)


def _leaves_no_room(said: Mapping[str, str]) -> bool:
    return said.get("param") in LIMIT_NAMES and said.get("code") not in FIELD_REFUSED


def _said(body: str) -> dict[str, str]:
    """Return ``message``, ``type``, ``code`` and ``param`` of an error body, whatever its shape."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {"message": body[:MAX_MESSAGE_CHARS]}
    error = found.get("error", found) if isinstance(found, dict) else found
    if not isinstance(error, dict):
        return {"message": str(error)[:MAX_MESSAGE_CHARS]}
    fields = {name: error.get(name) for name in ("message", "detail", "type", "code", "param")}
    return {
        name: value[:MAX_MESSAGE_CHARS] for name, value in fields.items() if isinstance(value, str)
    }


def _is_about_money(said: Mapping[str, str], sent: str, *, passes: bool) -> bool:
    """``passes``: the server has said when it will answer again."""
    text, ours = _plain(_URL.sub(" ", " ".join(said.values()))), _plain(sent)
    if any(phrase in text and phrase not in ours for phrase in QUOTA_PHRASES):
        return True
    passes = passes or any(word in text for word in RATE_WORDS)
    return QUOTA_WORD in text and not passes and QUOTA_WORD not in ours


def _plain(text: str) -> str:
    # not casefold: what it makes of foreign letters would stand in the answer, and not in the
    # escapes of our request
    return text.lower().translate(_BLANKS)
