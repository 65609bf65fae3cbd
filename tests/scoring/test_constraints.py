"""The rules of scoring's own tables, broken once each; those of judgements stand with the graph's."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from scoring.models import Calibration, JudgePause, Review, TextEmbedding, VerdictCache
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
