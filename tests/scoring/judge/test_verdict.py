"""A verdict is the exact object or a typed refusal: nothing is harvested, repaired or assumed.

Shaped by graders that passed on `{}`, on empty lists, on the first brace they found.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.judge import verdict as v
from scoring.judge.errors import JudgeError
from scoring.judge.verdict import Verdict, VerdictError, parse_verdict

GOOD = '{"followed": true, "reasoning": "it runs chronyc makestep"}'
READ = Verdict(followed=True, reasoning="it runs chronyc makestep")

ACCEPTED = {
    "as it is": (GOOD, READ),
    "white space around and inside": (GOOD.replace(":", " \r\n\t: \n") + "\n\n", READ),
    "fields in the other order": ('{"reasoning": "r", "followed": false}', Verdict(False, "r")),
    "a fence": (f"```json\n{GOOD}\n```", READ),
    "a fence without a language": (f"\n```\n{GOOD}\n```\n", READ),
    "a fence of tildes": (f"~~~JSON\r\n{GOOD}\r\n~~~", READ),
    "a closed think block": (f"<think>maybe</think>\n{GOOD}", READ),
    "a think block with a draft in it": (f'<think>{{"followed": false}}</think>{GOOD}', READ),
    "a think block before a fence": (f"<think>\n\n</think>\n\n```json\n{GOOD}\n```", READ),
    "raw control characters": (
        '{"followed": false, "reasoning": "a\x01b\n\tc\x1b[0m"}',
        Verdict(False, "a\x01b\n\tc\x1b[0m"),
    ),
    "an escaped emoji": ('{"followed": true, "reasoning": "\\ud83d\\ude00"}', Verdict(True, "😀")),
    "what Postgres cannot hold": (
        '{"followed": true, "reasoning": "\\u0000 \\ud83d \x00"}',
        Verdict(True, "\u2400 \ufffd \u2400"),
    ),
    "tags and fences as text": (
        json.dumps({"followed": True, "reasoning": "</think> ```json {} ``` <think>"}),
        Verdict(True, "</think> ```json {} ``` <think>"),
    ),
    "400 characters": (
        json.dumps({"followed": False, "reasoning": "x" * 400}),
        Verdict(False, "x" * 400),
    ),
    "an empty reasoning": ('{"followed": false, "reasoning": ""}', Verdict(False, "")),
}

REFUSED = {
    "nothing": ("", v.VerdictNotJson),
    "white space": (" \n", v.VerdictNotJson),
    "prose": ("Yes, it was followed.", v.VerdictNotJson),
    "prose before": (f"My verdict: {GOOD}", v.VerdictNotJson),
    "prose after": (f"{GOOD} I hope this helps.", v.VerdictNotJson),
    "two objects": (f"{GOOD}\n{GOOD}", v.VerdictNotJson),
    "cut": (GOOD[:-5], v.VerdictNotJson),
    "a byte order mark": (f"\ufeff{GOOD}", v.VerdictNotJson),
    "single quotes": (GOOD.replace('"', "'"), v.VerdictNotJson),
    "Python's True": (GOOD.replace("true", "True"), v.VerdictNotJson),
    "a trailing comma": (GOOD.replace("}", ",}"), v.VerdictNotJson),
    "a comment": (f"{GOOD} // sure", v.VerdictNotJson),
    "an open think block": (f"<think>well {GOOD}", v.VerdictNotJson),
    "a think block that only ends": (f"well</think>{GOOD}", v.VerdictNotJson),
    "a think block behind": (f"{GOOD}<think>ok</think>", v.VerdictNotJson),
    "two think blocks": (f"<think>a</think><think>b</think>{GOOD}", v.VerdictNotJson),
    "two fences": (f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```", v.VerdictNotJson),
    "a fence in a fence": (f"~~~\n```json\n{GOOD}\n```\n~~~", v.VerdictNotJson),
    "an open fence": (f"```json\n{GOOD}", v.VerdictNotJson),
    "prose before a fence": (f"Here:\n```json\n{GOOD}\n```", v.VerdictNotJson),
    "another language": (f"```python\n{GOOD}\n```", v.VerdictNotJson),
    "deep nesting": ("[" * 50_000, v.VerdictNotJson),
    "a list": (f"[{GOOD}]", v.VerdictNotObject),
    "an empty list": ("[]", v.VerdictNotObject),
    "true": ("true", v.VerdictNotObject),
    "null": ("null", v.VerdictNotObject),
    "a number": ("1", v.VerdictNotObject),
    "encoded twice": (json.dumps(GOOD), v.VerdictNotObject),
    "an empty object": ("{}", v.VerdictFieldMissing),
    "no reasoning": ('{"followed": true}', v.VerdictFieldMissing),
    "no label": ('{"reasoning": "r"}', v.VerdictFieldMissing),
    "other names": ('{"Followed": true, "reason": "r"}', v.VerdictFieldMissing),
    "wrapped": (f'{{"verdict": {GOOD}}}', v.VerdictFieldMissing),
    "one field more": (GOOD.replace("}", ', "confidence": 1}'), v.VerdictFieldUnknown),
    "a label in quotes": (GOOD.replace("true", '"true"'), v.VerdictFieldType),
    "a label of 1": (GOOD.replace("true", "1"), v.VerdictFieldType),
    "a label of 1.0": (GOOD.replace("true", "1.0"), v.VerdictFieldType),
    "a null label": (GOOD.replace("true", "null"), v.VerdictFieldType),
    "a list of labels": (GOOD.replace("true", "[true]"), v.VerdictFieldType),
    "a null reasoning": ('{"followed": true, "reasoning": null}', v.VerdictFieldType),
    "a list of reasons": ('{"followed": true, "reasoning": ["r"]}', v.VerdictFieldType),
    "the label twice": (GOOD.replace("}", ', "followed": false}'), v.VerdictDuplicateKey),
    "the same label twice": (GOOD.replace("}", ', "followed": true}'), v.VerdictDuplicateKey),
    "a key twice, spelled apart": (
        GOOD.replace("}", ', "follow\\u0065d": true}'),
        v.VerdictDuplicateKey,
    ),
    "a key twice further down": (
        GOOD.replace("}", ', "x": {"a": 1, "a": 2}}'),
        v.VerdictDuplicateKey,
    ),
    "a key twice behind a fence": (
        "```\n" + GOOD.replace("}", ', "followed": false}') + "\n```",
        v.VerdictDuplicateKey,
    ),
    "NaN": (GOOD.replace("true", "NaN"), v.VerdictNumberInvalid),
    "minus infinity": (GOOD.replace("true", "-Infinity"), v.VerdictNumberInvalid),
    "a float that overflows": (GOOD.replace("true", "1e999"), v.VerdictNumberInvalid),
    "an integer of 16,000 digits": (GOOD.replace("true", "9" * 16_000), v.VerdictNumberInvalid),
    "a reasoning of 401 characters": (
        json.dumps({"followed": True, "reasoning": "x" * 401}),
        v.VerdictTooLong,
    ),
    "a loop of blanks": (GOOD + " " * 300_000, v.VerdictTooLong),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_valid_object_is_read(case: str) -> None:
    content, expected = ACCEPTED[case]
    assert parse_verdict(content) == expected


@pytest.mark.parametrize("case", REFUSED)
def test_anything_else_is_refused_with_the_class_of_its_defect(case: str) -> None:
    content, expected = REFUSED[case]
    with pytest.raises(VerdictError) as caught:
        parse_verdict(content)
    assert type(caught.value) is expected
    assert isinstance(caught.value, JudgeError)
    assert (caught.value.reason, caught.value.retryable) == ("judge_error", False)


def test_an_error_does_not_quote_the_reply() -> None:
    for content, _ in REFUSED.values():
        with pytest.raises(VerdictError) as caught:
            parse_verdict(content)
        assert "chronyc" not in str(caught.value)


objects = st.fixed_dictionaries({"followed": st.booleans(), "reasoning": st.text(max_size=400)})
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("followed"), inner),
    max_leaves=10,
)
pieces = st.sampled_from(
    ['{"followed": true, ', '"reasoning": "r"', "}", "{", "```json\n", "\n```", "<think>", "</think>",
     '"followed": false', ",", "null", "NaN", " ", "\n", "true", '"', "\\u0000"]
)  # fmt: skip


@settings(deadline=None)  # two cores, shared
@given(objects, st.booleans(), st.sampled_from(["", " ", "\n"]))
def test_every_valid_object_is_read_back(
    value: dict[str, object], ascii_only: bool, around: str
) -> None:
    read = parse_verdict(around + json.dumps(value, ensure_ascii=ascii_only) + around)
    assert read.followed is value["followed"]
    assert read.reasoning == v.storable(str(value["reasoning"]))


def bare(content: str) -> str:
    """Take off what may be taken off, by other means than the parser."""
    text = content.strip(" \t\r\n")
    if text.startswith("<think>") and "</think>" in text:
        text = text.partition("</think>")[2].strip(" \t\r\n")
    lines = text.split("\n")
    first = lines[0].strip().lower()
    fenced = first in {"```", "```json", "~~~", "~~~json"} and lines[-1].strip() == first[:3]
    return "\n".join(lines[1:-1]) if fenced and len(lines) > 2 else text


def check(content: str) -> None:
    try:
        read = parse_verdict(content)
    except VerdictError:
        return
    candidates = []
    for text in (content, bare(content)):
        try:
            candidates.append(json.loads(text, strict=False))
        except ValueError:
            continue
    assert any(
        isinstance(found, dict)
        and found.keys() == {"followed", "reasoning"}
        and found["followed"] is read.followed
        and v.storable(found["reasoning"]) == read.reasoning
        for found in candidates
    )


@settings(deadline=None)  # two cores, shared
@given(st.text() | st.lists(pieces, max_size=12).map("".join) | any_json.map(json.dumps))
def test_arbitrary_text_is_a_verdict_only_if_it_is_the_object(content: str) -> None:
    check(content)


@settings(deadline=None)  # two cores, shared
@given(objects, st.data())
def test_a_damaged_object_is_never_read_as_another_verdict(
    value: dict[str, object], data: st.DataObject
) -> None:
    text = json.dumps(value)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    check(text[:start] + data.draw(st.text(max_size=5) | pieces) + text[end:])
    assert_truncated_is_refused(text, end)


def assert_truncated_is_refused(text: str, end: int) -> None:
    if end < len(text):
        with pytest.raises(VerdictError):
            parse_verdict(text[:end])


@settings(deadline=None)  # two cores, shared
@given(st.text(alphabet=st.characters(), max_size=60))
def test_what_is_kept_can_be_stored(text: str) -> None:
    kept = v.storable(text)
    assert "\x00" not in kept
    kept.encode("utf-8")
    assert len(kept) == len(text)
