"""Runs that the tests of re-grading and late verdicts are about, and all that is derived from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from contextgraph import pipeline
from contextgraph.ingest import LogFacts, ingest_records
from memory.models import (
    Attempt,
    DreamPass,
    OutcomeRevision,
    Retrieval,
    Run,
    RunEvidence,
    Tip,
    TipEvidence,
)
from tests.contextgraph.run_documents import attempt, run, tip

if TYPE_CHECKING:
    from contextgraph.envelope import Record

TIP = "Write the line: echo 'option on' to /etc/app.conf"
SCRIPT = "echo 'option on' > /etc/app.conf\n"


def stored(*records: Record, external_id: str = "night-1") -> Run:
    """A run that went the whole way."""
    body = run(*records, external_id=external_id)
    [result] = ingest_records(lambda: body, log=LogFacts())
    return finished(result.run_id)


def finished(run_id: int) -> Run:
    for _ in range(6):
        pipeline.reap(inline=True, impatient=True)
        if (found := Run.objects.get(pk=run_id)).status == "done":
            return found
    pytest.fail(f"still {found.status}")


def broken_app(rule_id: str = "sshd_banner", **fields: Any) -> Record:
    """The application died, and upstream's evaluator read that as healthy."""
    raw = {"health": "UNHEALTHY: app\n- web: down", "health_ok": True, "rule_check": "Result pass"}
    return attempt(rule_id, script=SCRIPT, passed=True, evaluator_raw=raw, **fields)


def failed_password(number: int = 1, **fields: Any) -> Record:
    """The rule failed, and its id holds "pass"."""
    raw = {"health": "HEALTHY: app", "rule_check": "accounts_password_minlen = FAIL"}
    return attempt(
        "accounts_password_minlen",
        number=number,
        script=SCRIPT,
        passed=True,
        evaluator_raw=raw,
        **fields,
    )


def honest(rule_id: str = "sshd_port", **fields: Any) -> Record:
    raw = {"health": "HEALTHY: app", "rule_check": "Result pass"}
    return attempt(rule_id, script=SCRIPT, passed=True, evaluator_raw=raw, **fields)


def upstream_run(external_id: str = "night-1") -> Run:
    return stored(
        tip("t1", TIP),
        broken_app(),
        failed_password(),
        failed_password(2),
        honest(),
        external_id=external_id,
    )


def outcomes() -> dict[str, tuple[float | None, str, str]]:
    rows = Attempt.objects.order_by("rule_id", "number")
    return {
        f"{row.rule_id} #{row.number}": (row.outcome_value, row.failure_mode, row.outcome_grader)
        for row in rows
    }


TABLES = (Run, Attempt, Retrieval, Tip, RunEvidence, TipEvidence, DreamPass, OutcomeRevision)


def everything() -> list[list[dict[str, Any]]]:
    return [list(model._base_manager.order_by("pk").values()) for model in TABLES]


def summary(one: Run) -> dict[str, Any]:
    last = DreamPass.objects.filter(run=one).order_by("-number").first()
    assert last is not None
    found: dict[str, Any] = last.summary
    return found
