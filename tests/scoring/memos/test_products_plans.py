"""What a snapshot reads: rows of its subject, by index, never the history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.models import Tip
from scoring.memos.products import snapshot_of
from tests.scoring.memos.worlds import make_memo_world

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db

HISTORY = {"tip_retrievals", "attempts", "run_evidence", "tip_evidence", "dream_passes", "tips"}
"""Tables that grow with every run. ``runs`` is read for a skill's latest, by its index too."""


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def plans_of(product: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    with CaptureQueriesContext(connection) as queries:
        snapshot_of(product, name, skill="stig")
    found = []
    with connection.cursor() as cursor:
        # a table of ten rows is read from end to end unless that is ruled out
        cursor.execute("SET LOCAL enable_seqscan = off")
        for query in queries.captured_queries:
            if not query["sql"].lstrip().upper().startswith("SELECT"):
                continue
            cursor.execute(f"EXPLAIN (FORMAT JSON) {query['sql']}")
            (row,) = cursor.fetchone()
            plan = row if isinstance(row, list) else json.loads(row)
            found += [(query["sql"], node) for node in nodes(plan[0]["Plan"])]
    return found


def many_tips() -> None:
    """Of a few tips, some partial index holds so few that to read it whole is as good as any plan."""
    Tip.objects.bulk_create(
        Tip(skill="other", external_id=f"t{n}", text=f"t{n}", words_sha256=f"{n}", category="c")
        for n in range(3_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE tips")


@pytest.mark.parametrize(
    ("product", "name"), [("run", "run-b"), ("tip", "tip-bad"), ("category", "ssh")]
)
def test_no_table_that_grows_with_the_history_is_scanned(
    settings: Any, product: str, name: str
) -> None:
    settings.MEMOS, settings.SIGNALS = "off", ["trace"]
    make_memo_world()
    many_tips()
    found = plans_of(product, name)
    read = {node.get("Relation Name") for _, node in found} & HISTORY
    assert read, "nothing was read at all"
    for sql, node in found:
        if node.get("Relation Name") in HISTORY:
            assert node["Node Type"] != "Seq Scan", sql
            condition = node.get("Index Cond") or node.get("Recheck Cond")
            assert condition or node["Node Type"] == "Bitmap Heap Scan", (sql, node)


def test_a_tip_is_told_without_reading_a_retrieval(settings: Any) -> None:
    settings.MEMOS, settings.SIGNALS = "off", ["trace"]
    make_memo_world()
    read = {node.get("Relation Name") for _, node in plans_of("tip", "tip-bad")}
    assert "tip_evidence" in read
    assert not read & {"tip_retrievals", "attempts", "run_evidence"}
