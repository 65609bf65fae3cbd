"""What must hold of a run after any fault: final, whole, judged, and counted once.

Guarantees: everything is read from the tables by plain SQL, except the recount, which the dream pass
itself makes anew from the same tables; a run that was whole once is looked at again at the end of the
session, so what a straggler spoils later is seen as well.

Does not judge the labels: the stand-in's answers are no judgements.
Shaped by "exactly once" claims that were checked by counting log lines.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import django.db
from django.db import connections

if TYPE_CHECKING:
    from tests.faults.harness import System
    from tests.faults.runs import FaultRun

STRUCTURAL = ("not_shown", "no_script")
OPEN_WORK = """
    SELECT runs.status,
        count(*) FILTER (WHERE llm_retry_at IS NOT NULL) AS retries,
        count(*) FILTER (WHERE tip_followed_llm IS NOT NULL) AS labels,
        count(*) AS rows
    FROM runs LEFT JOIN tip_retrievals r ON r.run_id = runs.id
    WHERE external_id = %s GROUP BY runs.id"""


def settle(system: System, run: FaultRun, *, unlabelled: int = 0, within: float = 60.0) -> float:
    """Wait until the run is final and every row that can be judged is; seconds it took."""

    def settled() -> bool:
        found = system.query(OPEN_WORK, run.external_id)
        return bool(found) and (
            found[0]["status"] == "done"
            and found[0]["retries"] == 0
            and found[0]["labels"] == run.judgeable - unlabelled
        )

    took = system.wait_for(settled, within=within, what=f"{run.external_id} final and judged")
    system.finished.append((run, unlabelled))
    return took


def assert_whole(system: System, run: FaultRun, *, unlabelled: int = 0) -> None:
    """Every promise about a run that is over. *unlabelled*: rows the judge could not answer."""
    stored = system.query("SELECT * FROM runs WHERE external_id = %s", run.external_id)
    assert len(stored) == 1, "the run is there once"
    assert stored[0]["status"] == "done"
    run_id, rounds = stored[0]["id"], stored[0]["scoring_round"]
    _assert_rows(system, run, run_id, unlabelled)
    _assert_judgements(system, run_id)
    _assert_batches(system, run_id, unlabelled)
    _assert_recount(system, run, run_id, rounds)


def _assert_rows(system: System, run: FaultRun, run_id: int, unlabelled: int) -> None:
    rows = system.query(
        """SELECT r.*, a.rule_id AS rule, t.external_id AS tip FROM tip_retrievals r
        JOIN attempts a ON a.id = r.attempt_id JOIN tips t ON t.id = r.tip_id
        WHERE r.run_id = %s""",
        run_id,
    )
    posted = sorted(
        (attempt["rule_id"], entry["tip"])
        for attempt in run.envelope["attempts"]
        for entry in attempt["retrievals"]
    )
    assert sorted((row["rule"], row["tip"]) for row in rows) == posted, "every row is there once"
    without = [row for row in rows if row["tip_followed_llm"] is None]
    assert all(row["llm_reason"] for row in without), "no label, and no reason either"
    open_reasons = [r["llm_reason"] for r in without if r["llm_reason"] not in STRUCTURAL]
    assert len(open_reasons) == unlabelled, open_reasons
    for row in rows:
        if row["tip_followed_llm"] is not None:
            assert (row["llm_reason"], row["llm_retry_at"]) == ("", None)
            assert row["llm_source"].startswith("stand-in-judge@")
        structural = row["llm_reason"] in STRUCTURAL
        assert (row["tip_followed_emb"] is None) == structural, row["emb_reason"]
        assert row["tip_followed_trace"] is not None or row["trace_reason"]


def _assert_judgements(system: System, run_id: int) -> None:
    """A label on the row is the label of exactly one judgement; no row has two."""
    odd = system.query(
        """SELECT r.id, r.tip_followed_llm, array_agg(j.followed) AS given FROM tip_retrievals r
        LEFT JOIN scoring_judgement j ON j.retrieval_id = r.id AND j.followed IS NOT NULL
        WHERE r.run_id = %s GROUP BY r.id HAVING array_agg(j.followed) <> ARRAY[tip_followed_llm]""",
        run_id,
    )
    assert odd == []


def _assert_batches(system: System, run_id: int, unlabelled: int) -> None:
    found = system.query("SELECT state FROM scoring_scorebatch WHERE run_id = %s", run_id)
    states = {row["state"] for row in found}
    assert states <= ({"done", "failed"} if unlabelled else {"done"}), states


def _assert_recount(system: System, run: FaultRun, run_id: int, rounds: int) -> None:
    """At most one dream pass per round (none where it changed nothing); the last is the rows' own."""
    passes = system.query(
        "SELECT number, retrievals, summary FROM dream_passes WHERE run_id = %s ORDER BY number",
        run_id,
    )
    numbers = [row["number"] for row in passes]
    assert numbers[0] == 1
    assert numbers == sorted(set(numbers))
    assert numbers[-1] <= rounds
    assert {row["retrievals"] for row in passes} == {run.rows}
    stages = system.query("SELECT stage, state FROM dream_stages WHERE run_id = %s", run_id)
    assert {(row["stage"], row["state"]) for row in stages} == {
        (stage, "done") for stage in ("score", "credit", "evict", "report")
    }
    fresh = recount(system, run_id)
    assert passes[-1]["summary"] == json.loads(json.dumps(fresh)), "the last pass is not the rows'"


class _ToSystem:
    """Database router: everything goes to the system under test."""

    def db_for_read(self, _model: Any, **_hints: Any) -> str:
        return "system_under_test"


def recount(system: System, run_id: int) -> dict[str, Any]:
    """The dream pass of a run, computed now, by the product, from the system's tables."""
    from memory.credit import policy_named
    from memory.models import Run
    from memory.summary import summarise

    parts = urlsplit(system.database_url)
    place = parse_qs(parts.query)
    alias = "system_under_test"
    connections.settings[alias] = connections.settings["default"] | {
        "NAME": parts.path.strip("/"),
        "HOST": place["host"][0],
        "PORT": place["port"][0],
        "CONN_MAX_AGE": 0,
    }
    before = django.db.router.routers
    django.db.router.routers = [_ToSystem()]
    try:
        return summarise(Run.objects.get(pk=run_id), policy=policy_named("adr0019"))
    finally:
        django.db.router.routers = before
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def survive(system: System, run: FaultRun, *, unlabelled: int = 0, within: float = 60.0) -> float:
    """Wait for the run's end and check every promise about it."""
    took = settle(system, run, unlabelled=unlabelled, within=within)
    assert_whole(system, run, unlabelled=unlabelled)
    return took


def assert_nothing_moved(system: System) -> None:
    """Every run that was whole once still is: no straggler has spoiled it."""
    for run, unlabelled in system.finished:
        assert_whole(system, run, unlabelled=unlabelled)
