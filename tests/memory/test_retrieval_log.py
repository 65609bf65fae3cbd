"""What is written down of a ranking: every tip that was shown or kept back, as it was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from memory.holdout import draw
from memory.reasons import Reason
from memory.retrieval import RankRequest, rank
from memory.retrieval_log import log
from tests.factories import MOMENT, make_attempt, make_run, make_tip, sha256
from tests.memory.ranking_rows import RULE, rule_tip, skill_files, swept

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import SettingsWrapper

    from memory.models import Attempt

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt(tmp_path: Path, settings: SettingsWrapper) -> Attempt:
    settings.PROMPTS_DIR = skill_files(tmp_path, holdout="rate = 0.5", eviction="canary_rate = 0.5")
    run = make_run(external_id="run-x", status="recording")
    return make_attempt(run=run, rule_id=RULE, category="audit", outcome=None)


def request_of(attempt: Attempt) -> RankRequest:
    return RankRequest(attempt.skill, attempt.rule_id, category="audit", run="run-x")


def test_a_row_for_each_tip_in_one_insert(attempt: Attempt) -> None:
    for _ in range(6):
        rule_tip()
    swept(rule_tip())
    make_tip(scope="environment")
    ranking = rank(request_of(attempt))
    draws = draw(ranking, attempt=1)
    with CaptureQueriesContext(connection) as queries:
        rows = log(attempt, ranking, draws, retrieved_at=MOMENT)
    assert len([one for one in queries if "INSERT" in one["sql"]]) == 1
    assert len(rows) == 7
    assert {row.withheld for row in rows} == {True, False}
    for row, tip, drawn in zip(rows, ranking.tips, draws, strict=True):
        row.refresh_from_db()
        assert (row.tip_id, row.rank, row.similarity_score) == (tip.tip_id, tip.rank, tip.score)
        assert (row.propensity, row.coin, row.canary) == (0.5, drawn.coin, tip.canary)
        assert (row.shown, row.withheld) == (drawn.shown, not drawn.shown)
        text = tip.text if drawn.shown else ""
        assert (row.shown_text, row.shown_sha256) == (text, sha256(text))
        # there is a script, and no outcome yet
        reasons = (Reason.NO_OUTCOME, "", "") if drawn.shown else (Reason.NOT_SHOWN,) * 3
        assert (row.llm_reason, row.emb_reason, row.trace_reason) == reasons
        assert row.ranker == ranking.ranker
        assert (row.skill, row.category, row.model) == ("stig", "audit", "model-a")
        assert (row.environment_tag, row.retrieved_at) == ("env-a", MOMENT)
        assert row.outcome_value is None


def test_a_ranking_for_something_else_is_refused(attempt: Attempt) -> None:
    rule_tip()
    for request in (
        RankRequest("stig", "another", category="audit", run="run-x"),
        RankRequest("stig", RULE, run="run-y"),
        RankRequest("cve", RULE, run="run-x"),
    ):
        ranking = rank(request)
        with pytest.raises(ValueError, match="cannot be logged"):
            log(attempt, ranking, draw(ranking, attempt=1), retrieved_at=MOMENT)
    ranking = rank(request_of(attempt))
    with pytest.raises(ValueError, match="not those of the ranking"):
        log(attempt, ranking, [], retrieved_at=MOMENT)
    assert not attempt.retrievals.exists()


def test_an_attempt_is_logged_once(attempt: Attempt) -> None:
    rule_tip()
    ranking = rank(request_of(attempt))
    draws = draw(ranking, attempt=1)
    log(attempt, ranking, draws, retrieved_at=MOMENT)
    with pytest.raises(IntegrityError), transaction.atomic():
        log(attempt, ranking, draws, retrieved_at=MOMENT)


def test_an_empty_ranking_writes_nothing(attempt: Attempt) -> None:
    ranking = rank(request_of(attempt))
    assert log(attempt, ranking, draw(ranking, attempt=1), retrieved_at=MOMENT) == []
