"""What the admin pages of rows that a judge answered have in common: the judge's name, and its mark.

Guarantees: a list and a detail page ask once for all the judges that they show; a judge that no
calibration covers is marked beside its name. Names of models come from settings and servers: they are
escaped by Django and freed of invisible characters here. Does not show what a calibration found.

Shaped by: a list of verdicts in which nothing told the measured judge from the one tried yesterday.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from memory.admin_base import ReadOnlyAdmin, excerpt
from memory.provenance import UNCALIBRATED, standing_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.http import HttpRequest

SHA_SHOWN = 12


class JudgedRowsAdmin(ReadOnlyAdmin):
    """A read-only model admin whose rows name a judge; ``source_of`` says which."""

    def source_of(self, row: Any) -> str:
        """Model @ prompt sha256; empty: no judge."""
        raise NotImplementedError

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The page of the list, its rows marked."""
        found = super().get_changelist_instance(request)
        self._mark(found.result_list)
        return found

    def get_object(self, request: HttpRequest, *args: Any, **named: Any) -> Any:
        """The row of a detail page, marked."""
        row = super().get_object(request, *args, **named)
        self._mark([] if row is None else [row])
        return row

    def _mark(self, rows: Iterable[Any]) -> None:
        uncalibrated = standing_of(self.source_of(row) for row in rows).uncalibrated
        for row in rows:
            row.judge_is_uncalibrated = self.source_of(row) in uncalibrated

    @admin.display(description="judge")
    def judge(self, row: Any) -> str:
        """Model and beginning of the prompt's sha256, with the mark."""
        model, _, prompt_sha256 = self.source_of(row).rpartition("@")
        if not model:
            return ""
        mark = f" ({UNCALIBRATED})" if row.judge_is_uncalibrated else ""
        return f"{excerpt(model)}@{excerpt(prompt_sha256[:SHA_SHOWN])}{mark}"
