"""20,000 generated replies: every one a typed outcome, N ids in = N rows out, no default label.

Bytes, truncations, nesting and unicode, in five tests of 4,000. A label that comes out is compared
with what an ordinary JSON parser finds in the reply. Shaped by judges in which one odd reply raised
an exception that nobody had thought of, and the whole run's verdicts were lost.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scoring.judge.errors import JudgeError, VerdictError
from scoring.judge.evidence import verify
from scoring.judge.reply import json_object, read_reply
from scoring.judge.verdict import Finding, Label, Parsed, followed_of, parse_reply, storable
from tests.scoring.judge.replies import reply, verdict

IDS = ["t1", "t2", "t3"]
MANY = settings(
    max_examples=4_000,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

names = st.sampled_from(IDS)
words = st.sampled_from([*Label, *Finding, "maybe", "FOLLOWED", "followed ", ""])
keys = st.sampled_from(
    ["verdicts", "id", "label", "claims", "reasoning", "claim", "finding", "quote", "why", "x"]
)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | words | names | st.text(max_size=8)
)
any_json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)
texts = st.text(max_size=20)
claims = st.fixed_dictionaries(
    {"claim": texts, "finding": st.sampled_from(list(Finding)), "quote": texts, "why": texts}
)
verdicts = st.fixed_dictionaries(
    {
        "id": names,
        "claims": st.lists(claims, min_size=1, max_size=2),
        "reasoning": texts,
        "label": st.sampled_from(list(Label)),
    }
)
near = st.fixed_dictionaries(
    {"id": names | scalars, "claims": any_json | st.lists(claims, max_size=1), "reasoning": scalars,
     "label": scalars},
    optional={"x": scalars},
)  # fmt: skip
GOOD = reply(verdict("t1"), verdict("t2", "not_followed"), verdict("t3", "unclear"))
PIECES = [
    '{"verdicts": [', "]}", "{", "}", "[", "]", ",", ":", '"', "\\", "\n", " ", "null", "NaN", "1e999",
    "```json\n", "\n```", "~~~", "<think>", "</think>", '"label": "followed"', '"id": "t1"', "\\u0000",
    "\\ud83d", "\x00", "\ufeff", "\u202e", GOOD, json.dumps(verdict("t2")), "9" * 5_000,
]  # fmt: skip


def outcome_of(content: str, ids: list[str] = IDS) -> Parsed | None:
    """Read a reply and check all that holds for any reply; None if it was refused as a whole."""
    try:
        parsed = parse_reply(content, ids)
    except VerdictError as error:
        assert error.reason == "judge_error"
        assert not error.retryable
        return None
    rows = [*parsed.verdicts, *parsed.missing, *parsed.refused]
    assert sorted(rows) == sorted(ids)
    items = listed(content)
    stated = {item["id"]: item for item in items}
    assert len(stated) == len(items)
    for name, read in parsed.verdicts.items():
        assert stated[name]["label"] == read.label
        assert storable(stated[name]["reasoning"]) == read.reasoning
        assert [line["finding"] for line in stated[name]["claims"]] == [
            c.finding for c in read.claims
        ]
        verified = verify(read, "systemctl enable --now firewalld\n")
        assert verified.label in {read.label, Label.UNCLEAR}
        assert followed_of(verified.label) is not True or "firewalld" in content
    assert all(isinstance(error, VerdictError) for error in parsed.refused.values())
    return parsed


def listed(content: str) -> list[dict[str, Any]]:
    """What an ordinary parser finds, between the outermost braces."""
    text = content.partition("</think>")[2] if content.lstrip().startswith("<think>") else content
    inner = text[text.index("{") : text.rindex("}") + 1]
    found: list[dict[str, Any]] = json.loads(inner, strict=False)["verdicts"]
    return found


@MANY
@given(
    st.lists(verdicts, max_size=3, unique_by=lambda item: str(item["id"])),
    st.booleans(),
    st.sampled_from(["{}", " {}\n", "```json\n{}\n```", "<think>{{</think>{}"]),
)
def test_what_a_valid_reply_states_comes_out_and_nothing_else(
    items: list[dict[str, Any]], ascii_only: bool, around: str
) -> None:
    content = around.format(json.dumps({"verdicts": items}, ensure_ascii=ascii_only))
    parsed = outcome_of(content)
    assert parsed is not None
    assert parsed.verdicts.keys() | parsed.refused.keys() == {item["id"] for item in items}


@MANY
@given(st.data())
def test_a_damaged_reply_is_never_read_as_another_one(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, len(GOOD)))
    put = data.draw(st.sampled_from(PIECES) | st.text(max_size=3))
    outcome_of(GOOD[:start] + put + GOOD[end:])
    if start < len(GOOD):
        assert outcome_of(GOOD[:start]) is None


@MANY
@given(st.lists(near, max_size=4).map(lambda items: {"verdicts": items}) | any_json)
def test_any_json_has_a_typed_outcome(value: Any) -> None:
    outcome_of(json.dumps(value))


@MANY
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=8).map("".join))
def test_any_text_has_a_typed_outcome(content: str) -> None:
    outcome_of(content)


BODY = json.dumps({"choices": [{"message": {"content": GOOD}, "finish_reason": "stop"}]}).encode()


@MANY
@given(
    st.binary(max_size=60),
    st.integers(0, len(BODY)),
    st.integers(0, 12),
    st.sampled_from(["put", "cut", "alone"]),
)
def test_any_bytes_have_a_typed_outcome(noise: bytes, at: int, width: int, way: str) -> None:
    body = {"put": BODY[:at] + noise + BODY[at + width :], "cut": BODY[:at], "alone": noise}[way]
    try:
        got = read_reply(json_object(body), raw="", requested_model="m", latency_s=0, tries=1)
    except JudgeError as error:
        assert error.reason == "judge_error"
        return
    outcome_of(got.content)
