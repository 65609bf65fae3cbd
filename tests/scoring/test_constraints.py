"""The rules of scoring's own tables, broken once each; those of judgements stand with the graph's."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from scoring.models import (
    Calibration,
    JudgeCall,
    JudgePause,
    Memo,
    Review,
    TextEmbedding,
    VerdictCache,
)
from tests.factories import MOMENT, make_retrieval, make_review

pytestmark = pytest.mark.django_db


def refused(row: Any, rule: str, **values: Any) -> None:
    with pytest.raises(IntegrityError, match=rule), transaction.atomic():
        type(row).objects.filter(pk=row.pk).update(**values)


def test_a_calibration_says_whose_labels_and_which_judge() -> None:
    row = Calibration.objects.create(
        signal="trace",
        version="1",
        labels="pairs",
        pairs_sha256="0" * 64,
        n=1,
        decided=1,
        report={},
    )
    refused(row, "calibration_labels_known", labels="guesses")
    refused(row, "calibration_judge_is_named", signal="judge")
    refused(row, "calibration_decided_of_n", decided=2)
    refused(row, "calibration_adopted_is_a_fit", adopted=True)


def test_a_judge_is_paused_once_at_a_time() -> None:
    values: dict[str, Any] = {"since": MOMENT, "until": MOMENT, "cause": "401", "error_class": "E"}
    JudgePause.objects.create(**values)
    over = JudgePause.objects.create(**values, cleared_at=MOMENT)
    refused(over, "judge_pause_open_once", cleared_at=None)


def test_a_verdict_that_proves_nothing_is_not_cached() -> None:
    row = VerdictCache.objects.create(
        key="k", label="followed", said="followed", requested_model="m", prompt_sha256="0" * 64
    )
    refused(row, "verdict_cache_holds_good_ones", label="unclear")


def test_a_text_is_embedded_once_per_encoder() -> None:
    values: dict[str, Any] = {
        "text_sha256": "0" * 64, "vector": b"", "chunks": b"", "tokens": 1, "truncated": False,
    }  # fmt: skip
    TextEmbedding.objects.create(encoder_sha256="a", **values)
    other = TextEmbedding.objects.create(encoder_sha256="b", **values)
    refused(other, "text_embedding_once", encoder_sha256="a")


# --- Reviews: rows of these are never updated, so that the rules are tried on new ones --------------


def not_appended(rule: str, **values: Any) -> None:
    with pytest.raises(IntegrityError, match=rule), transaction.atomic():
        make_review(**values)


def test_a_review_has_an_author() -> None:
    not_appended("review_has_author", by="")


def test_the_reviews_of_a_row_are_one_line_that_starts_once_and_never_forks() -> None:
    row = make_retrieval()
    first = make_review(retrieval=row)
    not_appended("review_first_once", retrieval=row)
    make_review(retrieval=row, supersedes=first)
    not_appended("supersedes_id", retrieval=row, supersedes=first)  # the unique key of the column


def test_a_review_supersedes_an_earlier_one_and_not_itself() -> None:
    row = make_retrieval()
    first = make_review(retrieval=row)
    not_appended("review_supersedes_earlier", retrieval=row, pk=first.pk - 1, supersedes=first)
    not_appended(
        "review_supersedes_earlier",
        retrieval=row,
        pk=first.pk + 1000,
        supersedes_id=first.pk + 1000,
    )


def test_a_review_is_neither_changed_nor_deleted() -> None:
    review = make_review(note="as it was")
    refused(review, "review_append_only", note="as it never was")
    refused(review, "review_append_only", followed=False)
    with pytest.raises(IntegrityError, match="review_append_only"), transaction.atomic():
        Review.objects.filter(pk=review.pk).delete()
    review.note = "otherwise"
    with pytest.raises(IntegrityError, match="review_append_only"), transaction.atomic():
        review.save()
    review.refresh_from_db()
    assert (review.note, review.followed) == ("as it was", True)


# --- Memos ----------------------------------------------------------------------------------------


def make_memo(**fields: Any) -> Memo:
    """A memo by the writer that nobody has judged."""
    values: dict[str, Any] = {
        "key": "0" * 64, "product": "run", "identifier": "stig/run-1", "mode": "human",
        "variant": "writer", "gate_version": "gate-1", "fingerprint": "0" * 64, "facts": {},
        "text": "# Run", "text_sha256": "0" * 64, "written_at": MOMENT,
    }  # fmt: skip
    return Memo.objects.create(**(values | fields))


def test_a_memo_stands_once_under_its_key() -> None:
    make_memo()
    refused(make_memo(key="1" * 64), "memo_once_per_key", key="0" * 64)


def test_a_memo_has_a_text_a_mode_and_a_model_unless_it_is_the_writers() -> None:
    row = make_memo()
    refused(row, "memo_has_text", text="")
    refused(row, "memo_mode_known", mode="poem")
    refused(row, "memo_variant_names_its_model", variant="single")
    refused(row, "memo_variant_names_its_model", model="m")
    refused(row, "memo_variant_names_its_model", variant="trio", model="m")


def test_a_verdict_on_a_memo_is_whole() -> None:
    row = make_memo()
    refused(row, "memo_verdict_whole", accepted=True)
    refused(row, "memo_verdict_whole", verdict={}, verdict_tier="default", judged_at=MOMENT)
    refused(row, "memo_verdict_whole", verdict={}, accepted=True, judged_at=MOMENT)


def test_a_call_is_about_a_run_or_a_memo() -> None:
    call = JudgeCall.objects.create(
        purpose="memo_judge", requested_model="m", prompt_sha256="0" * 64, tips=0, http_tries=1,
        seconds=0.1,
    )  # fmt: skip
    refused(call, "judge_call_has_purpose", purpose="verdict")
    refused(call, "judge_call_has_purpose", purpose="small talk")
