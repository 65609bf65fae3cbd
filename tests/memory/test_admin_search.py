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

from memory.models import (
    Attempt,
    Ban,
    DreamPass,
    DreamStage,
    EvictionSweep,
    OutcomeRevision,
    Retrieval,
    Run,
    RunEvidence,
    SweepEntry,
    Tip,
    TipChange,
    TipEvidence,
    TipVector,
)
from scoring.models import EscalationBudget, Judgement, Review, ScoreBatch
from tests import factories as make
from tests.factories import MOMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import Model, QuerySet

pytestmark = pytest.mark.django_db

ROWS = 1500
"""Of each table: enough that reading all of them is the dearer plan."""
MODELS = (
    Run, Attempt, Tip, Retrieval, DreamPass, DreamStage, ScoreBatch, Judgement, Review, RunEvidence,
    TipEvidence, EvictionSweep, SweepEntry, TipChange, OutcomeRevision, Ban, TipVector,
    EscalationBudget,
)  # fmt: skip


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
    row = make.make_retrieval(attempt=make.make_attempt())
    runs = copies(row.run, related={}, external_id="run #{}")
    tips = copies(row.tip, related={}, external_id="tip #{}", source_rule_id="source #{}")
    attempts = copies(row.attempt, related={"run": runs}, rule_id="rule #{}")
    rows = copies(row, related={"run": runs, "tip": tips, "attempt": attempts}, rule_id="rule #{}")
    copies(make.make_dream_pass(run=row.run), related={"run": runs})
    batch = ScoreBatch(
        run=row.run, round=1, signal="judge", number=1, first_id=1, last_id=2, changed_at=MOMENT
    )
    copies(batch, related={"run": runs})
    copies(Judgement(retrieval=row, followed=True), related={"retrieval": rows})
    copies(Review(retrieval=row, followed=True, by="x"), related={"retrieval": rows})
    sums = make.NO_SUMS | {"policy": "adr0019"}
    copies(RunEvidence(run=row.run, tip=row.tip, **sums), related={"run": runs, "tip": tips})
    copies(TipEvidence(skill="stig", level="tip", tip=row.tip, **sums), related={"tip": tips})
    sweep = make.make_sweep(run=row.run)
    copies(sweep, related={"run": runs}, skill="skill #{}")
    entry = make.make_sweep_entry(sweep=sweep, tip=row.tip)
    copies(entry, related={"tip": tips[1:] + tips[:1]})
    copies(make.make_tip_change(tip=row.tip), related={"tip": tips})
    copies(make.make_revision(attempt=row.attempt), related={"attempt": attempts})
    copies(make.make_ban(run=row.run), related={"run": runs}, skill="skill #{}")
    copies(make.make_dream_stage(run=row.run), related={"run": runs})
    copies(TipVector(tip=row.tip, skill="stig", values=[1.0]), related={"tip": tips})
    copies(EscalationBudget(run=row.run), related={"run": runs})
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


@pytest.mark.django_db
@pytest.mark.parametrize("term", ["9" * 19, "9" * 20, "9" * 5_000, "1" * 5_000, "٣" * 5])
def test_a_number_that_no_key_can_be_finds_nothing(term: str) -> None:
    for model in MODELS:
        assert not searched(model, term).exists()


@pytest.mark.usefixtures("many_rows")
def test_a_search_reads_no_table_whole_and_finds_the_row() -> None:
    names = ("run #7", "tip #7", "rule #7", "source #7", "skill #7")
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
        "DreamStage": {"run #7"},
        "Review": {"tip #7"},
        "RunEvidence": {"run #7"},
        "TipEvidence": {"tip #7"},
        "EvictionSweep": {"run #7", "skill #7"},
        "SweepEntry": {"tip #7"},
        "TipChange": {"tip #7"},
        "OutcomeRevision": {"rule #7"},
        "Ban": {"run #7", "skill #7"},
        "TipVector": {"tip #7"},
        "EscalationBudget": {"run #7"},
    }
