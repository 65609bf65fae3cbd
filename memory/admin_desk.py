"""The reviewers' desk: pages of the admin that are no list of a table, and what they have in common.

Guarantees: a page is listed on the admin's front page for those who may open it, and opens for nobody
else; who may press a button is asked again when it is pressed, by POST with a token; no page has inline
scripts or styles. Numbers of pages are counted over what the page's own query reads, never a whole
history.

Shaped by: reviewers who were given a table of six thousand rows and a filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator

from memory.models import Run
from memory.querysets import can_be_stored

if TYPE_CHECKING:
    from django.core.paginator import Page
    from django.db.models import QuerySet
    from django.http import HttpRequest

REASON_LENGTH: Final = 2_000
PER_PAGE: Final = 50

admin.site.index_template = "memory/desk/index.html"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeskPage:
    """A page on the admin's front page. ``url_name``: as for ``reverse``; ``needs``: permissions."""

    title: str
    says: str
    url_name: str
    needs: tuple[str, ...]


_pages: list[DeskPage] = []


def register_page(page: DeskPage) -> DeskPage:
    """List *page* on the front page; once, however often the module is loaded."""
    if page not in _pages:
        _pages.append(page)
    return page


def pages_for(user: Any) -> list[DeskPage]:
    """The registered pages that *user* may open, by title."""
    mine = [page for page in _pages if user.has_perms(page.needs)]
    return sorted(mine, key=lambda page: page.title)


def require(request: HttpRequest, *permissions: str) -> None:
    """Raise PermissionDenied unless the request's user has all *permissions*."""
    if not request.user.has_perms(permissions):
        raise PermissionDenied


class ReasonForm(forms.Form):
    """Why a person does it."""

    reason = forms.CharField(
        max_length=REASON_LENGTH, widget=forms.Textarea(attrs={"rows": 2, "cols": 60})
    )


def page_of(request: HttpRequest, rows: QuerySet[Any], *, per_page: int = PER_PAGE) -> Page[Any]:
    """The page of *rows* that ``?page=`` names; the nearest one when there is no such page."""
    return Paginator(rows, per_page).get_page(request.GET.get("page"))


def query_without_page(request: HttpRequest) -> str:
    """The request's filters, for links to other pages of the same list."""
    query = request.GET.copy()
    query.pop("page", None)
    return query.urlencode()


def skills() -> list[str]:
    """The skills that have runs, by name."""
    return list(Run.objects.order_by("skill").values_list("skill", flat=True).distinct())


def skill_asked(request: HttpRequest) -> str:
    """The skill that ``?skill=`` names, else that of the latest run; empty when there is no run."""
    asked = request.GET.get("skill", "")
    if asked and can_be_stored(asked):
        return asked
    return Run.objects.order_by("-pk").values_list("skill", flat=True).first() or ""


def one_of(vocabulary: Any, word: str | None, otherwise: Any) -> Any:
    """The member of an enumeration whose value is *word*; *otherwise* for any other word."""
    return vocabulary(word) if word in set(vocabulary) else otherwise
