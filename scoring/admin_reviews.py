"""Disagreements: rows on which the signals contradict each other, and the form in which a person decides.

Guarantees: the list reads the rows of a window of recent runs and never a whole history; a row is shown
with all that was said about it side by side: the text that the agent saw, the script with its line
numbers, the judge's reasons and quotes, the cosine, what the trace found; an answer is recorded by
``scoring.reviews`` alone, by POST with a token, under the permission to add reviews, and then the next
row of the same queue comes. All text of tips, scripts and judges is escaped. Reviews themselves are
read-only rows, as in ``memory.admin_base``.

Does not hide the machine's answers from the reviewer, so that reviews are no blind labels.

Shaped by: two verdicts in two columns, and nobody to say which one was right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin, messages
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse

from memory.admin_base import ReadOnlyAdmin, excerpt
from memory.admin_desk import (
    DeskPage,
    one_of,
    page_of,
    query_without_page,
    register_page,
    require,
    skill_asked,
    skills,
)
from memory.models import Retrieval
from memory.provenance import standing_of
from scoring.attribution import Cause, doubt
from scoring.disagreements import WINDOWS, Queue, run_named
from scoring.model_size import source_name
from scoring.models import Judgement, Review
from scoring.reviews import NOTE_LENGTH, ReviewError, record_review, standing

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.urls import URLPattern

JUDGEMENTS_SHOWN: Final = 5
LOOKED_AHEAD: Final = 500
"""Rows of the queue among which the next one is looked for."""

PAGE: Final = register_page(
    DeskPage(
        title="Disagreements",
        says="Rows on which judge, trace and cosine contradict each other: say who is right.",
        url_name="admin:scoring_review_disagreements",
        needs=(
            "memory.view_retrieval",
            "memory.view_attempt",
            "scoring.view_judgement",
            "scoring.view_review",
        ),
    )
)
MAY_REVIEW: Final = "scoring.add_review"

ANSWERS: Final[dict[str, bool | None]] = {
    "followed": True,
    "not_followed": False,
    "cannot_tell": None,
}


class ReviewForm(forms.Form):
    """What a person says. ``seen``: the standing review that the page was made with, 0 for none."""

    answer = forms.ChoiceField(choices=[(name, name) for name in ANSWERS])
    note = forms.CharField(
        required=False,
        max_length=NOTE_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2, "cols": 60}),
    )
    seen = forms.IntegerField(min_value=0, widget=forms.HiddenInput)


@admin.register(Review)
class ReviewAdmin(ReadOnlyAdmin):
    """Reviews, latest first; the pages on which they are made hang below."""

    list_display = (
        "id", "retrieval_id", "followed", "by", "said", "supersedes_id", "created_at",
    )  # fmt: skip
    list_filter = ("followed",)
    search_fields = ("retrieval__tip__external_id",)
    search_help_text = "external id of the tip or primary key, whole"
    ordering = ("-id",)

    @admin.display(description="note")
    def said(self, review: Review) -> str:
        """The note, cut."""
        return excerpt(review.note, limit=160)

    def get_urls(self) -> list[URLPattern]:
        """The queue and the form."""
        site = self.admin_site.admin_view
        return [
            path("disagreements/", site(self.queue_view), name="scoring_review_disagreements"),
            path(
                "disagreements/<int:retrieval_id>/",
                site(self.row_view),
                name="scoring_review_row",
            ),
            *super().get_urls(),
        ]

    def queue_view(self, request: HttpRequest) -> HttpResponse:
        """The queue, filtered by skill, run, window and cause."""
        require(request, *PAGE.needs)
        queue = queue_asked(request)
        page = page_of(request, listed(queue))
        return self._page(
            request,
            "scoring/disagreements.html",
            title=PAGE.title,
            page=page,
            lines=[(row, causes_of(row)) for row in page],
            uncalibrated=standing_of(row.llm_source for row in page).uncalibrated,
            filters=query_without_page(request),
            queue=queue,
            skills=skills(),
            windows=WINDOWS,
            causes=list(Cause),
        )

    def row_view(self, request: HttpRequest, retrieval_id: int) -> HttpResponse:
        """One row and the form; POST records the answer."""
        require(request, *PAGE.needs)
        row = get_object_or_404(
            Retrieval.objects.select_related("run", "attempt", "tip"), pk=retrieval_id
        )
        last = standing(row.pk)
        if request.method != "POST":
            form = ReviewForm(initial={"seen": last.pk if last else 0})
            return self._row(request, row, form)
        require(request, MAY_REVIEW)
        form = ReviewForm(request.POST)
        if not form.is_valid():
            return self._row(request, row, form, status=400)
        following = next_of(queue_asked(request), row.pk)
        if not self._recorded(request, row, form.cleaned_data):
            following = row.pk
        return HttpResponseRedirect(_url_of(following, query_without_page(request)))

    def _recorded(self, request: HttpRequest, row: Retrieval, said: dict[str, Any]) -> bool:
        try:
            review = record_review(
                row.pk,
                followed=ANSWERS[said["answer"]],
                by=request.user.get_username(),
                note=said["note"],
                seen=said["seen"],
            )
        except ReviewError as error:
            self.message_user(request, excerpt(str(error), limit=500), messages.ERROR)
            return False
        answer = said["answer"].replace("_", " ")
        self.log_addition(request, review, f"Retrieval {row.pk}: {answer}.")
        self.message_user(request, f"Retrieval {row.pk}: {answer}. It counts.", messages.SUCCESS)
        return True

    def _row(
        self, request: HttpRequest, row: Retrieval, form: ReviewForm, status: int = 200
    ) -> HttpResponse:
        filters = query_without_page(request)
        seen = doubt(row)
        return self._page(
            request,
            "scoring/disagreement.html",
            status=status,
            title=f"Retrieval {row.pk}",
            row=row,
            causes=seen.causes if seen else (),
            judgements=judgements_of(row),
            reviews=row.reviews.order_by("-pk"),
            may_review=request.user.has_perm(MAY_REVIEW) and row.shown and not row.superseded,
            form=form,
            filters=filters,
            skip=_url_of(next_of(queue_asked(request), row.pk), filters),
        )

    def _page(
        self, request: HttpRequest, template: str, *, status: int = 200, **context: Any
    ) -> HttpResponse:
        around = self.admin_site.each_context(request) | {"opts": self.opts}
        return TemplateResponse(request, template, around | context, status=status)


def queue_asked(request: HttpRequest) -> Queue:
    """The queue that the request's filters name; what they do not name has its default."""
    asked = request.GET
    run = run_named(asked.get("run", ""))
    window = asked.get("window", "")
    return Queue(
        skill=run.skill if run else skill_asked(request),
        run=run,
        window=int(window) if window in {str(one) for one in WINDOWS} else WINDOWS[0],
        cause=one_of(Cause, asked.get("cause"), None),
        undecided=asked.get("undecided") == "1",
    )


def listed(queue: Queue) -> Any:
    """The queue's rows with what a line of the list shows."""
    rows = queue.rows().select_related("run", "attempt", "tip")
    return rows.defer(
        "extra", "tip_followed_trace_evidence", "run__extra", "run__hazards", "attempt__script",
        "attempt__narrative", "attempt__evaluator_raw", "attempt__extra", "tip__text",
        "tip__mechanism", "tip__extra",
    )  # fmt: skip


def causes_of(row: Retrieval) -> tuple[Cause, ...]:
    """Why the row is in doubt."""
    seen = doubt(row)
    return seen.causes if seen else ()


def judgements_of(row: Retrieval) -> list[tuple[Judgement, bool]]:
    """The latest judgements of the row, and whether nobody has compared their judge with labels."""
    found = list(Judgement.objects.filter(retrieval=row).order_by("-pk")[:JUDGEMENTS_SHOWN])
    names = [source_name(one.requested_model, one.prompt_sha256) for one in found]
    unproved = standing_of(names).uncalibrated
    return [(one, name in unproved) for one, name in zip(found, names, strict=True)]


def next_of(queue: Queue, current: int) -> int | None:
    """The row that comes after *current*, or the first of the others; None: there is no other."""
    ids = list(queue.rows().values_list("pk", flat=True)[:LOOKED_AHEAD])
    others = [pk for pk in ids if pk != current]
    if not others:
        return None
    place = ids.index(current) if current in ids else len(others)
    return others[place] if place < len(others) else others[0]


def _url_of(retrieval_id: int | None, filters: str) -> str:
    if retrieval_id is None:
        url = reverse(PAGE.url_name)
    else:
        url = reverse("admin:scoring_review_row", args=[retrieval_id])
    return f"{url}?{filters}" if filters else url
