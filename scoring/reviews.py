"""Recording a review: the one door through which a person says whether a script followed a tip.

Guarantees: the review is appended, its answer is copied to the retrieval row (which is what credit
reads), and the evidence of the run is counted again, all in one transaction under a lock on the run;
so ranker, sweeps and audits of the next moment reckon with it, before every machine signal. Reviews of
one row form one line, and the last one stands; a reviewer who had not seen the last one is told so.

Does not touch a machine signal, and makes no new dream pass: the report that was kept of the run says
what it said, until ``dream RUN --force``. A run that has no credit yet is not given any, and one that is
being scored again keeps what it had, because half of its signals are cleared: the dream pass to come
reads the row. A revised run starts without reviews.

Shaped by: labels typed into a table by hand, of which nobody could say whose they were.
"""

from __future__ import annotations

import logging
from typing import Final

from django.db import transaction

from memory import evidence
from memory.models import Retrieval, Run
from memory.querysets import can_be_stored
from scoring.models import Review

logger = logging.getLogger(__name__)

AUTHOR_LENGTH: Final = 150
NOTE_LENGTH: Final = 10_000

SCORED: Final = (Run.Status.FINALIZING, Run.Status.DONE)
"""States of a run whose signals are all there."""


class ReviewError(Exception):
    """A review cannot be recorded; names the row and the cause. Nothing was changed."""


class UnknownRetrieval(ReviewError):
    """No retrieval has this primary key."""


class NotReviewable(ReviewError):
    """The row cannot be followed or ignored, or it does not count any more."""


class UnusableReview(ReviewError):
    """The author or the note is missing, too long, or cannot be stored."""


class SumsDrifted(ReviewError):
    """The sums that the review would change are wrong already; says what mends them."""


class ReviewedMeanwhile(ReviewError):
    """Somebody has said something that this reviewer had not seen."""


def record_review(
    retrieval_id: int, *, followed: bool | None, by: str, note: str = "", seen: int | None = None
) -> Review:
    """Append a review of one retrieval and let it count at once; returns it.

    Args:
        followed: None: it cannot be told. What an earlier review said is withdrawn by it, and the
            machine signals speak for the row again.
        by: who says so.
        seen: primary key of the standing review that the reviewer knew of, 0 for none; None: whatever
            stands is superseded.

    Raises:
        UnknownRetrieval, NotReviewable, UnusableReview, ReviewedMeanwhile, SumsDrifted: see there.
    """
    author, text = _checked_author(by), _checked_note(note)
    with transaction.atomic():
        run, row = _locked(retrieval_id)
        last = standing(row.pk)
        if seen is not None and seen != (last.pk if last else 0):
            msg = f"retrieval {row.pk} was reviewed meanwhile{_told(last)}: look at it again"
            raise ReviewedMeanwhile(msg)
        review = Review.objects.create(
            retrieval=row, supersedes=last, followed=followed, by=author, note=text
        )
        Retrieval.objects.filter(pk=row.pk).update(
            tip_followed_review=followed,
            tip_followed_review_by="" if followed is None else author,
        )
        # asked last, as its lock wants it; a run without credit yet will have the row read anyway
        if run.status in SCORED and evidence.is_in_evidence(run.pk):
            try:
                evidence.refresh([run.pk])
            except evidence.EvidenceDrifted as error:
                msg = f"the review of retrieval {row.pk} cannot be counted: {error}"
                raise SumsDrifted(msg) from error
    logger.info("review.recorded", extra={"retrieval_id": row.pk, "review_id": review.pk})
    return review


def standing(retrieval_id: int) -> Review | None:
    """The review of a retrieval that no other supersedes; None when nobody has reviewed it."""
    return Review.objects.filter(retrieval_id=retrieval_id, superseded_by=None).first()


def _locked(retrieval_id: int) -> tuple[Run, Retrieval]:
    """The row and its run under their locks, the run's first, as everywhere: it can be neither opened
    nor closed meanwhile. NO KEY: other writers of the two are kept out, not what points to them."""
    rows = Retrieval.objects.filter(pk=retrieval_id)
    runs = Run.objects.select_for_update(no_key=True).only("status")
    run = runs.filter(pk__in=rows.values("run_id")).first()
    locked = rows.select_for_update(no_key=True).only("run_id", "shown", "superseded")
    row = locked.first()
    if run is None or row is None:
        msg = f"no retrieval has the primary key {retrieval_id}"
        raise UnknownRetrieval(msg)
    if not row.shown:
        msg = f"retrieval {row.pk} was not shown to the agent: nobody can have followed it"
        raise NotReviewable(msg)
    if row.superseded:
        msg = (
            f"retrieval {row.pk} belongs to a superseded revision, which counts nowhere: review the "
            "same tip in the current revision of its run"
        )
        raise NotReviewable(msg)
    return run, row


def _told(last: Review | None) -> str:
    if last is None:
        return ""
    answer = {True: "followed", False: "not followed", None: "cannot tell"}[last.followed]
    return f" by {last.by} ({answer})"


def _checked_author(by: str) -> str:
    name = by.strip()
    if not name or len(name) > AUTHOR_LENGTH or not can_be_stored(name):
        msg = f"{by!r} names nobody: give a reviewer of 1 to {AUTHOR_LENGTH} characters"
        raise UnusableReview(msg)
    return name


def _checked_note(note: str) -> str:
    text = note.strip()
    if len(text) > NOTE_LENGTH or not can_be_stored(text):
        msg = f"a note is at most {NOTE_LENGTH} characters that can be stored"
        raise UnusableReview(msg)
    return text
