"""Runs as an agent records them: begun, gone on with, ended once, and never touched afterwards."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings as settings_file
from django.core.management import call_command
from django.utils import timezone
from kombu import Connection

from contextgraph import pipeline, reaping
from contextgraph.agent import memory_store
from contextgraph.envelope import EnvelopeError
from contextgraph.ingest import RunConflict, ingest_envelope
from memory.credit import POLICIES
from memory.events import run_recorded
from memory.models import Retrieval, Run
from memory.querysets import UnknownRun
from memory.store import RunClosed, RunExists, StoreRefused
from memory.store_records import digest
from memory.store_values import RunHandle
from memory.summary import summarise
from tests.contextgraph.run_documents import envelope
from tests.memory.ranking_rows import rule_tip

if TYPE_CHECKING:
    from memory.store import MemoryStore

pytestmark = pytest.mark.django_db

RULE = "audit_rules_dac_modification_fchmod"


@pytest.fixture
def store() -> MemoryStore:
    return memory_store("stig")


def row(handle: RunHandle) -> Run:
    return Run.objects.get(pk=handle.id)


# --- Start and open -------------------------------------------------------------------------------


def test_a_run_records_until_it_is_ended(store: MemoryStore) -> None:
    run = store.start_run("n1", model="m", environment_tag="lab", source="loop", config={"a": (1,)})
    stored = row(run)
    assert (stored.status, stored.digest, stored.ended_at) == ("recording", "", None)
    assert stored.extra == {"config": {"a": [1]}}
    assert (run.skill, run.external_id, run.model, run.environment_tag) == (
        "stig", "n1", "m", "lab",
    )  # fmt: skip
    assert not pipeline.dispatch(run.id), "the pipeline leaves it to its agent"
    assert store.open_run("n1") == run
    assert store.end_run(run, {"fixed": 3})
    stored = row(run)
    assert (stored.status, stored.log_format, stored.revision) == ("ingested", "recorded", 1)
    assert stored.extra == {"config": {"a": [1]}, "summary": {"fixed": 3}}
    assert stored.ended_at is not None
    assert stored.digest == digest(stored) != ""


def test_one_id_is_one_run_of_the_skill(store: MemoryStore) -> None:
    run = store.start_run("n1")
    with pytest.raises(RunExists, match=f"primary key {run.id}, recording.*open_run"):
        store.start_run("n1")
    assert memory_store("cve").start_run("n1").id != run.id


def test_a_run_is_opened_only_while_it_records(store: MemoryStore) -> None:
    with pytest.raises(UnknownRun, match="'n1': start_run"):
        store.open_run("n1")
    store.end_run(store.start_run("n1"))
    with pytest.raises(RunClosed, match="stig/n1 is ingested"):
        store.open_run("n1")


def test_a_handle_of_another_skill_is_refused(store: MemoryStore) -> None:
    run = memory_store("cve").start_run("n1")
    with pytest.raises(StoreRefused, match="of skill 'cve', this store is of 'stig'"):
        store.retrieve(run, RULE)
    posing = RunHandle(id=run.id, skill="stig", external_id="n1", started_at=run.started_at)
    with pytest.raises(UnknownRun, match="no run stig/n1"):
        store.add_ban(posing, "rm -rf")


def test_what_was_begun_and_what_is_saved_is_told_in_the_order_of_the_attempts(
    store: MemoryStore,
) -> None:
    run = store.start_run("n1")
    assert store.attempts(run) == []
    left = store.retrieve(run, "rule_b")
    saved = store.save_attempt(run, "rule_a", number=3, script="x", passed=False)
    unknown = store.save_attempt(run, "rule_a", script="y")
    told = [
        ("rule_b", 1, left.attempt_id, False, None),
        ("rule_a", 3, saved, True, False),
        ("rule_a", 4, unknown, True, None),
    ]
    assert store.attempts(store.open_run("n1")) == told
    other = store.start_run("n2")
    assert store.attempts(other) == []
    store.end_run(run)
    assert store.attempts(run) == told
    with pytest.raises(StoreRefused, match="this store is of"):
        memory_store("cve").attempts(run)


def test_odd_names_are_made_storable_and_found_again(store: MemoryStore) -> None:
    run = store.start_run("n\0\ud800\N{SNOWMAN}'; --", model="m\0")
    assert run.external_id == "n\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}☃'; --"
    assert row(run).text_repaired
    assert store.open_run("n\0\ud800\N{SNOWMAN}'; --") == run
    got = store.retrieve(run, "rule\0x", category="\ud800", query="\0?", title="\0")
    assert got.rule_id == "rule\N{REPLACEMENT CHARACTER}x"
    store.save_attempt(run, "rule\0x", script="echo '\0'", evaluator_raw={"\0": ["\ud800"]})
    assert store.end_run(run, {"\0": "\ud800"})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"external_id": ""}, "run.external_id"),
        ({"external_id": "x" * 501}, "run.external_id"),
        ({"model": "x" * 501}, "run.model"),
        ({"started_at": datetime(2026, 1, 1)}, "run.started_at"),  # noqa: DTZ001 - the point
        ({"started_at": datetime(9999, 1, 1, tzinfo=UTC)}, "no time of a run"),
        ({"config": {"at": timezone.now()}}, "config.at: datetime is no JSON"),
        ({"config": {"n": 10**2000}}, "config.n: holds a number of more than 1200 digits"),
        ({"config": {"n": Decimal("1e999999999")}}, "config.n: holds a number of more than"),
        ({"config": [1]}, "config: a mapping is needed here, this is list"),
    ],
)
def test_what_no_posted_run_may_hold_is_refused_by_name(
    store: MemoryStore, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(EnvelopeError, match=said):
        store.start_run(**({"external_id": "n1"} | fields))
    assert not Run.objects.exists()


def test_deep_and_round_json_is_refused_not_followed(store: MemoryStore) -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(EnvelopeError, match="nested deeper than 64"):
        store.start_run("n1", config={"ring": ring})


def test_odd_numbers_are_kept_as_the_database_gives_them_back(store: MemoryStore) -> None:
    odd = {
        "nan": float("nan"), "inf": Decimal("-Infinity"), "big": 1e300, "small": 5e-324,
        "zero": -0.0, "exact": Decimal("2.0"), "snan": Decimal("sNaN"),
    }  # fmt: skip
    run = store.start_run("n1", config=odd)
    assert row(run).extra["config"] == {
        "nan": "nan", "inf": "-inf", "big": 10**300, "small": 5e-324, "zero": 0.0, "exact": 2,
        "snan": "nan",
    }  # fmt: skip
    store.end_run(run)
    assert digest(row(run)) == row(run).digest


def test_an_unusable_skill_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(EnvelopeError, match=r"run\.skill"):
        memory_store("")


def test_a_document_too_large_to_be_posted_is_too_large_to_be_recorded(
    store: MemoryStore, settings: Any
) -> None:
    settings.MAX_DOCUMENT_BYTES = 1024
    run = store.start_run("n1")
    with pytest.raises(EnvelopeError, match="more than MAX_DOCUMENT_BYTES"):
        store.save_attempt(run, RULE, script="☃" * 400)
    with pytest.raises(EnvelopeError, match="summary: 1101 bytes"):
        store.end_run(run, {"s": "x" * 1100})
    with pytest.raises(EnvelopeError, match="tip: "):
        store.save_tip("x" * 2000, run=run)
    assert not row(run).attempts.exists()


# --- End ------------------------------------------------------------------------------------------


def test_ending_twice_ends_once(store: MemoryStore) -> None:
    run = store.start_run("n1")
    assert store.end_run(run, {"first": True})
    before = row(run)
    assert not store.end_run(run, {"second": True})
    assert (row(run).digest, row(run).extra) == (before.digest, {"summary": {"first": True}})


def test_nothing_reaches_a_run_that_was_ended(store: MemoryStore) -> None:
    rule_tip()
    run = store.start_run("n1")
    got = store.retrieve(run, RULE)
    store.end_run(run)
    calls = [
        lambda: store.retrieve(run, RULE),
        lambda: store.retrieve(run, RULE, attempt=1),
        lambda: store.mark_shown(got),
        lambda: store.save_attempt(run, RULE, number=1, passed=True),
        lambda: store.update_retrieval_attempt_ids(run, RULE, got.attempt_id),
        lambda: store.save_tip("Set it", run=run),
        lambda: store.add_ban(run, "rm -rf"),
    ]
    for call in calls:
        with pytest.raises(RunClosed, match="stig/n1 is ingested, not recording"):
            call()
    assert row(run).digest == digest(row(run))


def test_a_clock_that_was_set_back_does_not_keep_a_run_from_its_end(store: MemoryStore) -> None:
    later = timezone.now() + timedelta(days=1)
    run = store.start_run("n1", started_at=later)
    assert store.end_run(run)
    assert row(run).ended_at == later
    other = store.start_run("n2", started_at=later)
    with pytest.raises(EnvelopeError, match="before started_at"):
        store.end_run(other, ended_at=later - timedelta(seconds=1))
    assert row(other).status == "recording"


def test_attempts_left_open_are_counted_and_have_no_outcome(store: MemoryStore) -> None:
    rule_tip()
    run = store.start_run("n1")
    store.retrieve(run, RULE, category="audit")
    store.end_run(run)
    assert row(run).hazards == {"attempt_left_open": 1}
    attempt = row(run).attempts.get()
    assert (attempt.outcome_value, attempt.outcome_reason, attempt.ended_at) == (
        None, "no_outcome", None,
    )  # fmt: skip
    assert row(run).retrievals.get().llm_reason == "no_script"


def test_a_posted_revision_ends_the_recording(store: MemoryStore) -> None:
    run = store.start_run("night-1")
    with pytest.raises(RunConflict):
        ingest_envelope(envelope("night-1"))
    ingest_envelope(envelope("night-1"), revise=True)
    with pytest.raises(RunClosed, match="superseded by another revision"):
        store.save_attempt(run, RULE)
    with pytest.raises(RunClosed, match="superseded"):
        store.end_run(run)


# --- Handing over ---------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_the_end_is_announced_after_the_commit_and_whoever_fails_harms_nobody(
    store: MemoryStore, broker: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def broken(**_: Any) -> None:
        raise ValueError("a listener of ours")

    def listener(*, run_id: int, **_: Any) -> None:
        heard.append(Run.objects.get(pk=run_id).status)

    run_recorded.connect(broken)
    run_recorded.connect(listener)
    try:
        run = store.start_run("n1")
        store.end_run(run)
        store.end_run(run)
    finally:
        run_recorded.disconnect(broken)
        run_recorded.disconnect(listener)
    assert heard == ["ingested"]
    assert queued() == [run.id]
    assert "a listener of ours" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_is_away_does_not_keep_a_run_from_its_end(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("nobody listens")

    monkeypatch.setattr("celery.app.base.Celery.send_task", unreachable)
    assert store.end_run(store.start_run("n1"))
    assert "outbox.publish_failed" in caplog.text


def queued() -> list[Any]:
    """Ids of the runs that the control queue holds a dispatch for."""
    with Connection(settings_file.CELERY_BROKER_URL) as connection:
        items = connection.default_channel.client.lrange("control", 0, -1)
    messages = [json.loads(item) for item in items]
    assert {found["headers"]["task"] for found in messages} <= {"contextgraph.dispatch_run"}
    return [json.loads(base64.b64decode(found["body"]))[0][0] for found in messages]


@pytest.mark.django_db(transaction=True)
def test_a_recorded_run_is_scored_credited_and_shown_like_any_other(
    store: MemoryStore, settings: Any, broker: str
) -> None:
    settings.SIGNALS = ["trace"]
    tip = rule_tip(text="Run chmod 0600 /etc/shadow", source_rule_id=RULE)
    run = store.start_run("n1")
    store.retrieve(run, RULE, category="audit")
    store.save_attempt(run, RULE, script="chmod 0600 /etc/shadow\n", passed=True)
    store.end_run(run)
    assert pipeline.reap(inline=True, impatient=True).finalized == [run.id]
    stored = row(run)
    assert stored.status == "done"
    assert stored.retrievals.get().tip_followed_trace_verdict == "followed"
    summary = summarise(stored, policy=POLICIES["adr0019"])
    assert summary["tips"][0]["tip"] == tip.external_id
    out = StringIO()
    call_command("show_run", "n1", "--json", stdout=out)
    shown = json.loads(out.getvalue())
    assert shown["attempts"][0]["retrievals"][0]["quadrant"] == "earned"


def test_a_silent_agent_is_closed_by_the_reaper_and_every_verb_is_a_sign_of_life(
    store: MemoryStore, settings: Any
) -> None:
    settings.RECORDING_TIMEOUT_H = 1.0
    run = store.start_run("n1")
    ago = timezone.now() - timedelta(hours=2)
    for speak in (
        lambda: store.add_ban(run, "rm -rf"),
        lambda: store.save_tip("Set PermitRootLogin to no", run=run),
        lambda: store.retrieve(run, RULE),
    ):
        Run.objects.update(state_changed_at=ago)
        assert list(reaping.silent_recordings()) == [row(run)]
        speak()
        assert not reaping.close_recording(run.id)
    Run.objects.update(state_changed_at=ago)
    row(run).attempts.update(started_at=ago)
    Retrieval.objects.update(retrieved_at=ago)
    assert reaping.close_recording(run.id)
    with pytest.raises(RunClosed):
        store.open_run("n1")
    assert not store.end_run(run), "the agent comes back too late"
