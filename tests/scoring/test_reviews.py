"""A review is appended, outranks the machine at once, and can be taken back by another one."""

from __future__ import annotations

import json
import threading
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from memory import evidence
from memory.audit.scope import Scope
from memory.audit.suspects import suspects
from memory.credit import policy_named
from memory.models import Retrieval, Run, RunEvidence, Tip, TipEvidence
from memory.retrieval import RankRequest, rank
from scoring.judge.prompt import PromptLibrary
from scoring.models import Review
from scoring.reviewed_rows import NoReviews, gather_reviews
from scoring.reviews import (
    NotReviewable,
    ReviewedMeanwhile,
    SumsDrifted,
    UnknownRetrieval,
    UnusableReview,
    record_review,
    standing,
)
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip

pytestmark = pytest.mark.django_db


def final_row(**fields: Any) -> Retrieval:
    """A shown row of a final run that was given credit: the judge says followed, the attempt failed."""
    run = make_run(status=Run.Status.DONE)
    attempt = make_attempt(run=run, outcome=0.0)
    row = make_retrieval(attempt=attempt, **({"llm": True} | fields))
    with transaction.atomic():
        evidence.refresh([run.pk])
    return row


def label(row: Retrieval) -> tuple[bool | None, str]:
    row.refresh_from_db()
    return row.tip_followed_review, row.tip_followed_review_by


def misleading(tip_id: int) -> list[int]:
    """Of the tip's sums anywhere: misleading rows and bystanding ones."""
    one = TipEvidence.objects.get(tip=tip_id, level="tip", policy="quadrant")
    return [one.misleading, one.bystander]


def test_a_review_counts_at_once_and_its_withdrawal_gives_the_word_back() -> None:
    row = final_row()
    assert misleading(row.tip_id) == [1, 0]
    first = record_review(row.pk, followed=False, by=" ann ", note=" it only talks about it ")
    assert (first.by, first.note, first.supersedes) == ("ann", "it only talks about it", None)
    assert label(row) == (False, "ann")
    assert misleading(row.tip_id) == [0, 1]
    assert evidence.check() == []
    scope, policy = Scope(skill="stig"), policy_named("adr0019")
    # the audit agrees
    assert suspects(scope, policy, limit=5, uncalibrated=frozenset()) == ([], [])

    second = record_review(row.pk, followed=None, by="bob")
    assert second.supersedes == first
    assert label(row) == (None, "")
    assert misleading(row.tip_id) == [1, 0]
    assert evidence.check() == []
    assert standing(row.pk) == second
    assert list(Review.objects.values_list("by", "followed")) == [("ann", False), ("bob", None)]


def test_the_ranker_reads_the_review_at_once() -> None:
    row = final_row(emb=0.9, llm=False)
    attempt = make_attempt(run=row.run, outcome=1.0)
    good = make_retrieval(attempt=attempt, tip=row.tip, llm=False)
    with transaction.atomic():
        evidence.refresh([row.run_id])
    Tip.objects.filter(pk=row.tip_id).update(source_rule_id=good.rule_id)
    request = RankRequest(skill="stig", rule_id=good.rule_id, policy="adr0019")
    before = rank(request).tips[0].score
    record_review(good.pk, followed=True, by="ann")
    assert rank(request).tips[0].score > before


def test_a_run_without_credit_is_given_none_before_its_time() -> None:
    attempt = make_attempt(run=make_run(status=Run.Status.SCORING), outcome=0.0)
    row = make_retrieval(attempt=attempt, llm=True)
    record_review(row.pk, followed=False, by="ann")
    assert label(row) == (False, "ann")
    assert not RunEvidence.objects.exists()


def test_a_run_that_is_scored_again_keeps_its_credit_until_it_is_final() -> None:
    row, other = final_row(), make_tip()
    seen = make_retrieval(attempt=make_attempt(run=row.run, outcome=0.0), tip=other, llm=True)
    with transaction.atomic():
        evidence.refresh([row.run_id])
    Run.objects.filter(pk=row.run_id).update(status=Run.Status.SCORING, done_at=None)
    Retrieval.objects.filter(run=row.run_id).update(tip_followed_llm=None, llm_source="")
    record_review(row.pk, followed=False, by="ann")
    assert label(row) == (False, "ann")
    assert misleading(other.pk) == [1, 0]  # the judge was about to say so again
    Retrieval.objects.filter(pk=seen.pk).update(tip_followed_llm=True, llm_source="judge-a@0")
    Run.objects.filter(pk=row.run_id).update(status=Run.Status.FINALIZING)
    record_review(row.pk, followed=False, by="bob")
    assert (misleading(row.tip_id), misleading(other.pk)) == ([0, 1], [1, 0])


def test_sums_that_are_wrong_already_are_named_with_their_mend_and_nothing_is_kept() -> None:
    row = final_row()
    TipEvidence.objects.update(misleading=0)
    with pytest.raises(SumsDrifted, match=rf"retrieval {row.pk} .*manage\.py recount "):
        record_review(row.pk, followed=False, by="ann")
    assert label(row) == (None, "")
    assert not Review.objects.exists()


def test_what_cannot_be_reviewed_says_why_and_changes_nothing() -> None:
    unseen = make_retrieval(shown=False)
    old = make_retrieval(attempt=make_attempt(run=make_run(superseded_at=MOMENT)))
    for pk, error, words in (
        (0, UnknownRetrieval, "no retrieval has the primary key 0"),
        (10**30, UnknownRetrieval, "no retrieval"),
        (unseen.pk, NotReviewable, f"retrieval {unseen.pk} was not shown"),
        (old.pk, NotReviewable, f"retrieval {old.pk} belongs to a superseded revision"),
    ):
        with pytest.raises(error, match=words):
            record_review(pk, followed=True, by="ann")
    assert not Review.objects.exists()


@pytest.mark.parametrize(
    "said",
    [{"by": ""}, {"by": "x" * 151}, {"by": "\0"}, {"by": "ann", "note": "\ud800"},
     {"by": "ann", "note": "x" * 10_001}],
)  # fmt: skip
def test_author_and_note_must_be_fit_to_be_stored(said: dict[str, str]) -> None:
    row = make_retrieval()
    with pytest.raises(UnusableReview):
        record_review(row.pk, followed=True, **said)
    assert label(row) == (None, "")


def test_a_reviewer_who_has_not_seen_the_last_word_is_told_of_it() -> None:
    row = make_retrieval()
    record_review(row.pk, followed=True, by="ann", seen=0)
    with pytest.raises(ReviewedMeanwhile, match=r"by ann \(followed\)"):
        record_review(row.pk, followed=False, by="bob", seen=0)
    assert label(row) == (True, "ann")
    last = standing(row.pk)
    assert last is not None
    record_review(row.pk, followed=False, by="bob", seen=last.pk)
    assert label(row) == (False, "bob")
    with pytest.raises(ReviewedMeanwhile, match="look at it again"):
        record_review(row.pk, followed=True, by="ann", seen=last.pk)


@pytest.mark.django_db(transaction=True)
def test_of_two_reviewers_at_once_both_are_kept_in_one_line() -> None:
    row = final_row()
    start, errors = threading.Barrier(2), []

    def say(by: str) -> None:
        try:
            start.wait(timeout=30)
            record_review(row.pk, followed=by == "ann", by=by)
        except Exception as error:  # noqa: BLE001 - handed to the test
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=say, args=(by,)) for by in ("ann", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert errors == []
    first, second = Review.objects.order_by("pk")
    assert second.supersedes == first
    assert label(row) == (second.followed, second.by)
    assert evidence.check() == []


def test_calibration_against_people_reads_the_words_that_stand(settings: Any) -> None:
    first, second = make_retrieval(llm=True), make_retrieval(llm=False)
    record_review(first.pk, followed=True, by="ann")
    record_review(second.pk, followed=True, by="ann")
    record_review(second.pk, followed=False, by="bob")
    prompts = PromptLibrary(settings.PROMPTS_DIR)
    gathered = gather_reviews(("trace",), prompts=prompts)
    assert [pair.followed for pair in gathered.pairs] == [True, False]
    out = StringIO()
    call_command("calibrate_judge", against="human", signals=("trace",), json=True, stdout=out)
    assert json.loads(out.getvalue())["labels"]["n"] == 2
    for row in (first, second):
        record_review(row.pk, followed=None, by="ann")
    with pytest.raises(NoReviews):
        gather_reviews(("trace",), prompts=prompts)


def test_a_review_may_be_of_a_tip_that_was_retired_since() -> None:
    tip = make_tip(retired_at=MOMENT, retired_reason="gone")
    row = make_retrieval(tip=tip)
    assert record_review(row.pk, followed=True, by="ann").followed is True
