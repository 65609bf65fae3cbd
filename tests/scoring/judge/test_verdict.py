"""Every id comes out as a verdict, as missing or as refused: nothing is harvested, repaired, assumed.

Shaped by graders that passed on `{}`, on empty lists, on the first brace they found, and that matched
verdicts to items by their position.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from scoring.judge import errors as e
from scoring.judge import verdict as v
from scoring.judge.verdict import Finding, Label, followed_of, parse_reply, verdict_schema
from tests.scoring.judge.replies import claim, reply, verdict, with_id_twice

GOOD = reply(verdict())
ALONE = json.dumps(verdict())

READ = {
    "as it is": (GOOD, ""),
    "white space around and inside": (GOOD.replace(":", " \r\n\t: \n") + "\n\n", ""),
    "fields in another order": (
        reply(dict(reversed(verdict().items()))),
        "",
    ),
    "a fence": (f"```json\n{GOOD}\n```", "fence"),
    "a fence without a language": (f"\n```\n{GOOD}\n```\n", "fence"),
    "a fence of tildes": (f"~~~JSON\r\n{GOOD}\r\n~~~", "fence"),
    "a closed think block": (f"<think>maybe</think>\n{GOOD}", "think"),
    "a think block with a draft in it": (f"<think>{reply()}</think>{GOOD}", "think"),
    "a think block before a fence": (
        f"<think>\n\n</think>\n\n```json\n{GOOD}\n```",
        "think+fence",
    ),
}

NO_REPLY = {
    "nothing": ("", e.VerdictNotJson),
    "prose": ("Yes, it was followed.", e.VerdictNotJson),
    "prose before": (f"My verdict: {GOOD}", e.VerdictNotJson),
    "prose after": (f"{GOOD} I hope this helps.", e.VerdictNotJson),
    "two objects": (f"{GOOD}\n{GOOD}", e.VerdictNotJson),
    "cut": (GOOD[:-5], e.VerdictNotJson),
    "a byte order mark": (f"\ufeff{GOOD}", e.VerdictNotJson),
    "single quotes": (GOOD.replace('"', "'"), e.VerdictNotJson),
    "a trailing comma": (GOOD.replace("}}}", "},}}"), e.VerdictNotJson),
    "a comment": (f"{GOOD} // sure", e.VerdictNotJson),
    "an open think block": (f"<think>well {GOOD}", e.VerdictNotJson),
    "a think block that only ends": (f"well</think>{GOOD}", e.VerdictNotJson),
    "a think block behind": (f"{GOOD}<think>ok</think>", e.VerdictNotJson),
    "two think blocks": (f"<think>a</think><think>b</think>{GOOD}", e.VerdictNotJson),
    "two fences": (f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```", e.VerdictNotJson),
    "a fence in a fence": (f"~~~\n```json\n{GOOD}\n```\n~~~", e.VerdictNotJson),
    "an open fence": (f"```json\n{GOOD}", e.VerdictNotJson),
    "another language": (f"```python\n{GOOD}\n```", e.VerdictNotJson),
    "a fence and a sea of blanks": ("```" + " " * 200_000 + "x", e.VerdictNotJson),
    "deep nesting": ("[" * 50_000, e.VerdictNotJson),
    "a list": (f"[{GOOD}]", e.VerdictNotObject),
    "true": ("true", e.VerdictNotObject),
    "null": ("null", e.VerdictNotObject),
    "a number": ("1", e.VerdictNotObject),
    "encoded twice": (json.dumps(GOOD), e.VerdictNotObject),
    "an empty object": ("{}", e.VerdictFieldMissing),
    "a verdict without its id": (ALONE, e.VerdictFieldMissing),
    "an id without its frame": (f'{{"t1": {ALONE}}}', e.VerdictFieldMissing),
    "the schema of another judge": ('{"followed": true, "reasoning": "r"}', e.VerdictFieldMissing),
    "one field more": ('{"ok": 1, ' + GOOD[1:], e.VerdictFieldUnknown),
    "a list of verdicts": (f'{{"verdicts": [{ALONE}]}}', e.VerdictFieldType),
    "no verdicts but null": ('{"verdicts": null}', e.VerdictFieldType),
    "a word for verdicts": ('{"verdicts": "followed"}', e.VerdictFieldType),
    "one verdict for all": (f'{{"verdicts": {ALONE}}}', e.VerdictIdInvalid),
    "an unknown id": (reply(t9=verdict()), e.VerdictIdInvalid),
    "an id in other letters": (reply(T1=verdict()), e.VerdictIdInvalid),
    "an id with a blank": (reply(**{"t1 ": verdict()}), e.VerdictIdInvalid),
    "an empty id": (reply(**{"": verdict()}), e.VerdictIdInvalid),
    "an id twice": (with_id_twice(verdict(), verdict("not_followed")), e.VerdictDuplicateKey),
    "an id twice, with one verdict": (with_id_twice(verdict(), verdict()), e.VerdictDuplicateKey),
    "an id twice, spelled apart": (
        with_id_twice(verdict(), verdict()).replace('"t1"', '"t\\u0031"', 1),
        e.VerdictDuplicateKey,
    ),
    "one verdict too many": (reply(*[verdict()] * 3), e.VerdictIdInvalid),
    "a key twice": (GOOD.replace('"label"', '"label": "unclear", "label"'), e.VerdictDuplicateKey),
    "a key twice, spelled apart": (
        GOOD.replace('"label"', '"l\\u0061bel": "followed", "label"'),
        e.VerdictDuplicateKey,
    ),
    "a key twice behind a fence": (
        "```\n" + GOOD.replace('"label"', '"label": "unclear", "label"') + "\n```",
        e.VerdictDuplicateKey,
    ),
    "NaN": (GOOD.replace('"followed"', "NaN"), e.VerdictNumberInvalid),
    "minus infinity": (GOOD.replace('"followed"', "-Infinity"), e.VerdictNumberInvalid),
    "a float that overflows": (GOOD.replace('"followed"', "1e999"), e.VerdictNumberInvalid),
    "an integer of 16,000 digits": (
        GOOD.replace('"followed"', "9" * 16_000),
        e.VerdictNumberInvalid,
    ),
    "a loop of blanks": (GOOD + " " * 300_000, e.VerdictTooLong),
}

REFUSED = {
    "no reasoning": ({"reasoning": None}, e.VerdictFieldType),
    "a list of reasons": ({"reasoning": ["r"]}, e.VerdictFieldType),
    "a reasoning of 401 characters": ({"reasoning": "x" * 401}, e.VerdictTooLong),
    "a field more": ({"confidence": 1}, e.VerdictFieldUnknown),
    "a switch for the checks": ({"skip_validation": True}, e.VerdictFieldUnknown),
    "an id inside": ({"id": "t1"}, e.VerdictFieldUnknown),
    "a label of true": ({"label": True}, e.VerdictFieldType),
    "a null label": ({"label": None}, e.VerdictFieldType),
    "a label of another judge": ({"label": "maybe"}, e.VerdictValueUnknown),
    "a label with a blank": ({"label": "followed "}, e.VerdictValueUnknown),
    "a label in capitals": ({"label": "FOLLOWED"}, e.VerdictValueUnknown),
    "a finding of another judge": ({"claims": [claim("yes")]}, e.VerdictValueUnknown),
    "a finding of 1": ({"claims": [claim(finding=1)]}, e.VerdictFieldType),
    "no claims": ({"claims": []}, e.VerdictNoClaims),
    "a claim that is a text": ({"claims": ["done"]}, e.VerdictNotObject),
    "claims by name": ({"claims": {"a": 1}}, e.VerdictFieldType),
    "seven claims": ({"claims": [claim()] * 7}, e.VerdictTooLong),
    "a claim with a field more": ({"claims": [claim(verified=True)]}, e.VerdictFieldUnknown),
    "a null quote": ({"claims": [claim(quote=None)]}, e.VerdictFieldType),
    "a quote of 301 characters": ({"claims": [claim(quote="x" * 301)]}, e.VerdictTooLong),
}


@pytest.mark.parametrize("case", READ)
def test_a_valid_reply_is_read_and_says_what_was_taken_off(case: str) -> None:
    content, stripped = READ[case]
    parsed = parse_reply(content, ["t1"])
    assert (parsed.missing, parsed.refused, parsed.stripped) == ((), {}, stripped)
    read = parsed.verdicts["t1"]
    assert (read.id, read.label, read.reasoning) == ("t1", "followed", "it runs chronyc makestep")
    assert read.claims == (
        v.Claim("step the clock", Finding.DONE, "chronyc -a makestep", "it runs it"),
    )


@pytest.mark.parametrize("case", NO_REPLY)
def test_a_reply_that_cannot_be_told_apart_is_refused_as_a_whole(case: str) -> None:
    content, expected = NO_REPLY[case]
    with pytest.raises(e.VerdictError) as caught:
        parse_reply(content, ["t1", "t2"])
    assert type(caught.value) is expected
    assert (caught.value.reason, caught.value.retryable) == ("judge_error", False)
    assert caught.value.worth_reasking
    assert "chronyc" not in str(caught.value)


@pytest.mark.parametrize("case", REFUSED)
def test_a_defect_of_one_verdict_is_its_own_and_leaves_the_others(case: str) -> None:
    change, expected = REFUSED[case]
    parsed = parse_reply(reply(verdict(**change), verdict("not_followed")), ["t1", "t2"])
    assert {name: type(error) for name, error in parsed.refused.items()} == {"t1": expected}
    assert parsed.verdicts.keys() == {"t2"}
    assert "chronyc" not in str(parsed.refused["t1"])


@pytest.mark.parametrize("stated", [None, True, 1, "followed", [], [verdict()]])
def test_a_verdict_that_is_no_object_is_its_own_defect_too(stated: Any) -> None:
    parsed = parse_reply(reply(stated, verdict("not_followed")), ["t1", "t2"])
    assert {name: type(error) for name, error in parsed.refused.items()} == {
        "t1": e.VerdictNotObject
    }
    assert parsed.verdicts.keys() == {"t2"}


@pytest.mark.parametrize("field", ["claims", "reasoning", "label"])
def test_every_field_of_a_verdict_is_required(field: str) -> None:
    lacking = {name: value for name, value in verdict().items() if name != field}
    refused = parse_reply(reply(lacking), ["t1"]).refused["t1"]
    assert type(refused) is e.VerdictFieldMissing
    assert field in str(refused)


def test_ids_that_the_reply_leaves_out_are_missing_in_the_order_in_which_they_were_asked() -> None:
    parsed = parse_reply(reply(t3=verdict()), ["t2", "t3", "t1"])
    assert parsed.missing == ("t2", "t1")
    assert parse_reply(reply(), ["t1"]).missing == ("t1",)


def test_the_order_of_the_verdicts_does_not_matter() -> None:
    parsed = parse_reply(reply(t2=verdict("unclear"), t1=verdict()), ["t1", "t2"])
    assert {name: read.label for name, read in parsed.verdicts.items()} == {
        "t1": "followed",
        "t2": "unclear",
    }


@pytest.mark.parametrize(
    ("label", "findings", "agrees"),
    [
        ("followed", ["done"], True),
        ("followed", ["absent", "done"], True),
        ("followed", ["opposite", "done"], True),
        ("followed", ["opposite"], False),
        ("followed", ["absent"], False),
        ("followed", ["unclear"], False),
        ("contradicted", ["opposite"], True),
        ("contradicted", ["done", "opposite"], True),
        ("contradicted", ["done"], False),
        ("contradicted", ["absent"], False),
        ("not_followed", ["absent"], True),
        ("not_followed", ["done", "absent"], True),
        ("not_followed", ["done"], False),
        ("not_followed", ["opposite"], False),
        ("not_applicable", ["absent"], True),
        ("not_applicable", ["unclear"], True),
        ("not_applicable", ["absent", "done"], False),
        ("not_applicable", ["opposite"], False),
        ("unclear", ["done", "opposite", "absent", "unclear"], True),
    ],
)
def test_a_label_that_its_own_checklist_contradicts_is_refused(
    label: str, findings: list[str], agrees: bool
) -> None:
    stated = verdict(label=label, claims=[claim(finding) for finding in findings])
    parsed = parse_reply(reply(stated), ["t1"])
    assert ("t1" in parsed.verdicts) is agrees
    assert agrees or type(parsed.refused["t1"]) is e.VerdictContradiction


def test_only_three_labels_say_whether_the_tip_was_followed() -> None:
    assert {label: followed_of(label) for label in Label} == {
        Label.FOLLOWED: True,
        Label.CONTRADICTED: False,
        Label.NOT_FOLLOWED: False,
        Label.NOT_APPLICABLE: None,
        Label.UNCLEAR: None,
    }


def test_what_postgres_cannot_hold_is_replaced_and_all_else_is_kept() -> None:
    text = 'a\x01b\n\x1b[0m ``` {} ``` </think> "q" \u00e9\U0001f600'
    changed = verdict(reasoning=f"{text}\x00\ud83d", claims=[claim(quote=f"{text}\x00")])
    read = parse_reply(reply(changed), ["t1"]).verdicts["t1"]
    assert read.reasoning == f"{text}\u2400\ufffd"
    assert read.claims[0].quote == f"{text}\u2400"


def test_raw_control_characters_in_strings_are_read_as_they_are() -> None:
    raw = GOOD.replace("it runs it", "it\x01\n\tis")
    assert parse_reply(raw, ["t1"]).verdicts["t1"].claims[0].why == "it\x01\n\tis"


def test_the_schema_accepts_what_the_parser_accepts_and_caps_every_size() -> None:
    schema = verdict_schema(["t1", "t2"])
    jsonschema_rs.meta.validate(schema)
    validator = jsonschema_rs.Draft202012Validator(schema)
    assert not list(validator.iter_errors(json.loads(reply(verdict(), verdict("unclear")))))
    bad: list[dict[str, Any]] = [change for change, _ in REFUSED.values()]
    for change in bad:
        assert list(validator.iter_errors(json.loads(reply(verdict(), verdict(**change)))))
    assert list(validator.iter_errors(json.loads(reply(verdict()))))
    assert list(validator.iter_errors(json.loads(reply(verdict(), t3=verdict()))))
    assert list(validator.iter_errors(json.loads(reply(verdict(), verdict(), verdict()))))
    assert list(validator.iter_errors(json.loads(reply(verdict(), None))))
    for part in _parts(schema):
        if part.get("type") == "object":
            assert part["required"] == list(part["properties"])
            assert part["additionalProperties"] is False
        if part.get("type") == "string":
            assert "maxLength" in part or "enum" in part
        if part.get("type") == "array":
            assert {"minItems", "maxItems"} <= part.keys()


def _parts(schema: Any) -> list[dict[str, Any]]:
    inner = (
        schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    )
    own = [schema] if isinstance(schema, dict) and "type" in schema else []
    return own + [part for value in inner for part in _parts(value)]


def test_the_model_writes_the_checklist_before_the_label() -> None:
    verdicts: Any = verdict_schema(["t1"])["properties"]
    assert list(verdicts["verdicts"]["properties"]["t1"]["properties"]) == [
        "claims",
        "reasoning",
        "label",
    ]


def test_the_schema_asks_for_each_id_once_in_the_order_given_whatever_its_name() -> None:
    ids = ["t3", "properties", "t1"]
    verdicts: Any = verdict_schema(ids)["properties"]
    assert list(verdicts["verdicts"]["properties"]) == verdicts["verdicts"]["required"] == ids
    assert "$ref" not in json.dumps(verdicts)


@pytest.mark.parametrize("ids", [[], ["a", "a"], [""], ["x" * 33], [str(n) for n in range(65)]])
def test_ids_that_could_not_have_been_asked_about_are_the_callers_error(ids: list[str]) -> None:
    with pytest.raises(ValueError, match="id"):
        verdict_schema(ids)
    with pytest.raises(ValueError, match="id"):
        parse_reply(GOOD, ids)
