"""Which values of the fields of a chat request a real vLLM 0.32 refuses, and with which error.

Guarantees: `check_types` refuses what the validation of the body does (type "Bad Request", param
``body.<field>``), `check_ranges` what the sampling parameters do ("BadRequestError"); status, type and
param are those of the real server, of which tests/scoring/judge/test_contract.py asks the same. A
field that is null counts as left out. Unlike there, a text or boolean is never taken for a number.

Shaped by a stand-in that hung up on a text where a number must be: the client saw a reset, and would
have tried again, where the real server says 400.
"""

from __future__ import annotations

from typing import Any

SEED_LIMIT = 2**63
UNION = "ChatCompletionDeveloperMessageParam"
"""The first kind of message that the real server tries; it stands in the param of its errors."""

TYPES: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "messages": (list,),
    "response_format": (dict,),
    "structured_outputs": (dict,),
    "chat_template_kwargs": (dict,),
    "logprobs": (bool,),
    "stop": (str, list),
}
WHOLE = (
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "n",
    "top_logprobs",
    "truncate_prompt_tokens",
)
NUMBERS = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
FORMAT_TYPES = ("text", "json_object", "json_schema")
LIMITS = ("max_tokens", "max_completion_tokens")


class Refusal(Exception):
    """The request is answered with ``status`` and ``body``."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(status)
        self.status, self.body = status, body


def error(status: int, kind: str, message: str, param: str | None = None) -> Refusal:
    """Build an error in the shape of vLLM."""
    note = f" (parameter={param})" if param and kind == "BadRequestError" else ""
    facts = {"message": message + note, "type": kind, "param": param, "code": status}
    return Refusal(status, {"error": facts})


def bad_request(message: str, param: str | None = None) -> Refusal:
    """Build the error of a request whose fields are well-formed and not acceptable."""
    return error(400, "BadRequestError", message, param)


def bad_body(message: str, param: str) -> Refusal:
    """Build the error of a body that is not well-formed."""
    return error(400, "Bad Request", f"1 validation error: {message}", param)


def check_types(fields: dict[str, Any]) -> None:
    """Refuse a field that holds another type of value than it must; raises `Refusal`."""
    if fields.get("messages") is None:
        raise bad_body("Field required", "body.messages")
    for name, value in fields.items():
        if value is not None and not _fits(name, value):
            raise bad_body("Input should be of another type", f"body.{name}")
    for number, message in enumerate(fields["messages"]):
        _check_message(message, f"body.messages.{number}.{UNION}")
    _check_format(fields.get("response_format"))
    if fields.get("top_logprobs") and not fields.get("logprobs"):
        raise bad_request("logprobs must be set to true.", "top_logprobs")


def _fits(name: str, value: object) -> bool:
    if name in WHOLE:
        small = name != "seed" or (isinstance(value, int) and abs(value) < SEED_LIMIT)
        return type(value) is int and small
    if name in NUMBERS:
        return type(value) in (int, float)
    return isinstance(value, TYPES.get(name, (object,)))


def _check_message(message: object, where: str) -> None:
    if not isinstance(message, dict):
        raise bad_body("Input should be a valid dictionary", where)
    if not isinstance(message.get("role"), str):
        raise bad_body("Field required", f"{where}.role")
    if not isinstance(message.get("content"), str | list | None):
        raise bad_body("Input should be a valid string", f"{where}.content")


def _check_format(form: dict[str, Any] | None) -> None:
    where = "body.response_format"
    if form is None:
        return
    if form.get("type") not in FORMAT_TYPES:
        raise bad_body(f"Input should be one of {FORMAT_TYPES}", f"{where}.type")
    wanted = form.get("json_schema")
    if wanted is None and form["type"] == "json_schema":
        raise bad_request("the 'json_schema' field must be provided.", "response_format")
    if wanted is None:
        return
    if not isinstance(wanted, dict):
        raise bad_body("Input should be a valid dictionary", f"{where}.json_schema")
    if not isinstance(wanted.get("name"), str):
        raise bad_body("Field required", f"{where}.json_schema.name")
    if not isinstance(wanted.get("schema"), dict | None):
        raise bad_body("Input should be a valid dictionary", f"{where}.json_schema.schema")


def checked_limit(fields: dict[str, Any], max_model_len: int) -> int | None:
    """Return the limit on the reply's tokens; raises `Refusal` if it is over the whole context.

    The later of the two names wins where both are given, and the error names the one that was meant.
    """
    name = next((name for name in reversed(LIMITS) if fields.get(name) is not None), None)
    if name is None:
        return None
    limit: int = fields[name]
    if limit > max_model_len:
        raise bad_request(f"{name} cannot be greater than max_model_len.", name)
    return limit


def check_ranges(fields: dict[str, Any]) -> None:
    """Refuse a number out of its range, in the order of the real server; raises `Refusal`."""
    given = {name: value for name, value in fields.items() if value is not None}
    temperature, top_p, choices = (given.get(name, 1) for name in ("temperature", "top_p", "n"))
    if choices < 1:
        raise bad_request("n must be at least 1")
    for name in ("presence_penalty", "frequency_penalty"):
        if not -2 <= given.get(name, 0) <= 2:
            raise bad_request(f"{name} must be in [-2, 2]")
    if given.get("repetition_penalty", 1) <= 0:
        raise bad_request("repetition_penalty must be greater than zero")
    if not 0 <= temperature <= 2:  # NaN is not, either
        raise bad_request("temperature must be in [0, 2]", "temperature")
    if not 0 < top_p <= 1:
        raise bad_request("top_p must be in (0, 1]", "top_p")
    if choices > 1 and temperature == 0:
        raise bad_request("n must be 1 when using greedy sampling")
    for name in LIMITS:
        if given.get(name, 1) < 1:
            raise bad_request("max_tokens must be at least 1", "max_tokens")
    if not 0 <= given.get("top_logprobs", 0) <= 20:
        raise bad_request("Requested sample logprobs is greater than max allowed: 20", "logprobs")
