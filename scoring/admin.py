"""The judge's bench in the admin: work units, judgements, calls and pauses, to be read.

Guarantees: as ``memory.admin_base`` says. Judgements show what was asked of which model and what it
answered, a judge without a calibration marked; calls what that cost, pauses when and why nothing was
asked; their text is hostile input and is escaped. Clears no pause: ``manage.py judge_resume`` does.

Shaped by: verdicts whose cost, model and prompt could only be guessed from a log.
"""

from __future__ import annotations

from django.contrib import admin

from memory.admin_base import ReadOnlyAdmin, excerpt
from memory.admin_judges import JudgedRowsAdmin
from scoring import admin_memos, admin_reviews, admin_stores  # noqa: F401 - importing registers pages
from scoring.model_size import source_name
from scoring.models import Calibration, JudgeCall, Judgement, JudgePause, ScoreBatch


@admin.register(ScoreBatch)
class ScoreBatchAdmin(ReadOnlyAdmin):
    """Slices of runs, per signal."""

    list_display = (
        "id", "run", "round", "signal", "number", "state", "tries", "without_cache",
        "leased_until", "sent_at", "changed_at", "reason",
    )  # fmt: skip
    list_select_related = ("run",)
    list_filter = ("signal", "state")
    search_fields = ("run__external_id",)
    search_help_text = "external id of the run or primary key, whole"
    ordering = ("-id",)
    unlisted = ("run__extra", "run__hazards")


@admin.register(Judgement)
class JudgementAdmin(JudgedRowsAdmin):
    """Answers and failures of judges, latest first."""

    list_display = (
        "id", "retrieval_id", "label", "followed", "beginning", "reason", "judge", "tier", "cached",
        "cross_skill", "prompt", "call_id", "supersedes_id", "created_at",
    )  # fmt: skip
    list_filter = ("label", "followed", "tier", "cached", "cross_skill")
    search_fields = ("retrieval__tip__external_id",)
    search_help_text = "external id of the tip or primary key, whole"
    ordering = ("-id",)
    unlisted = ("evidence", "stakes", "redactions")
    readonly_fields = ("judge",)

    def source_of(self, judgement: Judgement) -> str:
        """Who was asked, with which prompt: as the retrieval names it."""
        return source_name(judgement.requested_model, judgement.prompt_sha256)

    @admin.display(description="reasoning")
    def beginning(self, judgement: Judgement) -> str:
        """What the judge gave as its reason, cut."""
        return excerpt(judgement.reasoning or judgement.error)

    @admin.display(description="prompt")
    def prompt(self, judgement: Judgement) -> str:
        """Id, version and hash of the prompt file."""
        name = f"{judgement.prompt_id} {judgement.prompt_version} " if judgement.prompt_id else ""
        return excerpt(f"{name}{judgement.prompt_sha256[:12]}")


@admin.register(JudgeCall)
class JudgeCallAdmin(ReadOnlyAdmin):
    """Questions put to judge servers, latest first."""

    list_display = (
        "id", "run_id", "tier", "requested_model", "served_model", "tips", "again", "http_tries",
        "seconds", "prompt_tokens", "cached_tokens", "completion_tokens", "error_class",
        "created_at",
    )  # fmt: skip
    list_filter = ("tier", "again", "error_class")
    search_fields = ("run__external_id",)
    search_help_text = "external id of the run or primary key, whole"
    ordering = ("-id",)
    unlisted = ("raw_reply", "error")


@admin.register(JudgePause)
class JudgePauseAdmin(ReadOnlyAdmin):
    """Times in which a judge was not asked, latest first."""

    list_display = (
        "id", "tier", "since", "until", "error_class", "why", "failures", "cleared_at",
        "cleared_by",
    )  # fmt: skip
    list_filter = ("tier", ("cleared_at", admin.EmptyFieldListFilter))
    ordering = ("-id",)

    @admin.display(description="cause")
    def why(self, pause: JudgePause) -> str:
        """What the server said, cut."""
        return excerpt(pause.cause, limit=160)


@admin.register(Calibration)
class CalibrationAdmin(ReadOnlyAdmin):
    """How well signals answered labelled pairs, latest first."""

    list_display = (
        "id", "signal", "model", "version", "labels", "n", "decided", "adopted", "created_at",
    )  # fmt: skip
    list_filter = ("labels", "adopted")
    ordering = ("-id",)
