"""Who counts as calibrated: model, prompt, what the server said it was, and how it was asked."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from scoring.calibrated import MIN_DECIDED, answered_as, standing, store
from scoring.calibration import Scored, measure
from scoring.model_size import ModelTooSmall
from scoring.models import Calibration, Judgement
from tests.calibrations import make_calibration, served
from tests.factories import make_retrieval

pytestmark = pytest.mark.django_db

SOURCE = "judge-7b@abc"


def calibrated(source: str = SOURCE) -> bool:
    return not standing([source]).uncalibrated


def judgement(served_model: str = "weights-1", **fields: Any) -> Judgement:
    """A verdict of SOURCE."""
    values: dict[str, Any] = {
        "requested_model": "judge-7b",
        "prompt_sha256": "abc",
        "label": "followed",
        "followed": True,
        "system_fingerprint": "fp",
        "position": 1,
    }
    return Judgement.objects.create(
        retrieval=make_retrieval(), served_model=served_model, **(values | fields)
    )


class Plain:
    kind, rule = "k", "r"

    def __init__(self, *, followed: bool) -> None:
        self.followed = followed


def test_few_answers_or_a_small_model_do_not_count_as_calibrated() -> None:
    assert not calibrated()
    facts = {"version": "1", "labels": "pairs", "pairs_sha256": "0"}
    for n in (MIN_DECIDED - 1, MIN_DECIDED):
        pairs = [Plain(followed=True)] * (n + 5)
        answers = [Scored(score=1.0, followed=True)] * n + [Scored(score=None, followed=None)] * 5
        report = measure("judge", pairs, answers, graded=False, resamples=0)
        with pytest.raises(ModelTooSmall):
            store(report, model="judge-0.5b", prompt_sha256="abc", **facts)
        row = store(report, model="judge-7b", prompt_sha256="abc", **facts)
        assert (row.n, row.decided) == (n + 5, n)
        assert calibrated() is (n == MIN_DECIDED)
    Calibration.objects.update(model="judge-0.5b")
    assert not calibrated("judge-0.5b@abc")


@pytest.mark.parametrize(
    "fields",
    [{"served_model": "weights-2"}, {"system_fingerprint": "fq"}, {"served_model": "", "cached": True,
     "request_key": "k", "position": None}],
)  # fmt: skip
def test_another_model_behind_the_same_name_is_uncalibrated_until_it_is_measured(
    fields: dict[str, Any],
) -> None:
    make_calibration("judge-7b", "abc", served=[served("weights-1", "fp")])
    for position in (1, 2, None):
        judgement(position=position)
    assert calibrated()
    stranger = judgement(**fields)
    assert not calibrated()
    as_it_is = served(stranger.served_model, stranger.system_fingerprint)
    make_calibration("judge-7b", "abc", served=[as_it_is | {"decided": MIN_DECIDED - 1}])
    assert not calibrated(), "measured on too few pairs"
    make_calibration("judge-7b", "abc", served=[as_it_is])
    assert calibrated()


def test_what_said_nothing_or_another_judge_said_takes_no_mark_away() -> None:
    make_calibration("judge-7b", "abc", served=[served("weights-1", "fp")])
    judgement("weights-2", label="", followed=None, reason="judge_error")
    judgement("weights-2", prompt_sha256="abd")
    judgement("weights-2", requested_model="judge-8b")
    assert calibrated()


def test_a_judge_that_was_asked_about_one_tip_at_a_time_is_another_when_asked_about_several() -> (
    None
):
    make_calibration(
        "judge-7b", "abc", served=[served("weights-1", "fp")], asked={"mode": "per_tip"}
    )
    judgement(position=1)
    assert calibrated()
    judgement(position=2)
    assert not calibrated()
    make_calibration("judge-7b", "abc", served=[served("weights-1", "fp")])
    assert calibrated()


@pytest.mark.parametrize(("tips", "vouches"), [(1, False), (2, True), (None, True)])
def test_one_tip_a_question_vouches_for_no_question_about_several_whatever_the_mode(
    tips: int | None, vouches: bool
) -> None:
    asked = {"mode": "per_attempt", "tips": tips}
    make_calibration("judge-7b", "abc", served=[served("weights-1", "fp")], asked=asked)
    judgement(position=1)
    assert calibrated()
    judgement(position=2)
    assert calibrated() is vouches


def test_a_calibration_that_does_not_know_what_answered_vouches_for_no_judgement() -> None:
    make_calibration("judge-7b", "abc", served=[])
    assert calibrated(), "verdicts without a judgement are compared by name"
    judgement("")
    assert not calibrated()


def test_what_answered_is_found_in_an_index_not_in_every_judgement() -> None:
    row = make_retrieval()
    Judgement.objects.bulk_create(
        Judgement(
            retrieval=row, requested_model="judge-7b", prompt_sha256="abc", label="followed",
            followed=True, served_model=f"weights-{number % 3}", position=1 + number % 2,
        )
        for number in range(3_000)
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE scoring_judgement")
    with CaptureQueriesContext(connection) as queries:
        found = answered_as()
    assert found == {SOURCE: {(f"weights-{number}", "", True) for number in range(3)}}
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {queries[0]['sql']}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert plan.count("judgement_answered_as") == 3
    assert "Seq Scan" not in plan


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("calibration_judge_is_named", {"signal": "judge"}),
        ("calibration_decided_of_n", {"signal": "trace", "decided": 2}),
        ("calibration_adopted_is_a_fit", {"signal": "combined", "adopted": True}),
    ],
)
def test_the_database_refuses_a_calibration_of_nothing(rule: str, wrong: dict[str, Any]) -> None:
    values = {
        "version": "1",
        "labels": "pairs",
        "pairs_sha256": "0",
        "n": 1,
        "decided": 1,
        "report": {},
    }
    with pytest.raises(IntegrityError, match=rule), transaction.atomic():
        Calibration.objects.create(**(values | wrong))
