"""Whatever happens to the lines of a log, a reader answers with records or with a RunLogError.

Guarantees: over cuts, shuffles, repeats, deletions, spliced bytes and swapped values, every start event
that can be read comes out as an attempt or is counted, numbers stay unique, and every record can be
stored as JSON.
Does not guarantee: that a damaged log means what the whole one meant.
Shaped by: a parser that went on after a bad line with the attempt before it still open.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from contextgraph.envelope import AttemptEntry, OutcomeCorrection, RunFooter, RunHeader
from contextgraph.runlogs import RunLogError, open_run_log
from tests.contextgraph.runlogs.log_builder import LONG_TIP, Log

if TYPE_CHECKING:
    from contextgraph.envelope import Record


def story() -> list[bytes]:
    log = Log().start().tip(7).tip(8, LONG_TIP).rule("a")
    log.whole_attempt(1, rule_id="a", tips=[7, 8, 9], passed=False).tip(9)
    log.whole_attempt(2, rule_id="a", tips=[7]).rule("b")
    log.attempt(1, "b").prompt(1, [8], "b").call().result().evaluate(False, 0.5)
    log.verdict("deferred_verification", 1, "b").rule("a")
    log.whole_attempt(1, rule_id="a", passed=False)
    log.event("post_deferred_evaluation", rule_id="b", passed=True).end()
    return log.lines


STORY = story()
ODD: list[Any] = [
    None, True, -1, 0, 10**25, 1.5, "", "x" * 600, "\x00", "\ud800", [], {}, [None], {"a": []},
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A log with a few kinds of damage, each of which real logs have shown."""
    lines = list(STORY)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(
            st.sampled_from(["drop", "repeat", "swap", "cut", "splice", "value", "shuffle"])
        )
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        match kind:
            case "drop":
                del lines[at]
            case "repeat":
                lines.insert(draw(st.integers(0, len(lines))), lines[at])
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[at], lines[other] = lines[other], lines[at]
            case "cut":
                del lines[at + 1 :]
                lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
            case "splice":
                offset = draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:offset] + draw(st.binary(max_size=6)) + lines[at][offset:]
            case "value":
                lines[at] = changed(lines[at], draw)
            case "shuffle":
                lines = draw(st.permutations(lines))
    return b"".join(lines)


def changed(line: bytes, draw: st.DrawFn) -> bytes:
    """Give one field of an event a value that it should not have."""
    try:
        event = json.loads(line)
    except ValueError:
        return line
    if not isinstance(event, dict):
        return line
    box = draw(st.sampled_from([event, event.get("data")]))
    if isinstance(box, dict) and box:
        box[draw(st.sampled_from(sorted(box)))] = draw(st.sampled_from(ODD))
    return json.dumps(event).encode() + b"\n"


def started(content: bytes) -> int:
    """Start events that any JSON reader would accept, with a rule and inside a run."""
    count = 0
    for line in content.split(b"\n"):
        try:
            event = json.loads(line.strip(b" \t\r\x00").decode(errors="replace"))
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("event_type") == "attempt_start":
            count += isinstance(event.get("data"), dict | None)
    return count


def read(content: bytes) -> list[Record]:
    reader = open_run_log(io.BytesIO(content), skill="hardening", name="log")
    return list(reader.records())


@given(damaged())
@settings(max_examples=400, deadline=None)
def test_no_damage_loses_an_attempt_in_silence(content: bytes) -> None:
    try:
        records = read(content)
    except RunLogError as refusal:
        assert refusal.cause
        return
    hazards: Counter[str] = Counter()
    for record in records:
        if isinstance(record, RunFooter):
            hazards.update(record.hazards)
    emitted = sum(isinstance(record, AttemptEntry) for record in records)
    opened = emitted - hazards["attempt_start_missing"] + hazards["attempt_start_repeated"]
    lost = started(content) - opened
    assert 0 <= lost <= hazards["orphan_event"]


@given(damaged())
@settings(max_examples=200, deadline=None)
def test_records_of_a_damaged_log_can_be_stored(content: bytes) -> None:
    try:
        records = read(content)
    except RunLogError:
        return
    numbers: set[tuple[str, int]] = set()
    open_run = False
    for record in records:
        assert isinstance(record, RunHeader) is not open_run
        open_run = not isinstance(record, RunFooter)
        stored = json.dumps(record.model_dump(mode="json"), allow_nan=False)
        assert "\\u0000" not in stored
        if isinstance(record, RunHeader):
            numbers.clear()
        elif isinstance(record, AttemptEntry):
            assert (record.rule_id, record.number) not in numbers
            numbers.add((record.rule_id, record.number))
        elif isinstance(record, OutcomeCorrection):
            assert (record.rule_id, record.number) in numbers
    assert not open_run


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_refused_or_read(content: bytes) -> None:
    for chosen in ("auto", "events", "envelope"):
        try:
            reader = open_run_log(io.BytesIO(content), format=chosen, skill="s", name="n")
            list(reader.records())
        except RunLogError as refusal:
            assert str(refusal)
