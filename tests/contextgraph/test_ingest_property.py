"""Ingest as a property: any valid record stream is stored once, whatever the batches."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from contextgraph import run_rows
from contextgraph.envelope import (
    AttemptEntry,
    OutcomeCorrection,
    Record,
    RetrievalEntry,
    RunFooter,
    RunHeader,
    TipEntry,
    digest_of,
)
from contextgraph.ingest import LogFacts, ingest_records
from memory.models import Attempt, Retrieval, Run, Tip
from tests.contextgraph.run_documents import START, header

pytestmark = pytest.mark.django_db

TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
KEY = st.sampled_from(["t1", "t2", "t3", "7", "tip \N{SNOWMAN}"])
RULE = st.sampled_from(["rule_a", "rule_b"])
MOMENT = st.none() | st.datetimes(
    datetime(2000, 1, 1),  # noqa: DTZ001 - hypothesis wants naive bounds
    datetime(2100, 1, 1),  # noqa: DTZ001 - hypothesis wants naive bounds
    timezones=st.just(UTC),
)
UNIT = st.floats(0, 1)
GRADE = st.none() | st.floats(-1, 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def retrieval_entries(draw: st.DrawFn) -> RetrievalEntry:
    withheld = draw(st.booleans())
    return RetrievalEntry(
        tip=draw(KEY),
        rank=draw(st.integers(1, 9)),
        similarity=draw(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
        shown=False if withheld else draw(st.booleans()),
        shown_text=draw(st.none() | TEXT),
        shown_chars=draw(st.none() | st.integers(0, 20)),
        withheld=withheld,
        propensity=draw(st.floats(0, 1, exclude_min=True)),
        retrieved_at=draw(MOMENT),
    )


ATTEMPTS = st.builds(
    AttemptEntry,
    rule_id=RULE,
    number=st.integers(1, 4),
    sender_number=st.none() | st.integers(1, 4),
    started_at=MOMENT,
    script=st.none() | TEXT,
    script_truncated=st.booleans(),
    evaluator_raw=st.none() | st.dictionaries(TEXT, JSON, max_size=3),
    evaluator_error=st.just("") | TEXT,
    passed=st.none() | st.booleans(),
    failure_mode=st.sampled_from(["", "health_failure", "rule_still_failing", "new_mode"]),
    grade_value=GRADE,
    grade_confidence=st.none() | UNIT,
    retrievals=st.lists(retrieval_entries(), max_size=3, unique_by=lambda entry: entry.tip),
)
TIPS = st.builds(
    TipEntry, tip=KEY, text=TEXT, mechanism=TEXT, outcome_at_source_value=GRADE, note=JSON
)
CORRECTIONS = st.builds(
    OutcomeCorrection,
    rule_id=RULE,
    number=st.integers(1, 4),
    passed=st.booleans(),
    grade_value=GRADE,
)


@st.composite
def record_streams(draw: st.DrawFn) -> list[Record]:
    stream: list[Record] = []
    for number in range(draw(st.integers(1, 2))):
        attempts = draw(st.lists(ATTEMPTS, max_size=4, unique_by=lambda a: (a.rule_id, a.number)))
        keys = {(entry.rule_id, entry.number) for entry in attempts}
        late = [c for c in draw(st.lists(CORRECTIONS, max_size=2)) if (c.rule_id, c.number) in keys]
        middle = draw(st.permutations([*attempts, *draw(st.lists(TIPS, max_size=4)), *late]))
        stream += [
            header(f"run-{number}"),
            *middle,
            RunFooter(
                ended_at=draw(st.none() | st.just(START)),
                hazards=draw(st.dictionaries(RULE, st.integers(0, 9))),
            ),
        ]  # fmt: skip
    return stream


@hypothesis_settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(records=record_streams(), batch=st.sampled_from([1, 3, 1_000]))
def test_any_valid_stream_is_stored_once_whatever_the_batches(records, batch, monkeypatch):
    monkeypatch.setattr(run_rows, "BATCH_ROWS", batch)
    with transaction.atomic():
        first = ingest_records(lambda: iter(records), log=LogFacts())
        counts = [model.objects.count() for model in (Run, Attempt, Tip, Retrieval)]
        second = ingest_records(lambda: iter(records), log=LogFacts())
        entries = [e for r in records if isinstance(r, AttemptEntry) for e in r.retrievals]
        assert counts == [model.objects.count() for model in (Run, Attempt, Tip, Retrieval)]
        assert counts[3] == len(entries)
        assert {result.status for result in second} == {"unchanged"}
        assert [r.run_id for r in first] == [r.run_id for r in second]
        assert not Retrieval.objects.filter(shown_sha256="late").exists()
        assert shown_in_rows() == shown_in_records(records)
        transaction.set_rollback(True)


def shown_in_rows() -> dict[tuple[str, str, int, str], str]:
    found = Retrieval.objects.select_related("run", "attempt", "tip")
    return {
        (r.run.external_id, r.rule_id, r.attempt.number, r.tip.external_id): r.shown_text
        for r in found
    }


def shown_in_records(records: list[Record]) -> dict[tuple[str, str, int, str], str]:
    """What each agent saw, by the definition: the first text of its own run, else the first of all."""
    first: dict[str, str] = {}
    own: dict[tuple[str, str], str] = {}
    run_id, entries = "", []
    for record in records:
        if isinstance(record, RunHeader):
            run_id = record.external_id
        elif isinstance(record, TipEntry) and record.text:
            first.setdefault(record.tip, record.text)
            own.setdefault((run_id, record.tip), record.text)
        elif isinstance(record, AttemptEntry):
            entries += [((run_id, record.rule_id, record.number), e) for e in record.retrievals]
    shown = {}
    for (run_id, *place), entry in entries:
        text = own.get((run_id, entry.tip), first.get(entry.tip, ""))[: entry.shown_chars]
        text = text if entry.shown_text is None else entry.shown_text
        shown[run_id, *place, entry.tip] = text if entry.shown else ""
    return shown


@hypothesis_settings(max_examples=40, deadline=None)
@given(records=record_streams())
def test_a_digest_survives_the_json_round_trip(records):
    kinds = [type(record) for record in records]
    wire = [json.loads(record.model_dump_json()) for record in records]
    again = [kind.model_validate(item) for kind, item in zip(kinds, wire, strict=True)]
    assert digest_of(again) == digest_of(records)
