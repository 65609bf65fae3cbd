"""Back to before memos and forth again, on tables that hold calls of both kinds.

Shaped by schema changes that were tried on empty tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from scoring.models import JudgeCall, Judgement
from tests.factories import make_retrieval
from tests.scoring.test_migrations import migrate

if TYPE_CHECKING:
    from memory.models import Retrieval

CALL: dict[str, Any] = {
    "requested_model": "m", "prompt_sha256": "0" * 64, "http_tries": 1, "seconds": 0.1,
}  # fmt: skip


def judged(row: Retrieval) -> JudgeCall:
    call = JudgeCall.objects.create(run=row.run, tips=1, **CALL)
    Judgement.objects.create(
        retrieval=row, call=call, followed=True, requested_model="m", prompt_sha256="0" * 64
    )
    return call


@pytest.mark.django_db(transaction=True)
def test_calls_about_tips_stay_and_those_about_memos_go_with_the_memos() -> None:
    kept = judged(make_retrieval())
    JudgeCall.objects.create(purpose="memo_judge", tips=0, **CALL)
    try:
        migrate("0004_reviews")
        with connection.cursor() as cursor:
            cursor.execute("SELECT id, run_id FROM scoring_judgecall")
            assert cursor.fetchall() == [(kept.pk, kept.run_id)]
        migrate(None)
        call = JudgeCall.objects.get()
        assert (call.pk, call.purpose, call.judgements.count()) == (kept.pk, "verdict", 1)
    finally:
        migrate(None)
