"""Memos in the admin: the text beside its facts, each figure linked to its fact, each fact to its rows.

Guarantees: as ``memory.admin_base`` says; a list grades the memos of its page, at most PER_PAGE, and
reads no other. What a page says of gate, completeness and rubric is found out when it is opened. The
links from runs and tips lead to the memo of today's facts; they ask no model (``scoring.memos.on_hand``),
so that opening a page costs no inference, but may have the deterministic writer write one.

Judges nothing and writes no text: ``manage.py memo`` does.

Shaped by: reports whose figures could be believed or not, and looked up nowhere.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import ObjectDoesNotExist
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch, path, reverse
from django.utils import timezone
from django.utils.timesince import timesince
from django.views.decorators.http import require_safe

from memory.admin_base import BIGINT_MAX, ReadOnlyAdmin, excerpt
from memory.admin_desk import DeskPage, register_page, require
from scoring.memo_page import page_of, read
from scoring.memos.on_hand import memo_of_row
from scoring.memos.products import PRODUCTS
from scoring.models import Memo

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.urls import URLPattern

    from scoring.memos.memo_result import MemoResult

PER_PAGE: Final = 30
"""Grading a memo takes 7 ms (16 facts) to 40 ms (120): a list is no place for hundreds."""
MAY_READ: Final = "scoring.view_memo"

register_page(
    DeskPage(
        title="Memos",
        says="What a run taught, what a tip does, what changed in a category; every figure sourced.",
        url_name="admin:scoring_memo_changelist",
        needs=(MAY_READ,),
    )
)


@admin.register(Memo)
class MemoAdmin(ReadOnlyAdmin):
    """Memos, latest first; their pages about runs and tips hang below."""

    change_form_template = "scoring/memo.html"
    list_display = (
        "id", "product", "subject", "mode", "variant", "model", "passed", "composite", "accepted",
        "hits", "age",
    )  # fmt: skip
    list_display_links = ("id", "subject")
    list_filter = ("product", "mode", "variant", "accepted")
    list_per_page = list_max_show_all = PER_PAGE
    search_fields = ("key",)
    search_help_text = "key or primary key, whole"
    ordering = ("-id",)
    unlisted = ("sides",)

    @admin.display(description="identifier")
    def subject(self, memo: Memo) -> str:
        """What it is about, cut."""
        return excerpt(memo.identifier)

    @admin.display(description="gate", boolean=True)
    def passed(self, memo: Memo) -> bool | None:
        """Whether the text passes today's gate on its own facts; unknown if they cannot be read."""
        made = _graded(memo)
        return None if made is None else made.gate.passed

    @admin.display(description="composite", empty_value="–")
    def composite(self, memo: Memo) -> str | None:
        """The rubric's number, 0 to 1."""
        made = _graded(memo)
        return None if made is None else f"{made.rubric.composite:.2f}"

    @admin.display(description="age", ordering="written_at")
    def age(self, memo: Memo) -> str:
        """Since it was written."""
        return timesince(memo.written_at, timezone.now(), depth=1)

    def get_urls(self) -> list[URLPattern]:
        """The memos about rows of other tables."""
        site = self.admin_site.admin_view
        view = require_safe(self.about_view)
        return [
            path(
                f"about/{product}/<int:key>/",
                site(partial(view, product=product)),
                name=f"scoring_memo_about_{product}",
            )
            for product in PRODUCTS
            if product != "category"
        ] + super().get_urls()

    def about_view(self, request: HttpRequest, *, product: str, key: int) -> HttpResponse:
        """To the memo about a run or a tip, which is written if there is none."""
        require(request, MAY_READ)
        try:
            made = memo_of_row(product, min(key, BIGINT_MAX))
        except ObjectDoesNotExist:
            raise Http404(f"no {product} {key}") from None
        if made.row is None:  # the database could not keep it
            self.message_user(request, "The memo could not be kept.", messages.ERROR)
            return HttpResponseRedirect(reverse("admin:scoring_memo_changelist"))
        return HttpResponseRedirect(reverse("admin:scoring_memo_change", args=[made.row]))

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The memo, its facts and what is found out about it; below, the columns as they are stored."""
        row = self.get_object(request, object_id) if self.has_view_permission(request) else None
        more: dict[str, Any] = {}
        if row is not None:
            more = {"page": page_of(row, self.admin_site), "now": _json_url(row)}
        return super().change_view(request, object_id, form_url, (extra_context or {}) | more)


def _json_url(row: Memo) -> str:
    """Where the memo of today's facts is to be had; "" if its subject is none of the database's."""
    if row.product not in PRODUCTS:
        return ""
    try:
        url = reverse("memo_json", args=(row.product, row.identifier))
    except NoReverseMatch:  # an identifier that no path can hold
        return ""
    return f"{url}?{urlencode({'mode': row.mode})}"


def _graded(memo: Any) -> MemoResult | None:
    """What the list says of a memo, found out once for its columns."""
    if not hasattr(memo, "graded"):
        try:
            memo.graded = read(memo)
        except ValueError:
            memo.graded = None
    found: MemoResult | None = memo.graded
    return found
