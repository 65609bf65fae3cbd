"""p(followed): plain arithmetic on stored numbers, honest about judges it does not know."""

from __future__ import annotations

import itertools
import json
import math
import random
from typing import TYPE_CHECKING, Any

import pytest

from memory.credit import POLICIES, credit, row_of
from memory.models import Retrieval
from memory.reasons import JudgeLabel, Reason
from scoring.attribution import Cause, doubt, fill, rows_to_escalate, signals_of
from scoring.following_fit import TooFewLabels, fit, log_loss
from scoring.following_model import (
    FEATURES,
    HAND_SET,
    JUDGE_LABELS,
    TRACE_VERDICTS,
    CoefficientsError,
    Signals,
    coefficients_from,
    probability,
)
from scoring.models import Calibration, Judgement
from scoring.trace import Verdict
from tests.calibrations import served
from tests.factories import make_attempt, make_retrieval, make_run

if TYPE_CHECKING:
    from scoring.following_model import Coefficients

TRACES = [
    ("", None),
    ("followed", 1.0),
    ("violated", 0.0),
    ("not_followed", 0.0),
    ("abstained", None),
]


UNCLEAR = {"llm_label": "unclear", "llm_source": "judge-a@0", "llm_reason": Reason.UNCLEAR}


def p_of(coefficients: Coefficients = HAND_SET, **signals: Any) -> float | None:
    return probability(Signals(**signals), coefficients)


# --- The hand-set numbers -------------------------------------------------------------------------


def test_nothing_known_is_no_probability() -> None:
    assert p_of() is None
    assert p_of(trace_verdict="abstained") is None
    assert p_of(judge="unclear") == 0.5


@pytest.mark.parametrize(
    ("label", "expected"), [("followed", 0.952574), ("not_followed", 0.075858)]
)
def test_a_judge_alone_gives_its_documented_probability(label: str, expected: float) -> None:
    assert p_of(judge=label) == expected  # 1 / (1 + exp(-3)) and 1 / (1 + exp(2.5))


def test_no_machine_signal_overturns_a_judge() -> None:
    for (verdict, score), cosine in itertools.product(TRACES, (None, -1.0, 0.0, 1.0)):
        others = {"trace_verdict": verdict, "trace_score": score, "cosine": cosine}
        assert p_of(judge="followed", **others) > 0.5
        for label in ("contradicted", "not_followed", "not_applicable"):
            assert p_of(judge=label, **others) < 0.5


def test_more_agreement_is_never_less_probable() -> None:
    for judge in ("", *JUDGE_LABELS):
        near = [p_of(judge=judge, cosine=x / 10) for x in range(11)]
        assert near == sorted(near)
        worst_to_best = [
            p_of(judge=judge, cosine=0.5, trace_verdict=verdict, trace_score=score)
            for verdict, score in (("violated", 0.0), ("not_followed", 0.0), ("followed", 1.0))
        ]
        assert worst_to_best == sorted(worst_to_best)


def test_a_probability_stays_inside_zero_and_one_for_any_coefficients() -> None:
    wild = coefficients_from(HAND_SET.as_dict() | {"intercept": 1e300})
    assert 0.0 <= p_of(wild, judge="followed") <= 1.0


def test_coefficients_survive_json_and_their_version_follows_the_numbers() -> None:
    stored = json.loads(json.dumps(HAND_SET.as_dict()))
    assert coefficients_from(stored) == HAND_SET
    assert len(HAND_SET.version) <= 40
    stored["intercept"] = 0.1
    assert coefficients_from(stored).version != HAND_SET.version


@pytest.mark.parametrize(
    "damage",
    [
        {"weights": None},
        {"weights": {}},
        {"weights": dict.fromkeys((*FEATURES, "moon_phase"), 0.0)},
        {"intercept": float("nan")},
        {"intercept": "0"},
        {"intercept": None},
        {"weights": dict.fromkeys(FEATURES, True)},
    ],
)
def test_damaged_coefficients_are_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(CoefficientsError, match="calibrate again"):
        coefficients_from(HAND_SET.as_dict() | damage)


def test_an_answer_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="no answer of the judge"):
        p_of(judge="maybe")


# --- Fitting --------------------------------------------------------------------------------------


def sample(
    n: int, *, judge_right: float | None, trace_right: float, seed: int = 5
) -> tuple[list[Signals], list[bool], list[str]]:
    """Pairs of n/2 rules; a judge and a trace that are right this often."""
    dice = random.Random(seed)
    signals, labels = [], []
    for number in range(n):
        followed = number % 2 == 0
        judge = ""
        if judge_right is not None:
            judge = "followed" if followed is (dice.random() < judge_right) else "not_followed"
        seen = followed is (dice.random() < trace_right)
        signals.append(
            Signals(
                judge=judge,
                cosine=dice.random(),
                trace_verdict="followed" if seen else "not_followed",
                trace_score=float(seen),
            )
        )
        labels.append(followed)
    return signals, labels, [f"r{number // 2}" for number in range(n)]


def test_a_fit_learns_whom_to_believe() -> None:
    fitted = fit(*sample(200, judge_right=0.55, trace_right=0.95)).coefficients
    against = {"judge": "not_followed", "cosine": 0.5}
    assert p_of(fitted, trace_verdict="followed", trace_score=1.0, **against) > 0.8
    fitted = fit(*sample(200, judge_right=0.95, trace_right=0.55)).coefficients
    assert p_of(fitted, trace_verdict="followed", trace_score=1.0, **against) < 0.2
    # and the same coefficients answer where that judge is silent
    assert p_of(fitted, trace_verdict="followed", trace_score=1.0, cosine=0.5) > 0.5


def test_a_fit_without_a_judge_does_not_learn_to_ignore_judges() -> None:
    fitted = fit(*sample(120, judge_right=None, trace_right=0.9)).coefficients
    for label in JUDGE_LABELS:
        assert fitted.weights[f"judge_{label}"] == HAND_SET.weights[f"judge_{label}"]
    assert {f"judge_{label}" for label in JUDGE_LABELS} <= set(fitted.hand_set)
    assert "trace_followed" not in fitted.hand_set


def test_an_answer_seen_too_rarely_keeps_its_hand_set_weight() -> None:
    signals, labels, rules = sample(120, judge_right=0.9, trace_right=0.9)
    signals[0] = Signals(judge="contradicted", cosine=0.4)
    fitted = fit(signals, labels, rules).coefficients
    assert fitted.weights["judge_contradicted"] == HAND_SET.weights["judge_contradicted"]
    assert fitted.weights["judge_followed"] != HAND_SET.weights["judge_followed"]


def test_an_answer_that_all_pairs_share_is_not_counted_twice() -> None:
    signals, labels, rules = sample(120, judge_right=None, trace_right=0.5)
    signals = [Signals(trace_verdict="violated", trace_score=0.0, cosine=s.cosine) for s in signals]
    fitted = fit(signals, labels, rules).coefficients
    seen = [probability(said, fitted) for said in signals]
    assert sum(seen) / len(seen) == pytest.approx(0.5, abs=0.02)


def test_held_out_probabilities_of_chance_labels_are_chance() -> None:
    signals, labels, rules = sample(300, judge_right=0.5, trace_right=0.5)
    found = fit(signals, labels, rules)
    right = sum((p >= 0.5) is label for p, label in zip(found.held_out, labels, strict=True))
    assert 0.38 < right / 300 < 0.6
    assert found == fit(signals, labels, rules)


def test_log_loss_is_that_of_the_answered_pairs() -> None:
    assert log_loss([0.5, None, 0.5], [True, True, False]) == pytest.approx(math.log(2))
    assert log_loss([0.9, 0.2], [True, False]) == pytest.approx(-math.log(0.9 * 0.8) / 2)
    assert log_loss([0.0], [True]) == pytest.approx(-math.log(1e-6))
    assert log_loss([1.0], [True]) == 0.0
    assert log_loss([None], [True]) is None


def test_silent_pairs_get_no_probability() -> None:
    signals, labels, rules = sample(100, judge_right=0.9, trace_right=0.9)
    signals[3] = Signals(trace_verdict="abstained")
    assert fit(signals, labels, rules).held_out[3] is None


@pytest.mark.parametrize("n", [4, 18])
def test_too_few_labels_are_no_fit(n: int) -> None:
    with pytest.raises(TooFewLabels, match="a fit needs 10"):
        fit(*sample(n, judge_right=0.9, trace_right=0.9))


def test_silence_alone_is_no_fit() -> None:
    _, labels, rules = sample(60, judge_right=None, trace_right=0.9)
    with pytest.raises(TooFewLabels):
        fit([Signals()] * 60, labels, rules)


# --- Rows -----------------------------------------------------------------------------------------


def stored_fit(
    *, n: int = 200, model: str = "judge-a", sha: str = "0", adopted: bool = True, **damage: Any
) -> Coefficients:
    """Coefficients fitted with this judge, as `calibrate_judge` stores them."""
    fitted = fit(*sample(n, judge_right=0.8, trace_right=0.7)).coefficients
    Calibration.objects.create(
        signal="combined", model=model, prompt_sha256=sha, version=fitted.version, labels="pairs",
        pairs_sha256="0", n=n, decided=n, report={}, coefficients=fitted.as_dict() | damage,
        served=[served("weights-1", "fp")], asked={"mode": "per_attempt"}, adopted=adopted,
    )  # fmt: skip
    return fitted


@pytest.mark.django_db
def test_fill_is_a_recount_of_the_rows_of_one_run() -> None:
    attempt = make_attempt()
    judged = make_retrieval(attempt=attempt, llm=True, emb=0.7, trace="followed")
    silent = make_retrieval(attempt=attempt, trace="abstained")
    hidden = make_retrieval(attempt=attempt, shown=False)
    elsewhere = make_retrieval(llm=True)
    assert fill(attempt.run_id) == 1
    for row in (judged, silent, hidden, elsewhere):
        row.refresh_from_db()
    assert judged.tip_followed_p == probability(signals_of(judged), HAND_SET)
    assert judged.tip_followed_p_version == HAND_SET.version
    assert {r.tip_followed_p for r in (silent, hidden, elsewhere)} == {None}
    assert credit(row_of(judged), POLICIES["combined"]) == judged.tip_followed_p
    assert fill(attempt.run_id) == 0


@pytest.mark.django_db
def test_a_row_whose_signals_were_taken_back_loses_its_probability() -> None:
    row = make_retrieval(llm=True, tip_followed_p=0.9, tip_followed_p_version="fitted@0")
    Retrieval.objects.filter(pk=row.pk).update(tip_followed_llm=None, llm_source="")
    assert fill(row.run_id) == 1
    row.refresh_from_db()
    assert (row.tip_followed_p, row.tip_followed_p_version) == (None, "")


@pytest.mark.django_db
def test_a_fit_answers_for_its_own_judge_and_for_rows_without_a_label() -> None:
    fitted = stored_fit(model="judge-a", sha="0")
    attempt = make_attempt()
    own = make_retrieval(attempt=attempt, llm=True, emb=0.5)
    foreign = make_retrieval(attempt=attempt, llm=True, emb=0.5, llm_source="judge-b@0")
    unjudged = make_retrieval(attempt=attempt, emb=0.5, trace="followed")
    fill(attempt.run_id)
    versions = dict(Retrieval.objects.values_list("pk", "tip_followed_p_version"))
    assert versions[own.pk] == versions[unjudged.pk] == fitted.version
    assert versions[foreign.pk] == HAND_SET.version


@pytest.mark.django_db
def test_a_later_fit_that_nobody_adopted_changes_no_row() -> None:
    in_use = stored_fit()
    stored_fit(n=60, adopted=False)
    stored_fit(n=60, adopted=False, model="", sha="")
    attempt = make_attempt()
    make_retrieval(attempt=attempt, llm=True)
    make_retrieval(attempt=attempt, emb=0.5)
    fill(attempt.run_id)
    versions = Retrieval.objects.values_list("tip_followed_p_version", flat=True)
    assert set(versions) == {in_use.version}


@pytest.mark.django_db
@pytest.mark.parametrize(("weights", "uses_the_fit"), [("weights-1", True), ("weights-2", False)])
def test_a_fit_answers_for_no_other_model_behind_the_name_of_its_judge(
    weights: str, uses_the_fit: bool, caplog: pytest.LogCaptureFixture
) -> None:
    fitted = stored_fit()
    row = make_retrieval(llm=True, emb=0.5)
    Judgement.objects.create(
        retrieval=row, requested_model="judge-a", prompt_sha256="0", label="followed",
        followed=True, served_model=weights, system_fingerprint="fp", position=3,
    )  # fmt: skip
    fill(row.run_id)
    row.refresh_from_db()
    assert row.tip_followed_p_version == (fitted if uses_the_fit else HAND_SET).version
    assert ("attribution.judge_exchanged" in caplog.text) is not uses_the_fit


@pytest.mark.django_db
def test_a_fit_from_before_servers_were_noted_stays_in_use_by_the_name_of_its_judge(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fitted = stored_fit()
    Calibration.objects.update(served=[], asked={})  # as the migration found it, and adopted it
    row = make_retrieval(llm=True, emb=0.5)
    Judgement.objects.create(
        retrieval=row, requested_model="judge-a", prompt_sha256="0", label="followed",
        followed=True, served_model="weights-1", system_fingerprint="fp", position=3,
    )  # fmt: skip
    fill(row.run_id)
    row.refresh_from_db()
    assert row.tip_followed_p_version == fitted.version
    assert "attribution.judge_exchanged" not in caplog.text


@pytest.mark.django_db
def test_a_damaged_fit_is_passed_over_and_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stored_fit(intercept="much")
    row = make_retrieval(llm=True)
    fill(row.run_id)
    row.refresh_from_db()
    assert row.tip_followed_p_version == HAND_SET.version
    assert "attribution.unusable_fit" in caplog.text


@pytest.mark.django_db
def test_the_label_of_the_judge_outranks_the_boolean_derived_from_it() -> None:
    row = make_retrieval(llm=False, llm_label="contradicted", trace="violated", emb=0.4)
    assert signals_of(row) == Signals(
        judge="contradicted", cosine=0.4, trace_verdict="violated", trace_score=0.0
    )
    assert signals_of(make_retrieval(llm=False)).judge == "not_followed"
    unclear = make_retrieval(**UNCLEAR)
    assert signals_of(unclear).judge == "unclear"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("signals", "causes"),
    [
        ({"llm": True, "emb": 0.7, "trace": "followed"}, set()),
        ({"llm": False, "emb": 0.5}, set()),
        ({"llm": True, "trace": "violated"}, {Cause.JUDGE_AGAINST_TRACE}),
        ({"llm": False, "trace": "followed", "emb": 0.5}, {Cause.JUDGE_AGAINST_TRACE}),
        ({"llm": False, "emb": 0.8}, {Cause.JUDGE_AGAINST_COSINE}),
        ({"llm": True, "emb": 0.29}, {Cause.JUDGE_AGAINST_COSINE}),
        ({"emb": 0.6}, {Cause.UNCERTAIN}),
        (UNCLEAR, {Cause.UNCERTAIN, Cause.JUDGE_UNCLEAR}),
        ({"llm": True, "tip_followed_p": 0.6, "tip_followed_p_version": "x"}, {Cause.UNCERTAIN}),
        ({"emb": 0.6, "review": True}, set()),
        ({}, set()),
    ],
)
def test_doubt_is_a_middling_probability_or_a_disagreement(
    signals: dict[str, Any], causes: set[Cause]
) -> None:
    row = make_retrieval(**signals)
    found = doubt(row)
    assert set(found.causes if found else ()) == causes


@pytest.mark.django_db
def test_rows_to_escalate_come_worst_first_and_only_where_a_judge_can_be_asked() -> None:
    run = make_run()
    settled = make_retrieval(attempt=make_attempt(run=run), llm=True, emb=0.7)
    middling = make_retrieval(attempt=make_attempt(run=run), emb=0.7)
    nearer = make_retrieval(attempt=make_attempt(run=run), emb=0.5)
    unclear = make_retrieval(attempt=make_attempt(run=run), emb=0.6, **UNCLEAR)
    cut = make_retrieval(attempt=make_attempt(run=run), emb=0.5, llm_reason=Reason.SCRIPT_TRUNCATED)
    found = rows_to_escalate([settled, middling, nearer, unclear, cut])
    assert [seen.row.pk for seen in found] == [unclear.pk, nearer.pk, middling.pk]


def test_the_vocabularies_are_those_of_the_signals() -> None:
    assert set(TRACE_VERDICTS) == {verdict.value for verdict in Verdict}
    assert set(JUDGE_LABELS) == set(JudgeLabel.values)
