"""Searching the admin by a whole id is answered by an index, in every list, and finds what it names.

Shaped by: one OR over columns of three tables, for which Postgres reads the widest of them whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import RequestFactory

from memory.models import Attempt, DreamPass, Retrieval, Run, Tip
from scoring.models import Judgement, ScoreBatch
from tests.factories import MOMENT, make_attempt, make_dream_pass, make_retrieval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import Model, QuerySet

pytestmark = pytest.mark.django_db

ROWS = 1500
"""Of each table: enough that reading all of them is the dearer plan."""
MODELS = (Run, Attempt, Tip, Retrieval, DreamPass, ScoreBatch, Judgement)


def copies(template: Model, *, related: dict[str, list[Any]], **names: str) -> list[Any]:
    """Rows like *template*, each with relations and names of its own."""
    model = type(template)
    columns = {
        field.attname: getattr(template, field.attname)
        for field in model._meta.concrete_fields
        if not field.primary_key and field.name not in related
    }
    rows = [
        model(
            **columns
            | {name: text.format(number) for name, text in names.items()}
            | {name: rows[number] for name, rows in related.items()}
        )
        for number in range(ROWS)
    ]
    return model._default_manager.bulk_create(rows)


@pytest.fixture
def many_rows() -> None:
    """A world of many runs, each with one row of every other kind."""
    row = make_retrieval(attempt=make_attempt())
    runs = copies(row.run, related={}, external_id="run #{}")
    tips = copies(row.tip, related={}, external_id="tip #{}", source_rule_id="source #{}")
    attempts = copies(row.attempt, related={"run": runs}, rule_id="rule #{}")
    rows = copies(row, related={"run": runs, "tip": tips, "attempt": attempts}, rule_id="rule #{}")
    copies(make_dream_pass(run=row.run), related={"run": runs})
    batch = ScoreBatch(
        run=row.run, round=1, signal="judge", number=1, first_id=1, last_id=2, changed_at=MOMENT
    )
    copies(batch, related={"run": runs})
    copies(Judgement(retrieval=row, followed=True), related={"retrieval": rows})
    with connection.cursor() as cursor:
        for model in MODELS:
            cursor.execute(f"ANALYZE {connection.ops.quote_name(model._meta.db_table)}")


def searched(model: type[Model], term: str) -> QuerySet[Any]:
    """The first page of a search, as the list asks for it."""
    site = admin.site._registry[model]
    request = RequestFactory().get("/", {"q": term})
    rows, _ = site.get_search_results(request, model._default_manager.all(), term)
    if site.list_select_related:
        rows = rows.select_related(*site.list_select_related)
    return rows.order_by("-pk")[:50]


def leading_columns() -> dict[str, str]:
    """The first column of each index: a condition on the others alone reads the index whole."""
    with connection.cursor() as cursor:
        return {
            name: found["columns"][0]
            for model in MODELS
            for name, found in connection.introspection.get_constraints(
                cursor, model._meta.db_table
            ).items()
            if found["index"] or found["unique"]
        }


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every step of a plan."""
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


@pytest.mark.usefixtures("many_rows")
def test_a_search_reads_no_table_whole_and_finds_the_row() -> None:
    names = ("run #7", "tip #7", "rule #7", "source #7")
    leading = leading_columns()
    found: dict[str, set[str]] = {}
    for model in MODELS:
        for term in (*names, "stig" if model is not Run else "no such skill", "1234567"):
            rows = searched(model, term)
            if term in names and rows:
                found.setdefault(model.__name__, set()).add(term)
            (plan,) = json.loads(rows.explain(format="json"))
            for node in nodes(plan["Plan"]):
                assert node["Node Type"] != "Seq Scan", (model, term, node)
                if index := node.get("Index Name"):
                    assert leading[index] in node.get("Index Cond", ""), (model, term, node)
    assert found == {
        "Run": {"run #7"},
        "Attempt": {"run #7", "rule #7"},
        "Tip": {"tip #7", "source #7"},
        "Retrieval": {"run #7", "tip #7", "rule #7"},
        "DreamPass": {"run #7"},
        "ScoreBatch": {"run #7"},
        "Judgement": {"tip #7"},
    }
