"""Misleading tips: the list, the record of one tip, and the two buttons that decide about it.

Guarantees: the list reads sums and never history; the record shows the text as it is stored, escaped,
with the rows that speak against the tip; retiring and reactivating ask for a reason, take POST and a
token alone, need the permission to change tips, go through ``memory.retirement`` as the commands do, and
are written to the admin's log. Decides nothing by itself.

Shaped by: thirteen misleading tips that were found by a query in a notebook, and retired by an UPDATE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from memory.admin_base import ReadOnlyAdmin, excerpt
from memory.admin_desk import (
    DeskPage,
    ReasonForm,
    one_of,
    page_of,
    query_without_page,
    register_page,
    require,
    skill_asked,
    skills,
)
from memory.credit import Quadrant
from memory.models import Tip
from memory.retirement import RetirementError, reactivate, retire
from memory.tip_record import (
    POLICY,
    Against,
    Pool,
    by_policy,
    by_rule,
    flag_now,
    lines,
    rows_against,
    unit_of,
    worst,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest
    from django.urls import URLPattern

CHANGES_SHOWN: Final = 50

PAGE: Final = register_page(
    DeskPage(
        title="Misleading tips",
        says="What speaks against which tip, worst first; retire it, or take it back.",
        url_name="admin:memory_tip_misleading",
        needs=("memory.view_tip", "memory.view_tipevidence", "memory.view_retrieval"),
    )
)
MAY_DECIDE: Final = "memory.change_tip"


def record_url(tip_id: int) -> str:
    """Where the record of a tip is shown."""
    return reverse("admin:memory_tip_record", args=[tip_id])


class TipDesk(ReadOnlyAdmin):
    """The pages around tips, beside the list and the detail page of the table."""

    def get_urls(self) -> list[URLPattern]:
        """The pages, before those of the table, whose detail page takes any path."""
        site = self.admin_site.admin_view
        return [
            path("misleading/", site(self.misleading_view), name="memory_tip_misleading"),
            path("<int:tip_id>/record/", site(self.record_view), name="memory_tip_record"),
            path(
                "<int:tip_id>/retire/",
                site(require_POST(self.retire_view)),
                name="memory_tip_retire",
            ),
            path(
                "<int:tip_id>/reactivate/",
                site(require_POST(self.reactivate_view)),
                name="memory_tip_reactivate",
            ),
            *super().get_urls(),
        ]

    def misleading_view(self, request: HttpRequest) -> HttpResponse:
        """Tips with a record against them, filtered by skill, cause and pool."""
        require(request, *PAGE.needs)
        skill = skill_asked(request)
        against = one_of(Against, request.GET.get("against"), Against.MISLEADING)
        pool = one_of(Pool, request.GET.get("pool"), Pool.ACTIVE)
        page = page_of(request, worst(skill, against, pool))
        return self._page(
            request,
            "memory/desk/misleading.html",
            title=PAGE.title,
            page=page,
            lines=lines(skill, against, list(page)) if page else [],
            filters=query_without_page(request),
            skill=skill,
            skills=skills(),
            against=against,
            causes=list(Against),
            pool=pool,
            pools=list(Pool),
            policy=POLICY,
            unit=unit_of(skill),
        )

    def record_view(self, request: HttpRequest, tip_id: int) -> HttpResponse:
        """One tip: text, figures, rows against it, rules, changes, and the button."""
        require(request, *PAGE.needs)
        return self._record(request, get_object_or_404(Tip, pk=tip_id), ReasonForm())

    def _record(
        self, request: HttpRequest, tip: Tip, form: ReasonForm, status: int = 200
    ) -> HttpResponse:
        return self._page(
            request,
            "memory/desk/tip_record.html",
            status=status,
            title=f"Tip {excerpt(tip.external_id)}",
            tip=tip,
            flag=flag_now(tip),
            figures=by_policy(tip),
            rules=by_rule(tip),
            policy=POLICY,
            against=[
                (which, list(rows_against(tip, which)))
                for which in (Quadrant.MISLEADING, Quadrant.LUCKY_NEIGHBOUR)
            ],
            changes=tip.changes.order_by("-pk")[:CHANGES_SHOWN],
            may_decide=request.user.has_perm(MAY_DECIDE),
            form=form,
        )

    def retire_view(self, request: HttpRequest, tip_id: int) -> HttpResponse:
        """The button: out of the active pool."""
        return self._decide(request, tip_id, retire, "Retired")

    def reactivate_view(self, request: HttpRequest, tip_id: int) -> HttpResponse:
        """The button: back into the active pool."""
        return self._decide(request, tip_id, reactivate, "Reactivated")

    def _decide(
        self, request: HttpRequest, tip_id: int, verb: Callable[..., Tip], done: str
    ) -> HttpResponse:
        require(request, *PAGE.needs, MAY_DECIDE)
        tip = get_object_or_404(Tip, pk=tip_id)
        form = ReasonForm(request.POST)
        if not form.is_valid():
            return self._record(request, tip, form, status=400)
        reason = form.cleaned_data["reason"]
        try:
            tip = verb(tip_id, reason=reason, by=request.user.get_username())
        except RetirementError as error:
            self.message_user(request, excerpt(str(error), limit=500), messages.ERROR)
        else:
            self.log_change(request, tip, f"{done}: {excerpt(reason, limit=200)}")
            self.message_user(request, f"{done} tip {excerpt(str(tip))}.", messages.SUCCESS)
        return HttpResponseRedirect(record_url(tip_id))

    def _page(
        self, request: HttpRequest, template: str, *, status: int = 200, **context: Any
    ) -> HttpResponse:
        around = self.admin_site.each_context(request) | {"opts": self.opts}
        return TemplateResponse(request, template, around | context, status=status)
