"""Everything that can stand between a question to the judge and a usable verdict::

    JudgeError                       reason           retryable
    +-- JudgeUnavailable             judge_unavailable
    |   +-- JudgeUnreachable         .                yes   refused, reset, cut off, no such host
    |   +-- JudgeTimeout             .                yes   connect, read, or the call's deadline
    |   +-- JudgeOverloaded          .                yes   429, 503, 529
    |   +-- JudgeServerFault         .                yes   408, 425, any other 5xx
    |   +-- JudgeMisconfigured       .                no    401 402 403 404 405 501, 3xx, TLS
    +-- JudgeRequestRefused          judge_error      no    any other 4xx: this request, for ever
    +-- JudgeReplyUnusable           judge_error      no    200, but
    |   +-- ReplyTooLarge                                   more bytes than we read
    |   +-- ReplyNotJson                                    not a JSON object
    |   +-- ReplyWrongShape                                 not one finished choice with text
    |   +-- ReplyEmpty                                      no choice, content null or blank
    |   +-- ReplyTruncated                                  finish_reason "length"
    +-- VerdictError                 judge_error      no    see scoring.judge.verdict
    +-- QuestionRefused              of each class    no    see scoring.judge.prompt

``reason`` is the code to store on the row that stays without a label; ``retryable`` says whether
the same call may ask again. No message holds a key or judged text. Shaped by 401s that were
recorded as malformed verdicts, and by cut replies taken for bad models (ADR-0006).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class JudgeError(Exception):
    """No usable verdict came out of this question.

    ``cause`` says what happened, ``mend`` what an operator can do. ``status`` is the HTTP status
    if there was one, ``retry_after_s`` the pause in seconds that the server asked for, ``tries``
    the number of requests that were sent. ``provider_text`` is what the server said (capped, key
    removed); it may quote the judged text and is therefore not part of ``str(error)``.
    """

    reason: ClassVar[str] = "judge_error"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        cause: str = "",
        *,
        mend: str = "",
        status: int | None = None,
        retry_after_s: float | None = None,
        provider_text: str = "",
    ) -> None:
        super().__init__(f"{cause}: {mend}" if mend else cause)
        self.status = status
        self.retry_after_s = retry_after_s
        self.provider_text = provider_text
        self.tries = 0


class JudgeUnavailable(JudgeError):
    """The server could not be asked; the question itself may be fine."""

    reason: ClassVar[str] = "judge_unavailable"


class JudgeUnreachable(JudgeUnavailable):
    """No connection, or one that broke before the reply was whole."""

    retryable: ClassVar[bool] = True


class JudgeTimeout(JudgeUnavailable):
    """No connection in time, silence for too long, or the call's deadline has passed."""

    retryable: ClassVar[bool] = True


class JudgeOverloaded(JudgeUnavailable):
    """The server or a gateway asks for less; ``retry_after_s`` may say for how long."""

    retryable: ClassVar[bool] = True


class JudgeServerFault(JudgeUnavailable):
    """The server failed on its own side."""

    retryable: ClassVar[bool] = True


class JudgeMisconfigured(JudgeUnavailable):
    """Address, key, model name or certificate is wrong: an operator must act first."""


class JudgeRequestRefused(JudgeError):
    """The server refuses this very request (too long, a field it does not know, ...)."""


class JudgeReplyUnusable(JudgeError):
    """The server answered 200 with something that cannot hold a verdict."""


class ReplyTooLarge(JudgeReplyUnusable):
    """The body is larger than we read; the rest was left."""


class ReplyNotJson(JudgeReplyUnusable):
    """The body is not a JSON object in UTF-8."""


class ReplyWrongShape(JudgeReplyUnusable):
    """The body is not one choice with a message that ended by itself."""


class ReplyEmpty(JudgeReplyUnusable):
    """There is no choice, or its content is null or blank (reasoning is not searched)."""


class ReplyTruncated(JudgeReplyUnusable):
    """finish_reason is "length": the text was cut at max_tokens or at the context's end."""


_CLASS_OF: Final[Mapping[int, type[JudgeError]]] = {
    **dict.fromkeys((401, 402, 403, 404, 405, 501), JudgeMisconfigured),
    **dict.fromkeys((408, 425), JudgeServerFault),
    **dict.fromkeys((429, 503, 529), JudgeOverloaded),
}
MEND_OF: Final[Mapping[int, str]] = {
    401: "check JUDGE_API_KEY",
    402: "the account at the judge server has run out",
    403: "the key may not use this model or address",
    404: "check JUDGE_MODEL and JUDGE_BASE_URL",
    405: "JUDGE_BASE_URL is not the root of an OpenAI-compatible API",
    501: "this server cannot do chat completions with this model",
}


def error_class(status: int) -> type[JudgeError]:
    """Return the class of an answer whose HTTP status is not 200."""
    if status < 400:
        return JudgeMisconfigured  # redirects are not followed: they would carry the key along
    return _CLASS_OF.get(status, JudgeServerFault if status >= 500 else JudgeRequestRefused)
