"""Which documents are known by their sha256 alone, and which must be read again."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from contextgraph.ingest import IngestResult, LogFacts, ingest_document, ingest_records
from contextgraph.runlogs import RunLogError
from memory.models import Retrieval
from tests.contextgraph.run_documents import body_of, envelope, run, sha256, tip

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.django_db


def test_a_known_document_is_recognised_without_being_parsed():
    body = body_of(envelope())
    facts = {"name": "a.json", "log_sha256": sha256(body)}
    ingest_document(io.BytesIO(body), **facts)
    [again] = ingest_document(io.BytesIO(b"not read at all"), **facts)
    assert again.status == "unchanged"


@pytest.mark.parametrize("options", [{"skill": "cve"}, {"revise": True}])
def test_a_known_document_is_read_again_when_it_may_mean_something_else(options):
    body = body_of(envelope())
    ingest_document(io.BytesIO(body), name="a.json", log_sha256=sha256(body))
    with pytest.raises(RunLogError):
        ingest_document(io.BytesIO(b"garbage"), name="a", log_sha256=sha256(body), **options)


def nameless(
    name: str, run_id: str = "", more: Sequence[tuple[str, Any]] = (), **options: Any
) -> list[IngestResult]:
    """Ingest a log that says neither who it is nor what its skill is."""
    stamp = {"timestamp": "2026-05-04T08:00:00+00:00", "agent": "system"}
    events = [("run_start", {}), ("attempt_start", {"rule_id": "r", "attempt": 1})]
    lines = [json.dumps(stamp | {"event_type": k, "data": data}) for k, data in [*events, *more]]
    body = "\n".join(lines).encode()
    facts = {"log_sha256": sha256(body), "skill": "stig"} | options
    return ingest_document(io.BytesIO(body), name=name, run_id=run_id, **facts)


def test_a_log_that_names_a_stored_tip_by_its_id_alone_is_credited_with_what_its_prompt_shows():
    text = "Set option one in /etc/app.conf. " * 10
    earlier = run(tip("5", text), external_id="night-0")
    ingest_records(lambda: iter(earlier), log=LogFacts())
    loaded = [{"tip_id": 5, "rank": 1}]
    nameless(
        "log.jsonl",
        more=[("prompt_assembled", {"phase": "apply_fix", "v2_tips_loaded": loaded})],
    )
    row = Retrieval.objects.get()
    assert (row.shown_text, row.shown_cut) == (text[:150], True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("log.jsonl", "first-id"), ("log.jsonl", "second-id")),
        (("first-id.jsonl", ""), ("second-id.jsonl", "")),
        (("second-id.jsonl", "first-id"), ("second-id.jsonl", "")),
    ],
)
def test_a_log_without_an_id_is_another_run_under_another_id(first, second):
    [one] = nameless(*first)
    [other] = nameless(*second)
    assert (one.external_id, one.status) == ("first-id", "created")
    assert (other.external_id, other.status) == ("second-id", "created")
    assert [nameless(*posted)[0].status for posted in (first, second)] == ["unchanged"] * 2


@pytest.mark.parametrize("options", [{"skill": ""}, {"format": "envelope"}])
def test_a_known_log_that_these_options_cannot_read_is_refused(options):
    nameless("log.jsonl")
    with pytest.raises(RunLogError):
        nameless("log.jsonl", **options)
