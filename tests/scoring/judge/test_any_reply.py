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
        "claims": st.lists(claims, min_size=1, max_size=2),
        "reasoning": texts,
        "label": st.sampled_from(list(Label)),
    }
)
near = st.fixed_dictionaries(
    {"claims": any_json | st.lists(claims, max_size=1), "reasoning": scalars, "label": scalars},
    optional={"id": names | scalars, "x": scalars},
)  # fmt: skip
GOOD = reply(verdict(), verdict("not_followed"), verdict("unclear"))
PIECES = [
    '{"verdicts": {', '{"verdicts": [', '"t1": {', "]}", "}}", "{", "}", "[", "]", ",", ":", '"', "\\",
    "\n", " ", "null", "NaN", "1e999", "```json\n", "\n```", "~~~", "<think>", "</think>",
    '"label": "followed"', '"id": "t1"', "\\u0000", "\\ud83d", "\x00", "\ufeff", "\u202e", GOOD,
    json.dumps(verdict()), "9" * 5_000,
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
    stated = keyed(content)
    assert parsed.verdicts.keys() | parsed.refused.keys() == stated.keys()
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


def keyed(content: str) -> dict[str, Any]:
    """What an ordinary parser finds between the outermost braces; fails on a key that stands twice."""
    text = content.partition("</think>")[2] if content.lstrip().startswith("<think>") else content
    inner = text[text.index("{") : text.rindex("}") + 1]
    found: dict[str, Any] = json.loads(inner, strict=False, object_pairs_hook=once)["verdicts"]
    return found


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), "a reply that names a key twice was accepted"
    return dict(pairs)


def written(pairs: list[tuple[str, Any]]) -> str:
    """The content of a reply with these verdicts, a key twice where there are two of it."""
    lines = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in pairs)
    return f'{{"verdicts": {{{lines}}}}}'


@MANY
@given(
    st.dictionaries(names, verdicts, max_size=3),
    st.booleans(),
    st.sampled_from(["{}", " {}\n", "```json\n{}\n```", "<think>{{</think>{}"]),
)
def test_what_a_valid_reply_states_comes_out_and_nothing_else(
    stated: dict[str, Any], ascii_only: bool, around: str
) -> None:
    content = around.format(json.dumps({"verdicts": stated}, ensure_ascii=ascii_only))
    parsed = outcome_of(content)
    assert parsed is not None
    assert parsed.verdicts.keys() | parsed.refused.keys() == stated.keys()


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
@given(
    st.lists(st.tuples(names | keys | st.text(max_size=3), near | any_json), max_size=4).map(
        written
    )
    | any_json.map(json.dumps)
)
def test_any_json_has_a_typed_outcome(content: str) -> None:
    outcome_of(content)


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
