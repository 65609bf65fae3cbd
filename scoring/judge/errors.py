"""Everything that can stand between a question to the judge and a usable verdict::

    JudgeError                       reason           retryable  pauses
    +-- JudgeUnavailable             judge_unavailable
    |   +-- JudgeUnreachable         .                yes   .    refused, reset, no such host
    |   +-- JudgeTimeout             .                yes   .    connect, read, the call's deadline
    |   +-- JudgeOverloaded          .                yes   .    429, 503, 529
    |   +-- JudgeServerFault         .                yes   .    408, 425, any other 5xx
    |   +-- JudgeMisconfigured       .                no    yes  401 403 404 405 501, 3xx, TLS
    |   +-- JudgeQuotaExhausted      .                no    yes  402; 400, 403, 429 that speak of money
    +-- JudgeRequestRefused          judge_error      no    .    any other 4xx: this request, for ever
    |   +-- JudgeContextExceeded                      .     .    prompt or reply do not fit the context
    +-- JudgeReplyUnusable           judge_error      no    .    200, but (asked again once)
    |   +-- ReplyTooLarge                                        more bytes than we read
    |   +-- ReplyNotJson                                         not a JSON object
    |   +-- ReplyWrongShape                                      not one finished choice with text
    |   +-- ReplyEmpty                                           no choice, content null or blank
    |   |   +-- ReplyReasoningOnly                               all text is in the reasoning field
    |   +-- ReplyTruncated                                       finish_reason "length"
    |       +-- ReplyThinkingOnly                                thinking ate the whole budget
    +-- VerdictError                 judge_error      no    .    see below (asked again once)
    +-- QuestionRefused              of each class    no    .    see scoring.judge.prompt

Which status means which class is the table in ``scoring.judge.statuses``. ``reason`` is the code to
store on the row that stays without a label; ``retryable`` says whether the same call may ask again,
``pauses`` whether nothing should be asked before an operator has acted, ``worth_reasking`` whether
the same question may be put once more. No message holds a key or judged text. Shaped by 401s that
were recorded as malformed verdicts, and by cut replies taken for bad models (ADR-0006).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from scoring.judge.reply import JudgeReply


class JudgeError(Exception):
    """No usable verdict came out of this question.

    ``cause`` says what happened, ``mend`` what an operator can do. ``status`` is the HTTP status
    if there was one, ``retry_after_s`` the pause in seconds that the server asked for, ``tries``
    the number of requests that were sent. ``provider_text`` is what the server said (capped, key
    removed); it may quote the judged text and is therefore not part of ``str(error)``. ``received``
    is what a 200 that cannot be used was and cost, None where none came.
    """

    reason: ClassVar[str] = "judge_error"
    retryable: ClassVar[bool] = False
    pauses: ClassVar[bool] = False
    worth_reasking: ClassVar[bool] = False

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
        self.received: JudgeReply | None = None


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

    pauses: ClassVar[bool] = True


class JudgeQuotaExhausted(JudgeUnavailable):
    """The account has run out: an operator must act first, whatever status said so."""

    pauses: ClassVar[bool] = True


class JudgeRequestRefused(JudgeError):
    """The server refuses this very request (a field it does not know, a schema it cannot do, ...)."""


class JudgeContextExceeded(JudgeRequestRefused):
    """The prompt, or the longest reply allowed, does not fit the model's context: fewer tips may."""


class JudgeReplyUnusable(JudgeError):
    """The server answered 200 with something that cannot hold a verdict."""

    worth_reasking: ClassVar[bool] = True


class ReplyTooLarge(JudgeReplyUnusable):
    """The body is larger than we read; the rest was left."""


class ReplyNotJson(JudgeReplyUnusable):
    """The body is not a JSON object in UTF-8."""


class ReplyWrongShape(JudgeReplyUnusable):
    """The body is not one choice with a message that ended by itself."""


class ReplyEmpty(JudgeReplyUnusable):
    """There is no choice, or its content is null or blank (reasoning is not searched)."""


class ReplyReasoningOnly(ReplyEmpty):
    """The content is null or blank and the text stands in ``reasoning``: the server's reasoning
    parser does not fit the model. What it holds is not read."""


class ReplyTruncated(JudgeReplyUnusable):
    """finish_reason is "length": the text was cut at max_tokens or at the context's end."""


class ReplyThinkingOnly(ReplyTruncated):
    """The token limit was reached before the answer began."""


class VerdictError(JudgeError):
    """The reply, or one verdict of it, cannot be used. The class names what is wrong with it."""

    worth_reasking: ClassVar[bool] = True


class VerdictNotJson(VerdictError):
    """The reply, after the permitted stripping, is not JSON."""


class VerdictTooLong(VerdictError):
    """The reply, a list or a text in it is longer than the schema allows."""


class VerdictDuplicateKey(VerdictError):
    """A key stands twice in one object, so that two readers could see two verdicts."""


class VerdictNumberInvalid(VerdictError):
    """NaN, an infinity, or a number too large to be read."""


class VerdictNotObject(VerdictError):
    """JSON, but a list, string, number, boolean or null where an object must be."""


class VerdictFieldMissing(VerdictError):
    """A required field is absent."""


class VerdictFieldUnknown(VerdictError):
    """A field is there that the schema does not have."""


class VerdictFieldType(VerdictError):
    """A field holds another type of JSON value than the schema says."""


class VerdictValueUnknown(VerdictError):
    """``label`` or ``finding`` is none of the words that the schema lists."""


class VerdictNoClaims(VerdictError):
    """The checklist of a tip is empty: a label without a single line that leads to it."""


class VerdictContradiction(VerdictError):
    """The label says something else than the findings that it is to rest on."""


class VerdictIdInvalid(VerdictError):
    """A verdict stands under an id that was not asked about, or one that was asked about has none."""
