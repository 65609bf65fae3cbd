"""What a judgement knew about its call moves to the call, and back, without a loss.

Shaped by schema changes that were tried on empty tables.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests.factories import make_retrieval

OF_JUDGEMENTS = """
    SELECT id, http_tries, latency_s, prompt_tokens, completion_tokens, raw_reply
    FROM scoring_judgement ORDER BY id"""
OF_CALLS = """
    SELECT j.id, c.http_tries, c.latency_s, c.prompt_tokens, c.completion_tokens, c.raw_reply,
        c.run_id, c.error_class
    FROM scoring_judgement j JOIN scoring_judgecall c ON c.id = j.call_id ORDER BY j.id"""


def migrate(name: str | None) -> None:
    executor = MigrationExecutor(connection)
    leaves = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "scoring"]
    executor.migrate([("scoring", name)] if name else leaves)


def rows(statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


@pytest.mark.django_db(transaction=True)
def test_calls_take_over_what_judgements_knew_and_give_it_back() -> None:
    retrieval = make_retrieval()
    try:
        migrate("0002_calibration")
        for tries, reason, reply in (
            (2, "", "{}"),
            (1, "judge_error", "<html>"),
            (0, "no_script", ""),
        ):
            rows(
                """INSERT INTO scoring_judgement (retrieval_id, followed, reason, error, reasoning,
                    requested_model, served_model, system_fingerprint, prompt_sha256, tier, evidence,
                    created_at, http_tries, latency_s, prompt_tokens, completion_tokens, raw_reply)
                VALUES (%s, %s, %s, %s, '', 'm', '', '', '0', 'default', '[]', now(),
                    %s, 0.5, 10, 20, %s)""",
                retrieval.pk, None if reason else True, reason,
                "VerdictNotJson: no" if reason else "", tries, reply,
            )  # fmt: skip
        before = rows(OF_JUDGEMENTS)
        migrate(None)
        calls = rows(OF_CALLS)
        assert [call[:6] for call in calls] == before[:2], "one that was never sent has no call"
        assert [call[6:] for call in calls] == [
            (retrieval.run_id, ""), (retrieval.run_id, "VerdictNotJson"),
        ]  # fmt: skip
        (newest,) = rows(
            """INSERT INTO scoring_judgecall (run_id, tier, requested_model, served_model,
                system_fingerprint, prompt_sha256, tips, again, http_tries, seconds, error_class,
                error, raw_reply, created_at)
            VALUES (%s, 'default', 'm', '', '', '0', 1, false, 1, 0, '', '', '', now())
            RETURNING id""",
            retrieval.run_id,
        )
        assert newest[0] > before[1][0], "the ids go on after those that were moved"
        migrate("0002_calibration")
        after = rows(OF_JUDGEMENTS)
        assert after[:2] == before[:2]
    finally:
        migrate(None)
