"""The envelope reader streams a document and yields what parsing it whole would yield.

Guarantees: same records and digest as ``Envelope.records``, any key order, refusals with a path.
Does not guarantee: speed of documents with surrogate escapes.
Shaped by: senders whose JSON library sorts keys, and runs too large to decode at once.
"""

from __future__ import annotations

import gzip
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextgraph.envelope import (
    AttemptEntry,
    RunFooter,
    UnknownVersion,
    digest_of,
    parse_envelope,
)
from contextgraph.runlogs import RunLogError, UnknownRunLogVersion
from tests.contextgraph.runlogs.log_builder import Read, one_attempt

RETRIEVAL = {"tip": 7, "rank": 1, "similarity": 1.25, "shown_text": "Write the banner."}
ATTEMPT = {
    "rule_id": "login_banner",
    "number": 1,
    "script": "true",
    "passed": False,
    "evaluator_raw": {"lines": [1, 2.5, None, {"deep": [True]}]},
    "retrievals": [RETRIEVAL],
}
DOCUMENT: dict[str, Any] = {
    "schema": "contextgraph.run/1",
    "run": {
        "skill": "hardening",
        "external_id": "night-1",
        "started_at": "2027-03-01T08:00:00Z",
        "ended_at": "2027-03-01T09:00:00Z",
        "model": "/models/a",
        "team": "blue",
    },
    "tips": [{"tip": 7, "text": "Write the banner.", "weight": 3}],
    "attempts": [ATTEMPT, ATTEMPT | {"number": 2, "hazards": ["script_cut", "odd_code"]}],
    "campaign": {"name": "spring", "rounds": [1, 2]},
}


def document(**changes: Any) -> bytes:
    return json.dumps(DOCUMENT | changes).encode()


def test_an_envelope_becomes_header_tips_attempts_footer() -> None:
    read = Read(document())
    assert read.reader.format == "envelope"
    kinds = [type(record).__name__ for record in read.records]
    assert kinds == ["RunHeader", "TipEntry", "AttemptEntry", "AttemptEntry", "RunFooter"]
    assert read.records[0].extra == {"team": "blue"}
    assert read.tips[0].extra == {"weight": 3}
    assert read.footers[0].extra == {"campaign": {"name": "spring", "rounds": [1, 2]}}


def test_the_senders_hazards_are_counted() -> None:
    assert Read(document()).hazards == {"odd_code": 1, "script_cut": 1}


@given(order=st.permutations(list(DOCUMENT)), indent=st.sampled_from([None, 2]))
@settings(max_examples=30, deadline=None)
def test_the_order_of_keys_does_not_matter(order: list[str], indent: int | None) -> None:
    content = json.dumps({key: DOCUMENT[key] for key in order}, indent=indent).encode()
    assert Read(content, format="envelope").records == Read(document()).records


@pytest.mark.parametrize(
    "script",
    ["true", "echo \ud800 lone", "echo \udc00", "echo \N{GRINNING FACE}", "nul \x00"],
)
def test_a_run_has_one_digest_however_it_is_read(script: str) -> None:
    attempts = [ATTEMPT | {"script": script}]
    content = document(attempts=attempts)
    read = Read(content)
    whole = parse_envelope(json.loads(content))
    assert digest_of(read.records) == digest_of(whole.records())
    repaired = "\x00" in script or any(0xD800 <= ord(char) < 0xE000 for char in script)
    assert read.attempt.text_repaired is repaired


@pytest.mark.parametrize("script", ["true", "echo \ud800 lone"])
@pytest.mark.parametrize(
    "number", ["9223372036854775808", "-9223372036854775809", "1" + "0" * 4000, "1e400", "-1e400"]
)
def test_a_number_beyond_the_parsers_range_is_kept(number: str, script: str) -> None:
    raw = {"hash": "NUMBER", "beside": 2.5, "near": 2**63 - 1}
    attempt = ATTEMPT | {"evaluator_raw": raw, "script": script}
    content = document(attempts=[attempt]).replace(b'"NUMBER"', number.encode())
    read = Read(content)
    kept = str(float(number)) if "e" in number else int(number)
    assert read.attempt.evaluator_raw == {"hash": kept, "beside": 2.5, "near": 2**63 - 1}
    assert digest_of(read.records) == digest_of(parse_envelope(json.loads(content)).records())


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (
            document(x="NUMBER").replace(b'"NUMBER"', b"9" * 5_000),
            r"5000 characters .* as a string",
        ),
        (document(x="NUMBER").replace(b'"NUMBER"', b"nine"), "not a JSON document"),
        (document(x=2**64)[:-1], "not a JSON document: .*[Ii]ncomplete"),
    ],
)
def test_a_document_that_cannot_be_read_is_not_asked_for_again(content: bytes, cause: str) -> None:
    with pytest.raises(RunLogError, match=cause) as caught:
        Read(content, format="envelope")
    assert "post it again" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: b"\xef\xbb\xbf" + data])
def test_the_wrapping_of_the_file_does_not_matter(pack: Any) -> None:
    assert Read(pack(document())).records == Read(document()).records


@pytest.mark.parametrize(
    ("content", "place", "cause"),
    [
        (document(run={"skill": "s"}), "run.external_id", "required"),
        (document(run=None), "run", "object"),
        (document(tips={}), "tips", "list"),
        (document(attempts=[ATTEMPT, ATTEMPT]), "attempts.1", "twice"),
        (document(attempts=[ATTEMPT | {"number": 0}]), "attempts.0.number", "greater"),
        (document(attempts=[3]), "attempts.0", "object"),
        (document(tips=[{"tip": 1}, {"text": "x"}]), "tips.1.tip", "required"),
        (document()[:-9], "", "not a JSON document"),
        (document() + b"{}", "", "not a JSON document"),
        (document().replace(b"true", b"\xff"), "", "not a JSON document"),
        (document()[:-1] + b', "run": {}}', "run", "twice"),
        (document()[:-1] + b', "tips": []}', "tips", "twice"),
        (document(x=json.loads("[" * 90 + "]" * 90)), "x", "nested"),
        (gzip.compress(document(), mtime=0)[:-9], "", "cannot be read"),
        (b"[]", "", "JSON object"),
    ],
)
def test_a_bad_envelope_is_refused_with_its_place(content: bytes, place: str, cause: str) -> None:
    with pytest.raises(RunLogError) as caught:
        Read(content, format="envelope")
    assert caught.value.place == place
    assert cause in caught.value.cause
    assert caught.value.mend or place


@pytest.mark.parametrize("version", ["contextgraph.run/2", None, 1])
def test_an_unknown_version_is_refused_by_name(version: object) -> None:
    with pytest.raises(UnknownRunLogVersion, match=str(version)) as caught:
        Read(document(schema=version))
    assert isinstance(caught.value, UnknownVersion)
    assert isinstance(caught.value, RunLogError)


def test_a_field_name_that_looks_like_a_path_is_only_a_name() -> None:
    read = Read(document(**{"attempts.item": [ATTEMPT], "": {"tips": [1]}}))
    assert len(read.attempts) == 2
    assert read.footers[0].extra[""] == {"tips": [1]}


def test_a_number_that_jsonb_cannot_hold_becomes_text() -> None:
    entry = AttemptEntry.model_validate(ATTEMPT | {"evaluator_raw": {"f1": math.nan}})
    assert entry.evaluator_raw == {"f1": "nan"}


def test_a_side_file_is_refused_for_an_envelope() -> None:
    with pytest.raises(RunLogError, match="own texts"):
        Read(document(), side_file=b'{"tip": 1, "text": "x"}\n')


def test_an_events_log_that_quotes_an_envelope_stays_an_events_log() -> None:
    log = one_attempt(script=f"echo '{document().decode()}'")
    assert Read(log).reader.format == "events"


def test_a_footer_of_an_envelope_keeps_its_own_meaning() -> None:
    (footer,) = Read(document(hazards={"x": 1}, model="other")).footers
    assert isinstance(footer, RunFooter)
    assert footer.model == "/models/a"
    assert "x" not in footer.hazards
