"""Rows of a trace batch: each gets a verdict, an abstention or a reason of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scoring import trace_step, work
from scoring.batches import LeaseLost
from scoring.models import Signal
from scoring.trace import TRACE_VERSION
from tests.factories import make_attempt, make_retrieval, make_run, make_tip
from tests.scoring.score_batches import batch_over, claimed, expire

if TYPE_CHECKING:
    from pathlib import Path

    from memory.models import Retrieval
    from scoring.models import ScoreBatch

pytestmark = pytest.mark.django_db

SCRIPT = "systemctl enable --now chronyd\n"


def traced(*tips: str, script: str = SCRIPT) -> tuple[ScoreBatch, list[Retrieval]]:
    run = make_run(status="scoring", scoring_round=1)
    attempt = make_attempt(run=run, script=script)
    rows = [make_retrieval(attempt=attempt, tip=make_tip(text=text)) for text in tips]
    return batch_over(rows, Signal.TRACE), rows


def score(batch: ScoreBatch, rows: list[Retrieval]) -> str:
    work.score_batch(batch.pk)
    for row in [*rows, batch]:
        row.refresh_from_db()
    return batch.state


def test_a_verdict_comes_with_its_evidence_and_version_and_an_abstention_with_a_reason() -> None:
    batch, rows = traced("Run `systemctl enable --now chronyd`", "Think before you act")
    assert score(batch, rows) == "done"
    followed, abstained = rows
    assert (followed.tip_followed_trace_verdict, followed.trace_reason) == ("followed", "")
    assert followed.tip_followed_trace_evidence
    assert {row.tip_followed_trace_version for row in rows} == {TRACE_VERSION}
    assert (abstained.tip_followed_trace, abstained.trace_reason) == (None, "trace_abstained")


def test_a_row_whose_trace_raises_gets_a_reason_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = trace_step.trace

    def fragile(*, tip: str, **others: Any) -> Any:
        if "strange" in tip:
            raise RecursionError("too deep")
        return real(tip=tip, **others)

    monkeypatch.setattr(trace_step, "trace", fragile)
    batch, rows = traced("Run `strange`", "Run `systemctl enable --now chronyd`")
    assert score(batch, rows) == "done"
    assert (rows[0].tip_followed_trace, rows[0].trace_reason) == (None, "trace_error")
    assert rows[0].trace_tries == 1
    assert rows[1].tip_followed_trace_verdict == "followed"
    assert "too deep" in caplog.text


def test_a_skill_file_that_cannot_be_used_fails_no_row(tmp_path: Path, settings: Any) -> None:
    settings.PROMPTS_DIR = tmp_path
    batch, rows = traced("Run `systemctl enable --now chronyd`")
    assert score(batch, rows) == "new"
    assert "skill.toml" in batch.reason
    assert rows[0].trace_reason == ""


def test_a_second_run_of_a_batch_traces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, rows = traced("Run `systemctl enable --now chronyd`", "Think before you act")
    score(batch, rows)
    type(batch).objects.filter(pk=batch.pk).update(state="new")
    monkeypatch.setattr(trace_step, "trace", lambda **_: 1 / 0)
    assert score(batch, rows) == "done"
    assert [row.trace_reason for row in rows] == ["", "trace_abstained"]


def test_a_worker_whose_batch_was_taken_over_writes_nothing() -> None:
    batch, rows = traced("Run `systemctl enable --now chronyd`")
    first = claimed(batch)
    expire(batch)
    second = claimed(batch)
    with pytest.raises(LeaseLost, match="held by another worker"):
        trace_step.score(first)
    rows[0].refresh_from_db()
    assert (rows[0].tip_followed_trace_verdict, rows[0].trace_tries) == ("", 0)
    assert trace_step.score(second) == 1
    rows[0].refresh_from_db()
    assert (rows[0].tip_followed_trace_verdict, rows[0].trace_tries) == ("followed", 1)
