"""What every admin page here has in common: it shows rows and changes none.

Guarantees: no page adds, edits or deletes, whoever is logged in, because rows are facts of a run;
searching compares whole ids, each through an index of its own; lists fetch what they show in a fixed
number of queries; text of strangers is escaped by Django and freed of invisible characters here. Does
not hide a column: a detail page shows the row as it is stored. Does not avoid counting: the pages of a
list are numbered, so that opening an unfiltered one counts its table once.

Shaped by: an admin in which one careless save could turn a reported outcome into another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.db.models import Q

from memory.terminal import visible

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

    BaseAdmin = admin.ModelAdmin[Any]
else:
    BaseAdmin = admin.ModelAdmin

BIGINT_MAX = 2**63 - 1
EXCERPT = 80


def excerpt(text: str, limit: int = EXCERPT) -> str:
    """The beginning of *text* on one line, for a list; escaped by the template like any text."""
    return visible(text, limit=limit)


class ReadOnlyAdmin(BaseAdmin):
    """A model admin that cannot write. ``unlisted``: wide columns that lists do not load."""

    list_per_page = 50
    list_max_show_all = 200
    show_full_result_count = False
    unlisted: ClassVar[tuple[str, ...]] = ()

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never; the view permission opens the pages."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: nothing is deleted, tips retire and runs are superseded."""
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Lists leave wide columns in the database; a detail page fetches them when it needs them."""
        rows = super().get_queryset(request)
        match = request.resolver_match
        in_list = match is not None and (match.url_name or "").endswith("_changelist")
        return rows.defer(*self.unlisted) if in_list else rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Rows with exactly this id: the term is compared whole, spaces included.

        A union of one search per field: each can use the index of its own table, which no plan
        can do for an OR over columns of several tables.
        """
        term = search_term.strip()
        if not term:
            return queryset, False
        conditions = [Q(**{field: term}) for field in self.get_search_fields(request)]
        # by length first: Python refuses to read thousands of digits
        if term.isascii() and term.isdigit() and len(term) < 20 and int(term) <= BIGINT_MAX:
            conditions.append(Q(pk=int(term)))
        if not conditions:  # a page without search fields knows primary keys only
            return queryset.none(), False
        rows = self.model._default_manager.order_by().values("pk")
        first, *others = (rows.filter(condition) for condition in conditions)
        return queryset.filter(pk__in=first.union(*others)), False
