"""No lie passes, no true rendering is refused, and no digit of a passed memo is unsourced.

The first two run over ten thousand generated memos each by `many_memos`; here over fewer, new ones
each time.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.memos.citations import sentences_of
from scoring.memos.facts import Snapshot
from scoring.memos.figures_tokens import TokenKind, tokens_of
from scoring.memos.gate import check
from scoring.memos.gate_labels import Labels, masked_by
from scoring.memos.render import renderings
from tests.scoring.memos import generated, generated_lies
from tests.scoring.memos.generated_change_lies import CHANGE_LIES
from tests.scoring.memos.many_memos import change_lie_passed, lie_passed, true_refused
from tests.scoring.memos.snapshots import cited, company, run

SEEDS = st.integers(min_value=0, max_value=2**63)


@given(SEEDS)
@settings(max_examples=400)
def test_no_true_memo_is_refused(seed: int) -> None:
    assert true_refused(seed) == ""


@given(SEEDS)
@settings(max_examples=700)
def test_no_lie_passes(seed: int) -> None:
    told = lie_passed(seed)
    assert told is None or told[1] == "", told


@given(SEEDS)
@settings(max_examples=700)
def test_no_lie_about_a_change_or_in_words_passes(seed: int) -> None:
    told = change_lie_passed(seed)
    assert told is None or told[1] == "", told


@pytest.mark.parametrize("name", sorted(CHANGE_LIES))
def test_each_kind_of_lie_about_a_change_is_told_and_refused(name: str) -> None:
    told = 0
    for seed in range(200):
        rng = Random(seed)
        both = generated.twice(rng)
        snapshot = Snapshot("run", "run-7", None, both.facts)
        if text := CHANGE_LIES[name](rng, snapshot, both):
            told += 1
            assert not check(text, snapshot).passed, text
    assert told >= 50, "this kind of lie is hardly told"


@pytest.mark.parametrize("name", sorted(generated_lies.LIES))
def test_each_kind_of_lie_is_told_and_refused(name: str) -> None:
    told = 0
    for seed in range(400):
        rng = Random(seed)
        snapshot = generated.snapshot(rng)
        clauses = generated.memo(rng, snapshot)
        made = generated_lies.LIES[name](rng, snapshot, clauses, rng.randrange(len(clauses)))
        if made is None:
            continue
        text = made if isinstance(made, str) else "\n\n".join(one.text for one in made)
        told += 1
        assert not check(text, snapshot).passed, text
        if told == 20:
            return
    assert told >= 5, "this kind of lie is never told"


@given(SEEDS)
@settings(max_examples=60)
def test_every_rendering_of_the_product_is_true_in_any_form(seed: int) -> None:
    rng = Random(seed)
    snapshot = generated.snapshot(rng)
    for item in snapshot.facts:
        for figure in renderings(item):
            ref = f"[{snapshot.citations[item.id]}]"
            text = rng.choice(generated.FORMS)(item.label, figure, ref)
            report = check(text, snapshot)
            assert report.passed, (text, report.feedback())
            assert [one.fact_id for one in report.sourced] == [item.id]


WORDS = [
    "the", "{retrievals}", "{tips}", "{attempts}", "{failed|attempts}", "{time|spent}",
    "{prompt|size}", "40", "12", "27", "3", "71.6%", "71.6", "8.6", "-8.6", "pp", "%", "$", "five",
    "twelve", "forty", "no", "not", "every", "tips", "retrievals", "attempts", "failed", "`tip|1`",
    "`run-7`", "times", "was", "were", "of", "to", "from", "and", "between", ",", ".", ";", ":", "-",
    "(", ")", "\u2013", "/", "more", "than", "fell", "rose", "by", "half", "[F99]", "[C1]", "[F3|F1]",
    "1,000", "1.5k", "3rd", "2026-01-02", "as", "million", "seconds", "tokens", "hours", "7,200",
    "18,400", "**", "|", "*", "#", "x", "fold", "per",
]  # fmt: skip
"""Pieces of memos about `snapshots.run`; a bar inside of one stands for a space."""


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=14), st.sampled_from([" ", "", "\n"]))
@settings(max_examples=600)
def test_no_digit_of_a_passed_memo_is_outside_of_a_sourced_figure(
    words: list[str], joint: str
) -> None:
    snapshot = run()
    text = cited(
        joint.join(word.replace("|", " ") if len(word) > 1 else word for word in words), snapshot
    )
    report = check(text, snapshot)
    if not report.passed:
        return
    sourced = {at for one in report.sourced for at in range(one.start, one.end)}
    labels = Labels(snapshot)
    for sentence in sentences_of(text):
        tokens = sentence.tokens
        masked = masked_by(tokens, labels.mentions(tokens))
        for at, token in enumerate(tokens):
            if token.kind in {TokenKind.NUM, TokenKind.DATE} and at not in masked:
                assert token.start in sourced, (text, token)


@given(st.text(max_size=200))
@settings(max_examples=300)
def test_any_text_gets_a_verdict_and_the_same_one_twice(text: str) -> None:
    snapshot = company()
    report = check(text, snapshot)
    assert report == check(text, snapshot)
    assert all(0 <= one.start <= one.end <= len(text) for one in report.findings)
    assert not report.passed or report.cited


@given(
    st.text(
        alphabet="0123456789.,%$-+ ()/x\u00bd\u0664\uff15eEkMB\u2212\u2013'_\u00a0", max_size=24
    )
)
@settings(max_examples=400)
def test_text_of_number_signs_is_never_passed_over(text: str) -> None:
    """Every ASCII digit is in a token, and what stands beside one right figure is refused."""
    tokens = tokens_of(text)
    held = {at for token in tokens for at in range(token.start, token.end)}
    assert all(at in held for at, char in enumerate(text) if char in "0123456789")
    memo = cited(f"Retrievals: 40 {{retrievals}}. Then {text} came.", run())
    if any(char.isnumeric() for char in text):
        assert not check(memo, run()).passed, memo


def test_a_long_hostile_memo_is_read_in_one_go() -> None:
    """Long memos of many figures and names end; the limit on the length is a finding."""
    snapshot = run()
    text = cited("`tip 1` 5 {tips} " * 900, snapshot)
    assert len(text) < 40_000
    assert not check(text, snapshot).passed
    assert [one.kind for one in check("x" * 40_001, snapshot).findings] == ["too_long"]


@pytest.mark.timeout(60)  # what took the square of its length, or more, would not end in time
@pytest.mark.parametrize("piece", ["t-w-o ", "f i v e ", "a ", "one two three and "])
def test_the_longest_memo_in_one_sentence_comes_to_an_end(piece: str) -> None:
    assert check((piece * 40_000)[:40_000], run()).findings
