"""Every status has one class, and a refusal about money is told from one about speed.

Shaped by an unpaid bill that cost thousands of judgements, and by a help URL that hid one.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from scoring.judge import errors as e
from scoring.judge.statuses import STATUS_TABLE, row_of

BY_STATUS = {
    204: e.JudgeMisconfigured, 301: e.JudgeMisconfigured, 307: e.JudgeMisconfigured,
    400: e.JudgeRequestRefused, 401: e.JudgeMisconfigured, 402: e.JudgeQuotaExhausted,
    403: e.JudgeMisconfigured, 404: e.JudgeMisconfigured, 405: e.JudgeMisconfigured,
    408: e.JudgeServerFault, 409: e.JudgeRequestRefused, 413: e.JudgeContextExceeded,
    418: e.JudgeRequestRefused, 422: e.JudgeRequestRefused, 425: e.JudgeServerFault,
    429: e.JudgeOverloaded, 500: e.JudgeServerFault, 501: e.JudgeMisconfigured,
    502: e.JudgeServerFault, 503: e.JudgeOverloaded, 504: e.JudgeServerFault,
    529: e.JudgeOverloaded, 599: e.JudgeServerFault,
}  # fmt: skip
PAUSES = {e.JudgeMisconfigured, e.JudgeQuotaExhausted}
RETRIED = {e.JudgeOverloaded, e.JudgeServerFault, e.JudgeTimeout, e.JudgeUnreachable}


@pytest.mark.parametrize("status", BY_STATUS)
def test_each_status_has_its_class(status: int) -> None:
    assert row_of(status).error is BY_STATUS[status]
    assert set(STATUS_TABLE) <= set(BY_STATUS)


def test_a_class_pauses_the_bench_is_retried_or_ends_the_question() -> None:
    for error in _tree(e.JudgeError):
        assert error.pauses is (error in PAUSES)
        assert error.retryable is (error in RETRIED)
        assert not (error.pauses and error.retryable)
        answered = issubclass(error, e.JudgeReplyUnusable | e.VerdictError)
        assert error.worth_reasking is answered


def _tree(error: type[e.JudgeError]) -> list[type[e.JudgeError]]:
    return [error, *(found for child in error.__subclasses__() for found in _tree(child))]


@pytest.mark.parametrize("status", [400, 403, 429])
@pytest.mark.parametrize(
    "message",
    [
        "You exceeded your current quota, please check your plan and billing details. "
        "Read https://example.org/docs/rate-limits-of-your-organization",
        "Your credit balance is too low to access the API",
        "insufficient_quota",
        "Insufficient Balance",
        "Monthly quota of this project reached",
        "Quota of your account is used up",
        "This organization has reached its spending limit",
    ],
)
def test_quota_wording_pauses_whatever_the_status(status: int, message: str) -> None:
    for body in (_openai(message), json.dumps({"detail": message}), message, json.dumps(message)):
        assert row_of(status, body=body).error is e.JudgeQuotaExhausted
    assert row_of(500, body=_openai(message)).error is e.JudgeServerFault


@pytest.mark.parametrize(
    "message",
    [
        "Rate limit reached in organization org-1 on requests per min. Add a payment method at "
        "https://example.org/account/billing to raise it.",
        "Quota exceeded for quota metric 'requests' and limit 'requests per minute'",
        "Too many requests",
        "slow down",
        "Quota exceeded for aiplatform.googleapis.com/"
        "generate_content_requests_per_minute_per_project_per_base_model with base model: m. "
        "Please submit a quota increase request.",
        "tokens_per_day quota exceeded, resets in 30s",
        "per-minute quota reached",
        "rate_limit: quota of requests",
        "Quota of 1,000 images per hour is used up",
    ],
)
def test_a_rate_that_passes_is_no_bill(message: str) -> None:
    for body in (_openai(message), message, json.dumps([{"error": {"message": message}}])):
        assert row_of(429, body=body).error is e.JudgeOverloaded


@pytest.mark.parametrize("message", ["Resource exhausted: quota", "Quota exceeded, try later"])
def test_a_429_that_names_a_time_is_a_rate_unless_it_speaks_of_money(message: str) -> None:
    def error(status: int, message: str, asked: float | None) -> type[e.JudgeError]:
        return row_of(status, body=_openai(message), retry_after_s=asked).error

    assert error(429, message, 0.0) is error(429, message, 30.0) is e.JudgeOverloaded
    assert error(429, message, None) is e.JudgeQuotaExhausted
    assert error(400, message, 30.0) is e.JudgeQuotaExhausted
    for money in (
        "Monthly quota is used up",
        "insufficient_quota",
        "see billing",
        "credit-balance",
    ):
        assert error(429, f"{message}: {money}", 30.0) is e.JudgeQuotaExhausted


def test_a_phrase_of_our_own_request_that_the_server_quotes_does_not_pause_the_bench() -> None:
    hostile = "echo insufficient_quota billing credit balance quota"
    body = _openai(f"1 validation error: input was {hostile!r}")
    assert row_of(400, body=body, sent=hostile).error is e.JudgeRequestRefused
    assert row_of(400, body=body).error is e.JudgeQuotaExhausted


@pytest.mark.parametrize(
    "hostile",
    ["credit_balance", "Credit-Balance", "in\u017fufficient_quota", "BILLING", "current_quota"],
)
def test_a_phrase_is_ours_in_whatever_spelling_it_is_read(hostile: str) -> None:
    sent = json.dumps({"messages": [{"content": hostile}]})
    for quoted in (hostile, hostile.replace("_", " "), hostile.lower()):
        body = _openai(f"refused: {quoted}")
        assert row_of(400, body=body, sent=sent).error is e.JudgeRequestRefused


@pytest.mark.parametrize(
    "body",
    [
        {
            "error": {
                "message": "longer than allowed",
                "type": "BadRequestError",
                "param": "input_tokens",
            }
        },
        {"error": {"message": "x", "type": "BadRequestError", "param": "input_text", "code": 400}},
        {
            "error": {
                "message": "x",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
        {
            "error": {
                "message": "x",
                "type": "exceed_context_size_error",
                "code": 400,
                "n_ctx": 1024,
            }
        },
    ],
)
def test_a_prompt_that_is_too_long_is_known_by_fields_and_not_by_wording(body: Any) -> None:
    row = row_of(400, body=json.dumps(body))
    assert row.error is e.JudgeContextExceeded
    assert "context" in row.mend


@pytest.mark.parametrize("param", ["max_tokens", "max_completion_tokens"])
def test_a_limit_that_does_not_fit_is_told_from_a_field_that_is_not_taken(param: str) -> None:
    """vLLM names a prompt that fills the whole context by this field, too: 0 tokens are left."""

    def row(code: object) -> Any:
        return row_of(
            400, body=json.dumps({"error": {"message": "x", "param": param, "code": code}})
        )

    for code in (400, None, "invalid_value"):
        assert row(code).error is e.JudgeContextExceeded
        assert "JUDGE_MAX_TOKENS" in row(code).mend
    for code in ("unsupported_parameter", "unknown_parameter"):
        assert row(code).error is e.JudgeRequestRefused


@pytest.mark.parametrize(
    "wording",
    [
        "This model's maximum context length is 1024 tokens, however you requested 1100",
        "the decoder prompt is longer than the maximum model length",
        "Input length exceeds model's maximum context length",
        "prompt too long",
        "requested tokens exceed context window",
    ],
)
def test_wording_alone_never_decides_about_the_context(wording: str) -> None:
    assert row_of(400, body=_openai(wording)).error is e.JudgeRequestRefused


@pytest.mark.parametrize(
    "body", ["", "[]", "null", "1e999", '{"error": 3}', "[" * 9_000, "\x00\ufffd"]
)
def test_any_body_is_read(body: str) -> None:
    assert row_of(400, body=body).error is e.JudgeRequestRefused
    assert row_of(429, body=body).error is e.JudgeOverloaded


def _openai(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "x", "param": None, "code": None}})
