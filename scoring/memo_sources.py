"""From a fact's provenance to the admin pages of its rows.

Guarantees: only tables of ours that have pages are linked; a list is filtered by columns that it has,
with values that are encoded; what a list cannot be filtered by is said beside the link, so that nobody
takes more rows for those that were counted. What is no provenance of ours (an address in a file of facts)
stays text: no link leads out of the admin.

Checks no permission: the page behind the link does. Source: issue 5 (item 9).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db.models import BooleanField, ForeignKey, IntegerField
from django.urls import reverse

from memory.admin_base import ReadOnlyAdmin
from memory.credit import SUCCESS_ABOVE

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite
    from django.db.models import Model

_HELD: Final = re.compile(r"(?P<table>[a-z_]+):(?P<key>[0-9]{1,18})(?:#(?P<path>.*))?", re.DOTALL)
_COUNTED: Final = re.compile(r"(?P<table>[a-z_]+)\?(?P<query>.*)", re.DOTALL)
_WHOLE: Final = re.compile(r"[0-9]{1,18}")

OUTCOMES: Final[dict[str, dict[str, Any]]] = {
    "success": {"outcome_value__gt": SUCCESS_ABOVE},
    "failure": {"outcome_value__lte": SUCCESS_ABOVE},
    "none": {"outcome_value__isnull": True},
}


@dataclass(frozen=True, slots=True)
class Source:
    """One reference: ``text`` as it stands there, ``url`` of a page of the admin or "".

    ``only``: which of the listed rows are meant, where the list shows more; "" if it shows those alone.
    """

    text: str
    url: str = ""
    only: str = ""


def source_of(reference: str, site: AdminSite) -> Source:
    """Return where the rows of ``reference`` are shown; see ``scoring.memos.ledger`` for its form."""
    if held := _HELD.fullmatch(reference):
        model = _shown_there(held["table"], site)
        url = _page(model, "change", int(held["key"])) if model else ""
        return Source(reference, url)
    if counted := _COUNTED.fullmatch(reference):
        model = _shown_there(counted["table"], site)
        if model is not None:
            return _list(reference, model, counted["query"])
    return Source(reference)


def _shown_there(table: str, site: AdminSite) -> type[Model] | None:
    for model in apps.get_models():
        if model._meta.db_table == table and site.is_registered(model):
            return model if isinstance(site.get_model_admin(model), ReadOnlyAdmin) else None
    return None


def _page(model: type[Model], page: str, *args: int) -> str:
    meta = model._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{page}", args=args)


def _list(reference: str, model: type[Model], query: str) -> Source:
    filters: dict[str, Any] = {}
    left = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        found = _filter(model, name, value)
        filters |= found
        if not found:
            left.append(f"{name} {value}")
    url = _page(model, "changelist")
    return Source(reference, f"{url}?{urlencode(filters)}" if filters else url, ", ".join(left))


def _filter(model: type[Model], name: str, value: str) -> dict[str, Any]:
    """What the admin's list of ``model`` takes for this condition, empty if it has no such filter."""
    field = _field(model, name)
    if field is None:
        by_value = _field(model, "outcome_value") is not None and name == "outcome"
        return OUTCOMES.get(value, {}) if by_value else {}
    if isinstance(field, ForeignKey | IntegerField) and not _WHOLE.fullmatch(value):
        return {}
    if isinstance(field, BooleanField) and value not in {"True", "False"}:
        return {}
    return {f"{field.name}__exact": value}


def _field(model: type[Model], name: str) -> Any:
    """The column called so, as provenance calls it (``run_id``); None if there is none."""
    try:
        field = model._meta.get_field(name.removesuffix("_id"))
    except FieldDoesNotExist:
        try:
            field = model._meta.get_field(name)
        except FieldDoesNotExist:
            return None
    return field if getattr(field, "attname", None) == name else None
