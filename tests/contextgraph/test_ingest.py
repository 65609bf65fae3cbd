"""Ingest: idempotent, atomic, and true to what the agent saw."""

from __future__ import annotations

import io
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from contextgraph import run_rows
from contextgraph.envelope import (
    EnvelopeError,
    Record,
    RunFooter,
)
from contextgraph.ingest import (
    IngestResult,
    LogFacts,
    RunConflict,
    ingest_document,
    ingest_envelope,
    ingest_records,
)
from memory import evidence
from memory.models import Attempt, Retrieval, Run, Tip, TipEvidence
from memory.reasons import Reason
from tests.contextgraph.run_documents import (
    attempt,
    correction,
    envelope,
    header,
    retrieval,
    run,
    sha256,
    tip,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db


def store(records: list[Record], **options: Any) -> list[IngestResult]:
    return ingest_records(lambda: iter(records), log=LogFacts(), **options)


def rows() -> tuple[int, int, int, int]:
    return tuple(model.objects.count() for model in (Run, Attempt, Tip, Retrieval))


# --- what is stored -------------------------------------------------------------------------------


def test_a_retrieval_holds_copies_of_everything_credit_reads():
    records = run(
        tip("t1", "Use the vendor profile"),
        attempt(category="app", retrievals=(retrieval("t1", similarity=0.7, note="kept"),)),
        model="model-b",
        environment_tag="lab",
    )
    [result] = store(records)
    row = Retrieval.objects.get()
    assert (row.skill, row.category, row.model, row.environment_tag) == (
        "stig", "app", "model-b", "lab",
    )  # fmt: skip
    assert (row.outcome_value, row.outcome_confidence) == (1.0, 1.0)
    assert row.shown_text == "Use the vendor profile"
    assert row.shown_sha256 == sha256(b"Use the vendor profile")
    assert row.extra == {"note": "kept"}
    assert row.retrieved_at == row.run.started_at
    assert (result.status, result.retrievals) == ("created", 1)


def test_what_the_sender_showed_outranks_the_tips_own_text():
    seen = retrieval("t1", shown_text="Use the vendor", shown_cut=True)
    store(run(tip("t1", "Use the vendor profile"), attempt(retrievals=(seen,))))
    row = Retrieval.objects.get()
    assert (row.shown_text, row.shown_cut) == ("Use the vendor", True)
    assert row.tip.text == "Use the vendor profile"


@pytest.mark.parametrize(
    ("entry", "shown", "reason"),
    [
        ({}, True, ""),
        ({}, False, Reason.NOT_SHOWN),
        ({"script": None}, True, Reason.NO_SCRIPT),
        ({"script": None}, False, Reason.NOT_SHOWN),
        ({"script_truncated": True}, True, Reason.SCRIPT_TRUNCATED),
        ({"script": None, "script_truncated": True}, True, Reason.NO_SCRIPT),
    ],
)
def test_structural_reasons_follow_their_precedence(entry, shown, reason):
    store(run(tip("t1"), attempt(**entry, retrievals=(retrieval("t1", shown=shown),))))
    row = Retrieval.objects.get()
    assert {row.llm_reason, row.emb_reason, row.trace_reason} == {reason}
    assert bool(row.shown_text) is shown


def test_an_attempt_without_verdict_is_not_sent_to_the_judge():
    store(run(tip("t1"), attempt(passed=None)))
    row = Retrieval.objects.get()
    assert (row.llm_reason, row.emb_reason, row.trace_reason) == (Reason.NO_OUTCOME, "", "")
    assert row.attempt.outcome_reason == "no_outcome"


def test_an_evaluator_that_failed_has_graded_nothing():
    store(run(attempt(passed=False, failure_mode="health_failure", evaluator_error="ssh: lost")))
    row = Attempt.objects.get()
    assert (row.outcome_value, row.outcome_reason) == (None, "no_outcome")
    assert row.evaluator_error == "ssh: lost"


def test_the_senders_number_decides_the_rung_and_its_grade_is_kept_beside_ours():
    store(run(attempt(number=7, sender_number=2, grade_value=0.9, grade_confidence=0.6)))
    row = Attempt.objects.get()
    assert (row.number, row.sender_number) == (7, 2)
    assert (row.outcome_value, row.outcome_confidence) == (0.8, 0.6)
    assert (row.sender_grade_value, row.sender_grade_confidence) == (0.9, 0.6)
    assert row.outcome_grader.startswith("stig@")


def test_raw_output_that_contradicts_the_sender_keeps_the_senders_mode():
    raw = {"health": "UNHEALTHY"}
    store(run(attempt(passed=False, failure_mode="rule_still_failing", evaluator_raw=raw)))
    row = Attempt.objects.get()
    assert (row.failure_mode, row.outcome_value) == ("health_failure", -0.2)
    assert row.extra == {"sender_failure_mode": "rule_still_failing"}


def test_text_that_postgres_cannot_hold_is_stored_with_a_flag():
    store(
        run(tip("t1", "a\x00b"), attempt(script="echo \ud800", evaluator_raw={"x": float("nan")}))
    )
    assert Tip.objects.get().text == "a\N{REPLACEMENT CHARACTER}b"
    assert Tip.objects.get().text_repaired
    row = Attempt.objects.get()
    assert row.text_repaired
    assert row.evaluator_raw == {"x": "nan"}


# --- tips -----------------------------------------------------------------------------------------


def test_a_tip_described_after_its_attempt_gives_the_shown_text(monkeypatch):
    monkeypatch.setattr(run_rows, "BATCH_ROWS", 1)
    store(run(attempt(), attempt("other_rule"), tip("t1", "Told later")))
    assert set(Retrieval.objects.values_list("shown_text", "shown_sha256")) == {
        ("Told later", sha256(b"Told later"))
    }


def test_a_tip_that_is_never_described_gets_a_row_without_text():
    store(run(attempt()))
    assert Tip.objects.get().text == ""
    row = Retrieval.objects.get()
    assert (row.shown_text, row.shown_sha256) == ("", "")
    assert {row.llm_reason, row.emb_reason, row.trace_reason} == {Reason.TIP_TEXT_UNKNOWN}


def test_a_later_run_fills_the_text_that_was_missing():
    store(run(attempt()))
    store(run(tip("t1", "Known now", tip_type="strategy"), external_id="night-2"))
    row = Tip.objects.get()
    assert (row.text, row.tip_type) == ("Known now", "strategy")


def test_a_known_tip_keeps_its_first_text_and_the_change_is_counted():
    store(run(tip("t1", "First")))
    [result] = store(run(tip("t1", "Second"), attempt(), external_id="night-2"))
    assert Tip.objects.get().text == "First"
    assert result.hazards == {"tip_text_changed": 1}
    assert Run.objects.get(external_id="night-2").hazards == {"tip_text_changed": 1}


def test_tips_of_two_skills_never_meet():
    store(run(tip("t1", "For stig")))
    other = [header("night-2", skill="cve"), tip("t1", "For cve"), RunFooter()]
    store(other)
    assert Tip.objects.count() == 2


# --- late verdicts --------------------------------------------------------------------------------


def test_a_correction_regrades_its_attempt_and_its_retrievals(monkeypatch):
    monkeypatch.setattr(run_rows, "BATCH_ROWS", 1)
    late = attempt(passed=None, deferred=True)
    store(run(tip("t1"), late, correction(passed=True, evaluator_raw={"checked": "later"})))
    row = Retrieval.objects.get()
    assert (row.outcome_value, row.outcome_confidence, row.llm_reason) == (1.0, 1.0, "")
    assert row.attempt.outcome_value == 1.0
    assert (row.attempt.passed, row.attempt.deferred) == (True, True)
    assert row.attempt.evaluator_raw == {"checked": "later"}


def test_a_correction_may_come_before_its_attempt(monkeypatch):
    monkeypatch.setattr(run_rows, "BATCH_ROWS", 1)
    store(run(correction(passed=False), attempt(passed=None, deferred=True)))
    assert Attempt.objects.get().outcome_value == 0.0


def test_a_correction_without_an_attempt_is_refused():
    with pytest.raises(EnvelopeError, match="app_option_set #1"):
        store(run(correction()))
    assert rows() == (0, 0, 0, 0)


# --- once, and as a whole -------------------------------------------------------------------------


def test_the_same_run_twice_is_a_no_op():
    [first] = ingest_envelope(envelope())
    before = rows()
    [second] = ingest_envelope(envelope(), name="sent again")
    assert rows() == before
    assert (first.status, second.status) == ("created", "unchanged")
    assert (second.created, second.run_id, second.retrievals) == (False, first.run_id, 4)


def test_another_run_under_a_known_id_is_refused_and_nothing_is_written():
    ingest_envelope(envelope())
    before = rows()
    with pytest.raises(RunConflict, match=r"stig/night-1 .* revise"):
        ingest_envelope(envelope(attempts=3))
    assert rows() == before


def test_a_revision_keeps_the_old_one_out_of_the_count():
    [old] = ingest_envelope(envelope())
    [new] = ingest_envelope(envelope(attempts=3), revise=True)
    assert new.status == "revised"
    assert Run.objects.get(pk=old.run_id).superseded_at is not None
    assert Run.objects.get(pk=new.run_id).revision == 2
    assert Retrieval.objects.counted().count() == 6
    assert Retrieval.objects.filter(run=old.run_id, superseded=True).count() == 4


def test_what_a_revision_replaces_leaves_the_evidence_with_it():
    [old] = store(run(attempt()))
    evidence.refresh([old.run_id])
    revision = run(attempt(), attempt("app_other"))

    def breaks_off() -> Iterator[Record]:
        yield from revision[:2]
        raise OSError("the log is gone")

    streams = [breaks_off(), iter(revision)]
    with pytest.raises(OSError, match="the log is gone"):
        ingest_records(lambda: streams.pop(), log=LogFacts(), revise=True)
    assert evidence.is_in_evidence(old.run_id)
    store(revision, revise=True)
    assert not TipEvidence.objects.exists()


def test_a_revision_with_the_same_digest_is_a_no_op():
    ingest_envelope(envelope())
    [again] = ingest_envelope(envelope(), revise=True)
    assert (again.status, Run.objects.get().revision) == ("unchanged", 1)


def test_a_document_is_stored_whole_or_not_at_all():
    ingest_envelope(envelope("night-2"))
    before = rows()
    both = run(tip("t9"), attempt(), external_id="night-1") + run(external_id="night-2")
    with pytest.raises(RunConflict):
        store(both)
    assert rows() == before


def test_one_document_may_hold_several_runs_and_some_of_them_known():
    first = run(tip("t1"), attempt(), external_id="night-1")
    store(first)
    results = store(first + run(attempt(), external_id="night-2"))
    assert [result.status for result in results] == ["unchanged", "created"]
    assert Retrieval.objects.count() == 2


@pytest.mark.parametrize(
    ("records", "cause"),
    [
        ([], "no run"),
        ([tip("t1")], "before the run's header"),
        ([header()], "no footer"),
        ([header(), header("night-2"), RunFooter()], "no footer"),
        (run(attempt(), attempt()), "twice"),
        (run(attempt(number=2**31)), "no column can hold"),
        (run(attempt(started_at=datetime(1, 1, 1, tzinfo=UTC))), "no time of a run"),
        (run(tip("\N{GRINNING FACE}" * 500, source_rule_id="\N{GRINNING FACE}" * 500)), ""),
        (
            [header("\N{GRINNING FACE}" * 500, skill="\N{GRINNING FACE}" * 500), RunFooter()],
            "index",
        ),
    ],
)
def test_what_cannot_be_stored_is_refused_before_the_first_row(records, cause):
    if cause:
        with pytest.raises(EnvelopeError, match=cause):
            store(records)
        assert rows() == (0, 0, 0, 0)
    else:  # as long as the wire allows, and still storable
        store(records)
        assert Tip.objects.count() == 1


def test_shown_texts_cannot_be_multiplied_without_bound(settings):
    settings.MAX_DOCUMENT_BYTES = 10_000
    many = [attempt(f"rule_{n}") for n in range(11)]
    with pytest.raises(EnvelopeError, match="more room"):
        store(run(tip("t1", "x" * 1_000), *many))
    assert rows() == (0, 0, 0, 0)


# --- after the commit -----------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_new_runs_are_announced_after_the_commit_and_known_ones_are_not():
    seen: list[tuple[int, bool]] = []

    def announce(run_id: int) -> None:
        seen.append((run_id, connection.in_atomic_block))

    [result] = ingest_envelope(envelope(), announce=announce)
    ingest_envelope(envelope(), announce=announce)
    assert seen == [(result.run_id, False)]


@pytest.mark.django_db(transaction=True)
def test_a_failing_announcement_does_not_lose_the_run():
    def announce(run_id: int) -> None:
        raise ConnectionError("broker away")

    [result] = ingest_envelope(envelope(), announce=announce)
    assert Run.objects.get().pk == result.run_id


@pytest.mark.django_db(transaction=True)
def test_two_consumers_with_one_document_store_it_once():
    results: list[str] = []
    gate = threading.Barrier(2)

    def consume() -> None:
        try:
            gate.wait(timeout=10)
            results.extend(item.status for item in ingest_envelope(envelope(attempts=40)))
        finally:
            connection.close()

    threads = [threading.Thread(target=consume) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(results) == ["created", "unchanged"]
    assert rows() == (1, 40, 2, 80)


# --- real input -----------------------------------------------------------------------------------


def test_the_published_stig_run_is_stored_completely(shared_data):
    path = shared_data / "stig_rhel9_run.jsonl"
    body = path.read_bytes()
    [result] = ingest_document(io.BytesIO(body), name=path.name, log_sha256=sha256(body))
    assert result.retrievals == 7_405
    assert rows() == (1, 1_481, 458, 7_405)
    assert not Retrieval.objects.filter(shown=True, shown_text="").exists()
