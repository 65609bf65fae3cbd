"""Why a signal or an outcome is NULL: one vocabulary for rows, commands, admin and reports.

Guarantees: every NULL that credit meets has exactly one of these codes beside it, and a code never
stands beside a label (a CHECK constraint says so). Does not hold the retry policy: whether a code is
retried is the scoring room's business.

Shaped by: a judge whose failures were stored as "computed, nothing known" and were never looked at again.
"""

from __future__ import annotations

from django.db import models


class Reason(models.TextChoices):
    """The reason codes of the signals, in order of precedence: the first that holds is stored."""

    NOT_SHOWN = "not_shown", "the tip never reached the prompt"
    NO_SCRIPT = "no_script", "the attempt has no script"
    SCRIPT_TRUNCATED = "script_truncated", "the script was cut before it was logged: undecidable"
    TIP_TEXT_UNKNOWN = "tip_text_unknown", "the text of the tip was never sent"
    NO_OUTCOME = "no_outcome", "the evaluator gave no verdict"
    SKIPPED = "skipped", "this signal is not configured"
    TOO_LONG = "too_long", "the script or the tip is longer than a judge can be asked about"
    JUDGE_UNAVAILABLE = "judge_unavailable", "the judge server could not be reached"
    JUDGE_ERROR = "judge_error", "the judge answered something that is no verdict"
    NOT_APPLICABLE = "not_applicable", "the tip is about something that the attempt is not about"
    UNCLEAR = "unclear", "the judge cannot tell from the script"
    QUOTE_UNVERIFIED = "quote_unverified", "the judge's quotes are not in the script"
    EMBEDDING_ERROR = "embedding_error", "the text could not be embedded"
    TRACE_ERROR = "trace_error", "the script could not be traced"
    TRACE_ABSTAINED = "trace_abstained", "the tip names nothing that a script could be checked for"


class JudgeLabel(models.TextChoices):
    """What a judge may say; ``tip_followed_llm`` is derived of it: yes, no, no, NULL, NULL."""

    FOLLOWED = "followed", "the script did what the tip says"
    CONTRADICTED = "contradicted", "the script did the opposite"
    NOT_FOLLOWED = "not_followed", "the script did not do it"
    NOT_APPLICABLE = "not_applicable", "the tip is about something else"
    UNCLEAR = "unclear", "cannot be told, or not proved by a quote"


STRUCTURAL = (
    Reason.NOT_SHOWN,
    Reason.NO_SCRIPT,
    Reason.SCRIPT_TRUNCATED,
    Reason.TIP_TEXT_UNKNOWN,
)
"""Known from the run itself: no signal can ever be computed for such a row."""

UNANSWERED = (
    Reason.SKIPPED,
    Reason.JUDGE_UNAVAILABLE,
    Reason.JUDGE_ERROR,
    Reason.EMBEDDING_ERROR,
    Reason.TRACE_ERROR,
)
"""No answer came out, and nothing in the run forbids one: what ``rescore --failed-only`` asks again.
An abstention of the trace is an answer."""

ABSTAINED = (Reason.NOT_APPLICABLE, Reason.UNCLEAR, Reason.QUOTE_UNVERIFIED)
"""The judge has answered, with a label that is neither yes nor no; it is not asked again for that."""

OUTCOME_REASONS = (Reason.NO_OUTCOME,)
"""What may stand beside an attempt without an outcome: the other codes are about signals."""

TRACE_VERDICTS = ("followed", "violated", "not_followed", "abstained")
"""What the action trace may say; the first three are answers (``memory.credit``)."""
