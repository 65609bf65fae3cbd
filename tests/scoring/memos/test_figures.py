"""Reading figures: what each way of writing a number is worth, and what is no number."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.memos.citations import bind, citings_of, sentences_of
from scoring.memos.figures import find_figures
from scoring.memos.figures_tokens import hidden_in, tokens_of
from scoring.memos.figures_units import Bound, Shape
from scoring.memos.render_words import LIMIT, spelled


def read(text: str) -> list[tuple[str, str, str]]:
    found = find_figures(tokens_of(text), (), {"tip", "attempt"})
    assert not found.unreadable, found.unreadable
    return [(text[one.start : one.end], f"{one.value:f}", one.shape.value) for one in found.figures]


@pytest.mark.parametrize(
    ("text", "value", "shape"),
    [
        ("48,212", "48212", "plain"),
        ("48\u202f212", "48212", "plain"),
        ("48'212", "48212", "plain"),
        ("48_212", "48212", "plain"),
        ("5e6", "5000000", "plain"),
        ("1.5e-3", "0.0015", "plain"),
        ("71.6%", "71.6", "percent"),
        ("71.6 percent", "71.6", "percent"),
        ("71.6 per cent", "71.6", "percent"),
        ("3 percentage points", "3", "points"),
        ("3-point", "3", "points"),
        ("3 pp", "3", "points"),
        ("320 basis points", "3.20", "points"),
        ("320bp", "3.20", "points"),
        ("$1.2bn", "1200000000.0", "money"),
        ("US$5k", "5000", "money"),
        ("5 million euros", "5000000", "money"),
        ("USD 5", "5", "money"),
        ("50 cents", "0.50", "money"),
        ("1.96x", "1.96", "multiple"),
        ("3 times as", "3", "multiple"),
        ("3 times", "3", "plain"),
        ("twofold", "2", "multiple"),
        ("3-fold", "3", "multiple"),
        ("two hours", "7200", "time"),
        ("90 s", "90", "time"),
        ("250 ms", "0.250", "time"),
        ("18.4k tokens", "18400.0", "tokens"),
        ("3rd", "3", "ordinal"),
        ("twenty-first", "21", "ordinal"),
        ("first attempt", "1", "ordinal"),
        ("half", "0.5", "share"),
        ("two thirds", str(Decimal(2) / 3), "share"),
        ("one in five", "0.2", "share"),
        ("a dozen", "12", "plain"),
        ("half a million", "500000", "plain"),
        ("two and a half hours", "9000.0", "time"),
        ("one hundred and five", "105", "plain"),
        ("three point five billion", "3500000000.0", "plain"),
        ("fiftyfive", "55", "plain"),
        ("five hundred thousand", "500000", "plain"),
        ("thousand million", "1000000000", "plain"),
        ("a couple of", "2", "plain"),
        ("nil", "0", "plain"),
        ("no tips", "0", "none"),
        ("every tip", "1", "all"),
        ("5 megabytes", "5", "other"),
    ],
)
def test_one_figure(text: str, value: str, shape: str) -> None:
    ((_, found, kind),) = read(f"so {text} it is")
    assert (Decimal(found), kind) == (Decimal(value), shape)


@given(st.integers(min_value=0, max_value=LIMIT - 1), st.booleans())
def test_numbers_in_words_are_read_as_they_are_written(number: int, with_and: bool) -> None:
    text = spelled(number, with_and=with_and)
    ((shown, value, shape),) = read(text)
    assert (shown, Decimal(value), shape) == (text, number, "plain")


def test_words_out_of_range_are_not_written() -> None:
    with pytest.raises(ValueError, match="not spelled out"):
        spelled(LIMIT)


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("-5", "-"),
        ("\u22125", "-"),
        ("\u20135", "-"),
        ("+5", "+"),
        ("minus 5", "-"),
        ("-$5", "-"),
        ("$-5", "-"),
        ("($5)", "-"),
        ("(5)", ""),
        ("5", ""),
    ],
)
def test_signs(text: str, sign: str) -> None:
    (figure,) = find_figures(tokens_of(f"so {text} it came")).figures
    assert figure.sign == sign
    assert figure.value == 5


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("more than 5", Bound.ABOVE),
        ("at least 5", Bound.AT_LEAST),
        ("under 5", Bound.BELOW),
        ("up to 5", Bound.AT_MOST),
        ("about 5", Bound.ABOUT),
        ("exactly 5", Bound.EXACT),
        ("~5", Bound.ABOUT),
        ("5 or more", Bound.AT_LEAST),
        ("5+", Bound.AT_LEAST),
        ("5", Bound.ROUNDED),
        ("no fewer than 5", Bound.AT_LEAST),
        ("5 [F1] exactly", Bound.EXACT),
    ],
)
def test_bounds(text: str, bound: Bound) -> None:
    (figure,) = find_figures(tokens_of(f"so {text} in all")).figures
    assert figure.bound is bound


def test_a_range_lends_unit_currency_and_scale() -> None:
    low, high = find_figures(tokens_of("$1.2-1.4B")).figures
    assert (low.value, high.value) == (1_200_000_000, 1_400_000_000)
    assert (low.currency, high.currency, low.pair, high.pair) == ("USD", "USD", "range", "range")
    low, high = find_figures(tokens_of("between 3 and 5%")).figures
    assert (low.shape, high.shape) == (Shape.PERCENT, Shape.PERCENT)
    assert [one.pair for one in find_figures(tokens_of("3 of the 5")).figures] == ["fraction"] * 2


@pytest.mark.parametrize(
    "text",
    [
        "FY2024",
        "RHEL-9",
        "10-K",
        "v1.2.3",
        "1,23",
        "12:30",
        "5[F1]0",
        "7**2**%",
        "x=5^2",
        "l00",
        "5O%",
        "007b",
        "5 [F1] million",
        "- 5",
        "5 thousandx",
        "2026-13-01",
        "0x12",
        "9e99",
        "50%%",
        "3/x",
        "fi-ve",
        "t w o",
    ],
)
def test_what_is_no_figure_is_not_passed_over(text: str) -> None:
    found = find_figures(tokens_of(f"so {text} it is"))
    assert found.unreadable


@pytest.mark.parametrize(
    "text",
    [
        "no one came",
        "one another",
        "one of the tips",
        "the latter one",
        "first, it came",
        "just a second thought",
        "no doubt",
        "every effort",
        "once it ended",
        "a tip often helps",
        "May it last",
        "the most harmful tip",
        "double-check it",
        "up to date",
        "at once",
        "vi and US",
    ],
)
def test_ordinary_english_holds_no_figures(text: str) -> None:
    found = find_figures(tokens_of(text), (), {"tip"})
    assert (found.figures, found.unreadable, found.vague) == ((), (), ())
    assert hidden_in(text, tokens_of(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "a\u200bb",
        "a\u202eb",
        "\uff15",
        "\u00bd",
        "\u2167",
        "\u0441at",
        "\u017fix",
        "&half;",
        "<b>",
        "a](b",
        "~~a~~",
        "a\u0336",
        "XIV",
        "\u00b2",
        "\U0001f51f",
        "[F1]: a",
        "\\5",
    ],
)
def test_what_is_seen_otherwise_is_named(text: str) -> None:
    assert hidden_in(text, tokens_of(text))


def test_every_figure_is_bound_to_the_next_citation_once() -> None:
    (sentence,) = sentences_of("A is 5 and 6 [F1], B is 7 [F2], C is 8.")
    bound = bind(find_figures(sentence.tokens).figures, citings_of(sentence.tokens))
    assert [(one.figure.value, one.ref) for one in bound] == [
        (5, ""),
        (6, "F1"),
        (7, "F2"),
        (8, ""),
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It is 5 vs. 6. So it is.", 2),
        ("Acme Inc. won. [F1] It did.", 2),
        ("- one\n- two", 2),
        ("one\ntwo", 1),
        ("# Head\none", 2),
        ("one\n\ntwo", 2),
        ("J. Doe won", 1),
        ("It is 5.5 now", 1),
        ("Is it? It is!", 2),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert len(sentences_of(text)) == count
