"""Eviction sweeps in the admin: what was caught and why, with the buttons that apply and undo it.

Guarantees: as ``memory.admin_base`` says for the tables; the two buttons take POST and a token alone,
need the permission to change sweeps, call ``memory.eviction`` as the commands do, and are written to the
admin's log. A page shows at most ENTRIES_SHOWN entries and links to the list of all. Above the list of
sweeps stand the retired tips that their skill's gate would not catch any more, at most ENTRIES_SHOWN:
found by sums, and the rows of those that are shown alone are read. Makes no sweep, and does not count the
visits since a tip was retired: ``manage.py sweep SKILL`` does both; a run's dream pass sweeps as well.

Shaped by: an undo that nobody but the database's owner could do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin, messages
from django.db.models import Count, IntegerField, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from contextgraph.skills import SkillError
from memory.admin_base import ReadOnlyAdmin, excerpt
from memory.admin_desk import DeskPage, register_page, require
from memory.cleared_tips import cleared, described
from memory.credit import UnknownPolicy
from memory.eviction import State, SweepError, apply, undo
from memory.eviction_gate import GateError, gate_of
from memory.models import EvictionSweep, SweepEntry, Tip, TipChange
from memory.retirement import RetirementError
from memory.sweep_render import gate_line
from memory.sweep_view import sweep_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.urls import URLPattern

    from memory.eviction import Change

ENTRIES_SHOWN: Final = 200
MAY_SWEEP: Final = "memory.change_evictionsweep"

register_page(
    DeskPage(
        title="Eviction sweeps",
        says="What the gate caught and why; apply a preview, undo what was applied.",
        url_name="admin:memory_evictionsweep_changelist",
        needs=("memory.view_evictionsweep",),
    )
)


def _entries(**filters: Any) -> Coalesce:
    """The number of a sweep's entries; asked per row, so that a page counts no other sweep's."""
    rows = SweepEntry.objects.filter(sweep=OuterRef("pk"), **filters).order_by()
    counted = rows.values("sweep").annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


def _cleared() -> dict[str, Any]:
    """The retired tips of all skills that the gates would let go, and the gates that cannot be used."""
    swept = Tip.objects.filter(retired_sweep__isnull=False).order_by("skill")
    found: list[dict[str, Any]] = []
    errors: list[str] = []
    for skill in swept.values_list("skill", flat=True).distinct():
        try:
            found += cleared(skill, gate_of(skill))
        except (GateError, UnknownPolicy, SkillError) as error:
            errors.append(f"{skill}: {error}")
    shown = found[:ENTRIES_SHOWN]
    more = len(found) - len(shown)
    return {"cleared": described(shown), "cleared_more": more, "gate_errors": errors}


@admin.register(EvictionSweep)
class EvictionSweepAdmin(ReadOnlyAdmin):
    """Sweeps, latest first."""

    change_form_template = "memory/desk/sweep.html"
    change_list_template = "memory/desk/sweeps.html"
    list_display = (
        "id", "skill", "state", "policy", "threshold", "active", "with_evidence", "caught",
        "retired", "given_back", "run", "created_at", "created_by", "applied_by", "undone_by",
    )  # fmt: skip
    list_select_related = ("run",)
    list_filter = ("state",)
    search_fields = ("skill", "run__external_id")
    search_help_text = "skill, external id of the run or primary key, whole"
    ordering = ("-id",)
    unlisted = ("run__extra", "run__hazards")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With the numbers of entries."""
        rows: QuerySet[Any] = (
            super()
            .get_queryset(request)
            .annotate(
                caught=_entries(),
                retired=_entries(retired=True),
                given_back=_entries(given_back=True),
            )
        )
        return rows

    @admin.display(description="threshold")
    def threshold(self, sweep: EvictionSweep) -> str:
        """On the scale of the policy."""
        return f"{sweep.gate['threshold']:+.3f}" if "threshold" in sweep.gate else ""

    @admin.display(description="caught")
    def caught(self, sweep: Any) -> int:
        """Tips that the gate caught, those over the cap included."""
        return int(sweep.caught)

    @admin.display(description="retired")
    def retired(self, sweep: Any) -> int:
        """Tips that it retired."""
        return int(sweep.retired)

    @admin.display(description="given back")
    def given_back(self, sweep: Any) -> int:
        """Tips that its undoing gave back."""
        return int(sweep.given_back)

    def get_urls(self) -> list[URLPattern]:
        """The two buttons."""
        site = self.admin_site.admin_view
        return [
            path(
                "<int:sweep_id>/apply/",
                site(require_POST(self.apply_view)),
                name="memory_evictionsweep_apply",
            ),
            path(
                "<int:sweep_id>/undo/",
                site(require_POST(self.undo_view)),
                name="memory_evictionsweep_undo",
            ),
            *super().get_urls(),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The sweeps, and what may come back."""
        more = _cleared() if self.has_view_permission(request) else {}
        return super().changelist_view(request, (extra_context or {}) | more)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The sweep's columns, its entries, and the button that fits its state."""
        sweep = self.get_object(request, object_id) if self.has_view_permission(request) else None
        more: dict[str, Any] = {}
        if sweep is not None:
            entries = list(sweep.entries.order_by("pk")[:ENTRIES_SHOWN])
            verb = {State.PREVIEWED: "apply", State.APPLIED: "undo"}.get(State(sweep.state))
            more = {
                "entries": sweep_view(sweep, entries)["entries"],
                "caught": sweep.caught,
                "gate": gate_line(sweep.gate),
                "verb": verb if request.user.has_perm(MAY_SWEEP) else None,
            }
        return super().change_view(request, object_id, form_url, (extra_context or {}) | more)

    def apply_view(self, request: HttpRequest, sweep_id: int) -> HttpResponse:
        """The button: retire what was caught."""
        return self._do(request, sweep_id, apply, "retired")

    def undo_view(self, request: HttpRequest, sweep_id: int) -> HttpResponse:
        """The button: give back what was retired."""
        return self._do(request, sweep_id, undo, "gave back")

    def _do(
        self, request: HttpRequest, sweep_id: int, verb: Callable[..., Change], did: str
    ) -> HttpResponse:
        require(request, "memory.view_evictionsweep", MAY_SWEEP)
        get_object_or_404(EvictionSweep, pk=sweep_id)
        try:
            change = verb(sweep_id, by=request.user.get_username())
        except (SweepError, RetirementError) as error:
            self.message_user(request, excerpt(str(error), limit=500), messages.ERROR)
        else:
            said = f"Sweep {sweep_id} {did} {len(change.tips)} tips, left {len(change.left)}."
            self.log_change(request, change.sweep, said)
            self.message_user(request, said, messages.SUCCESS)
        url = reverse("admin:memory_evictionsweep_change", args=[sweep_id])
        return HttpResponseRedirect(url)


@admin.register(SweepEntry)
class SweepEntryAdmin(ReadOnlyAdmin):
    """Tips that a gate caught."""

    list_display = (
        "id", "sweep_id", "tip", "cause", "mean", "low", "high", "visits", "over_cap", "retired",
        "given_back",
    )  # fmt: skip
    list_select_related = ("tip",)
    list_filter = ("cause", "over_cap", "retired", "given_back")
    search_fields = ("tip__external_id",)
    search_help_text = "external id of the tip or primary key, whole"
    ordering = ("-id",)
    unlisted = ("figures", "tip__text", "tip__mechanism", "tip__extra")


@admin.register(TipChange)
class TipChangeAdmin(ReadOnlyAdmin):
    """Retirements and returns, latest first."""

    list_display = ("id", "tip", "action", "why", "by", "at", "sweep_id")
    list_select_related = ("tip",)
    list_filter = ("action",)
    search_fields = ("tip__external_id",)
    search_help_text = "external id of the tip or primary key, whole"
    ordering = ("-id",)
    unlisted = ("tip__text", "tip__mechanism", "tip__extra")

    @admin.display(description="reason")
    def why(self, change: TipChange) -> str:
        """The reason, cut."""
        return excerpt(change.reason, limit=160)
