"""Figures against labels: hand-computed, absent where they mean nothing, with honest intervals."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from memory.rates import wilson
from scoring.calibration import METRICS, KindFigures, Scored, SignalReport, measure
from scoring.model_size import billions_named, too_small


@dataclass(frozen=True)
class Pair:
    followed: bool
    kind: str = "k"
    rule: str = "r"


def scored(score: float | None) -> Scored:
    return Scored(score=score, followed=None if score is None else score >= 0.5)


def values(kind: KindFigures) -> dict[str, float | None]:
    return {name: kind.figures[name].value for name in METRICS}


def without_interval(pairs: list[Pair], answers: list[Scored]) -> KindFigures:
    return measure("s", pairs, answers, resamples=0).overall


def test_a_table_worked_out_by_hand() -> None:
    # of 4 followed: 2 found, 1 missed, 1 silent; of 6 others: 3 found, 1 missed, 1 silent, 1 broke
    said: list[bool | None] = [True, True, False, None, False, False, False, True, None, None]
    pairs = [Pair(followed=number < 4) for number in range(10)]
    answers = [
        Scored(score=None if x is None else float(x), followed=x, failed=number == 9)
        for number, x in enumerate(said)
    ]
    overall = without_interval(pairs, answers)
    assert values(overall) == pytest.approx(
        {
            "accuracy": 5 / 7,
            "accuracy_all": 5 / 10,
            "tpr": 2 / 3,
            "tnr": 3 / 4,
            # observed 35/49, by chance (3x3 + 4x4)/49: (35 - 25) / (49 - 25)
            "kappa": 10 / 24,
            # a followed pair at 1 outranks 5 others and ties with 1, at 0 it ties with 3, silent it
            # outranks 3 and ties with 2
            "auc": (2 * 5.5 + 1.5 + 4) / 24,
            "auc_decided": (2 * 3.5 + 1.5) / 12,
            "ece": None,
            "coverage": 0.7,
            "abstained": 0.2,
            "failed": 0.1,
        }
    )
    sizes = {name: overall.figures[name].n for name in ("accuracy", "accuracy_all", "tpr", "tnr")}
    assert sizes == {"accuracy": 7, "accuracy_all": 10, "tpr": 3, "tnr": 4}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=2, max_size=30))
def test_auc_and_kappa_are_those_of_scikit_learn(rows: list[tuple[bool, int]]) -> None:
    pairs = [Pair(followed=followed) for followed, _ in rows]
    answers = [scored(score / 4) for _, score in rows]
    overall = without_interval(pairs, answers)
    labels = [pair.followed for pair in pairs]
    if len(set(labels)) == 2:
        expected = roc_auc_score(labels, [item.score for item in answers])
        assert overall.figures["auc"].value == pytest.approx(expected)
        found = cohen_kappa_score(labels, [bool(item.followed) for item in answers])
        assert overall.figures["kappa"].value == pytest.approx(found)


def test_equal_scores_share_a_bin_of_the_calibration_error() -> None:
    # at 0.2 three of ten were followed, at 0.8 six of ten: 0.5 x 0.1 + 0.5 x 0.2
    low = [(Pair(followed=number < 3), scored(0.2)) for number in range(10)]
    high = [(Pair(followed=number < 6), scored(0.8)) for number in range(10)]
    rows = [*low, *high]
    random.Random(1).shuffle(rows)
    overall = without_interval([pair for pair, _ in rows], [item for _, item in rows])
    assert overall.figures["ece"].value == pytest.approx(0.15)


def test_too_few_scores_or_a_yes_and_no_signal_have_no_calibration_error() -> None:
    pairs = [Pair(followed=number % 2 == 0) for number in range(20)]
    answers = [scored(0.9)] * 20
    assert without_interval(pairs, answers).figures["ece"].value == pytest.approx(0.4)
    assert without_interval(pairs[1:], answers[1:]).figures["ece"].value is None
    yes_or_no = measure("s", pairs, answers, graded=False, resamples=0)
    assert yes_or_no.overall.figures["ece"].value is None


def test_a_kind_of_one_label_borrows_the_other_label_and_says_so() -> None:
    pairs = [
        Pair(followed=True, kind="good"),
        Pair(followed=False, kind="bad"),
        Pair(followed=False, kind="worse"),
    ]
    report = measure("s", pairs, [scored(0.6), scored(0.7), scored(0.1)], resamples=0)
    assert [kind.kind for kind in report.kinds] == ["all", "bad", "good", "worse"]
    _, bad, good, worse = report.kinds
    assert (bad.figures["auc"].value, bad.borrowed, bad.n) == (0.0, True, 1)
    assert (worse.figures["auc"].value, good.figures["auc"].value) == (1.0, 0.5)


def test_figures_without_a_meaning_are_absent() -> None:
    found = values(without_interval([Pair(followed=True)], [scored(None)]))
    undefined = {"accuracy", "tpr", "tnr", "kappa", "auc", "auc_decided", "ece"}
    assert {name for name, value in found.items() if value is None} == undefined


@pytest.mark.parametrize("answers", [[], [scored(1.5)], [scored(-0.1)], [scored(float("nan"))]])
def test_answers_that_do_not_fit_the_pairs_are_refused(answers: list[Scored]) -> None:
    with pytest.raises(ValueError, match=r"scores|outside"):
        measure("s", [Pair(followed=True)], answers)


# --- Intervals ------------------------------------------------------------------------------------


def noisy(rules: int, copies: int) -> SignalReport:
    dice = random.Random(7)
    pairs: list[Pair] = []
    answers: list[Scored] = []
    for number in range(rules):
        followed, right = number % 2 == 0, dice.random() < 0.7
        score = dice.random() / 2 + (0.5 if followed is right else 0.0)
        pairs += [Pair(followed=followed, rule=f"r{number}")] * copies
        answers += [scored(score)] * copies
    return measure("s", pairs, answers)


def test_copies_of_a_pair_under_one_rule_do_not_narrow_an_interval() -> None:
    once, often = noisy(40, copies=1).overall, noisy(40, copies=5).overall
    for name in set(METRICS) - {"ece"}:
        a, b = once.figures[name], often.figures[name]
        assert (b.value, b.low, b.high) == pytest.approx((a.value, a.low, a.high)), name
    accuracy = once.figures["accuracy"]
    assert accuracy.low is not None
    assert accuracy.high is not None
    assert 0.2 < accuracy.high - accuracy.low < 0.35  # 1.96 x 2 x sqrt(0.7 x 0.3 / 40) = 0.28


def test_the_bootstrap_covers_the_truth_about_as_often_as_it_says() -> None:
    dice = np.random.default_rng(3)
    hits = 0
    for _ in range(80):
        right = dice.random(60) < 0.8
        pairs = [Pair(followed=n % 2 == 0, rule=str(n)) for n in range(60)]
        answers = [
            scored(float(p.followed is bool(ok))) for p, ok in zip(pairs, right, strict=True)
        ]
        figure = measure("s", pairs, answers, resamples=200).overall.figures["accuracy"]
        assert figure.low is not None
        assert figure.high is not None
        hits += figure.low <= 0.8 <= figure.high
    assert 0.87 <= hits / 80 <= 1.0


def test_the_same_seed_gives_the_same_intervals() -> None:
    assert noisy(20, copies=1) == noisy(20, copies=1)


def test_a_share_of_one_keeps_a_width_that_counts_rules() -> None:
    pairs = [Pair(followed=n % 2 == 0, rule=f"r{n % 6}") for n in range(60)]
    figure = measure("s", pairs, [scored(float(p.followed)) for p in pairs]).overall.figures[
        "accuracy"
    ]
    assert (figure.value, figure.n) == (1.0, 60)
    assert (figure.low, figure.high) == wilson(6, 6)


def test_fewer_than_five_rules_give_no_interval() -> None:
    pairs = [Pair(followed=n % 2 == 0, rule=f"r{n % 4}") for n in range(40)]
    overall = measure("s", pairs, [scored(0.9)] * 40).overall
    assert overall.rules == 4
    assert all(figure.low is None for figure in overall.figures.values())


# --- Whose figures are shown ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "billions", "small"),
    [
        ("SmolLM2-135M-Instruct", 0.135, True),
        ("Qwen/Qwen2.5-0.5B-Instruct", 0.5, True),
        ("gemma-3-270m-it", 0.27, True),
        ("qwen3:0.6b", 0.6, True),
        ("tiny-judge", None, True),
        ("llama-3.2-1B", 1.0, False),
        ("TinyLlama-1.1B-Chat", 1.1, False),
        ("Mixtral-8x7B", 7.0, False),
        ("qwen3-30b-a3b", 30.0, False),
        ("Qwen2.5-7B-Instruct-1M", 7.0, False),
        ("model-8bit-128k", None, False),
        ("gpt-4o-mini", None, False),
    ],
)
def test_a_model_below_a_billion_is_known_by_its_name(
    model: str, billions: float | None, small: bool
) -> None:
    assert billions_named(model) == billions
    assert too_small(model) is small


def test_kappa_of_one_label_is_absent_and_not_zero() -> None:
    pairs = [Pair(followed=True)] * 4
    answers = [scored(x) for x in (0.9, 0.9, 0.1, 0.9)]
    assert without_interval(pairs, answers).figures["kappa"].value is None
