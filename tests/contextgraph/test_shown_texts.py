"""What the agent saw of a tip whose text its attempt does not hold: whole or cut, early or late."""

from __future__ import annotations

from typing import Any

import pytest

from contextgraph import run_rows, tip_book
from contextgraph.envelope import EnvelopeError, Record
from contextgraph.ingest import IngestResult, LogFacts, ingest_records
from memory.models import Attempt, Retrieval, Run, Tip
from memory.reasons import Reason
from tests.contextgraph.run_documents import attempt, retrieval, run, sha256, tip

pytestmark = pytest.mark.django_db

LONG = "Set option one \N{BLACK STAR} in /etc/app.conf and restart the service"
SEEN = LONG[:16]


def store(records: list[Record]) -> list[IngestResult]:
    return ingest_records(lambda: iter(records), log=LogFacts())


def shown_columns(**narrow: Any) -> set[tuple[str, str, bool]]:
    found = Retrieval.objects.filter(**narrow)
    return set(found.values_list("shown_text", "shown_sha256", "shown_cut"))


def test_a_stored_tip_is_shown_as_far_as_the_sender_says():
    store(run(tip("t1", LONG), external_id="night-0"))
    seen = (retrieval("t1", shown_chars=16),)
    whole = (retrieval("t1", shown_chars=len(LONG)),)
    store(run(attempt(retrievals=seen), attempt("other_rule", retrievals=whole)))
    assert shown_columns(rule_id="app_option_set") == {(SEEN, sha256(SEEN.encode()), True)}
    assert shown_columns(rule_id="other_rule") == {(LONG, sha256(LONG.encode()), False)}


@pytest.mark.parametrize("batch", [1, 1_000])
def test_a_tip_described_later_in_the_file_is_shown_as_far_as_the_sender_says(monkeypatch, batch):
    monkeypatch.setattr(run_rows, "BATCH_ROWS", batch)
    limits = {"app_a": 16, "app_b": len(LONG), "app_c": 0, "app_d": 2**70}
    attempts = [
        attempt(rule, retrievals=(retrieval("t1", shown_chars=limit),))
        for rule, limit in limits.items()
    ]
    store(run(*attempts, attempt("app_e"), tip("t1", LONG)))
    assert shown_columns(rule_id="app_a") == {(SEEN, sha256(SEEN.encode()), True)}
    assert shown_columns(rule_id="app_c") == {("", sha256(b""), True)}
    whole = shown_columns(rule_id__in=["app_b", "app_d", "app_e"])
    assert whole == {(LONG, sha256(LONG.encode()), False)}


def test_a_tip_described_by_a_later_run_is_shown_as_far_as_the_sender_said():
    store(run(attempt(retrievals=(retrieval("t1", shown_chars=16, rank=3, note="kept"),))))
    row = Retrieval.objects.get()
    assert (row.shown_text, row.extra) == ("", {"shown_chars": 16, "note": "kept"})
    store(run(tip("t1", LONG), attempt(), external_id="night-2"))
    assert shown_columns(run__external_id="night-1") == {(SEEN, sha256(SEEN.encode()), True)}
    assert shown_columns(run__external_id="night-2") == {(LONG, sha256(LONG.encode()), False)}


def test_a_text_that_never_comes_is_the_reason_unless_a_stronger_one_holds():
    store(
        run(
            attempt("app_a", passed=None),
            attempt("app_b", script=None),
            attempt("app_c", retrievals=(retrieval("t1", shown=False),)),
        )
    )
    found = dict(Retrieval.objects.values_list("rule_id", "llm_reason"))
    assert found == {
        "app_a": Reason.TIP_TEXT_UNKNOWN,
        "app_b": Reason.NO_SCRIPT,
        "app_c": Reason.NOT_SHOWN,
    }


def test_a_run_is_shown_its_own_text_where_another_run_has_another_one():
    store(run(tip("t1", "The old text"), external_id="night-0"))
    seen = (retrieval("t1", shown_chars=7),)
    store(run(tip("t1", "A new text"), attempt(), attempt("other", retrievals=seen)))
    assert shown_columns(rule_id="app_option_set") == {("A new text", sha256(b"A new text"), False)}
    assert shown_columns(rule_id="other") == {("A new t", sha256(b"A new t"), True)}
    assert Tip.objects.get().text == "The old text"


@pytest.mark.parametrize("batch", [1, 1_000])
def test_a_run_is_shown_its_own_text_when_it_comes_late(monkeypatch, batch):
    monkeypatch.setattr(run_rows, "BATCH_ROWS", batch)
    store(run(tip("t1", "The old text"), tip("t2", "Same in both"), external_id="night-0"))
    limited = (retrieval("t1", shown_chars=5), retrieval("t2", rank=2))
    said = (retrieval("t1", shown_text="The old text"),)
    store(
        run(
            attempt("app_a"),
            attempt("app_b", retrievals=limited),
            attempt("app_c", retrievals=said),
            tip("t1", "A new text"),
            tip("t1", "A third text"),
            tip("t2", "Same in both"),
            attempt("app_d"),
        )
    )
    found = set(Retrieval.objects.values_list("rule_id", "tip__external_id", "shown_text"))
    assert found == {
        ("app_a", "t1", "A new text"),
        ("app_b", "t1", "A new"),
        ("app_b", "t2", "Same in both"),
        ("app_c", "t1", "The old text"),
        ("app_d", "t1", "A new text"),
    }


def test_two_runs_of_one_document_keep_their_own_texts():
    first = run(tip("t1", "Text of the first"), attempt(), external_id="night-1")
    second = run(tip("t1", "Text of the second"), attempt(), external_id="night-2")
    third = run(attempt(), external_id="night-3")
    store(first + second + third)
    found = dict(Retrieval.objects.values_list("run__external_id", "shown_text"))
    assert found == {
        "night-1": "Text of the first",
        "night-2": "Text of the second",
        "night-3": "Text of the first",
    }


def test_differing_texts_wait_on_disk_and_come_back_whole(monkeypatch):
    monkeypatch.setattr(tip_book, "IN_MEMORY", 64)
    texts = {f"t{n}": f"\N{BLACK STAR} text {n} of this run" for n in range(20)}
    store(run(*[tip(key, "Stored first") for key in texts], external_id="night-0"))
    retrievals = tuple(retrieval(key) for key in texts)
    store(run(*[tip(k, v) for k, v in texts.items()], attempt(retrievals=retrievals)))
    assert dict(Retrieval.objects.values_list("tip__external_id", "shown_text")) == texts


@pytest.mark.parametrize("stored", [False, True])
def test_late_texts_cannot_be_multiplied_without_bound(settings, monkeypatch, stored):
    monkeypatch.setattr(run_rows, "BATCH_ROWS", 1)
    settings.MAX_DOCUMENT_BYTES = 10_000
    if stored:
        store(run(tip("t1", "Stored first"), external_id="night-0"))
    before = [model.objects.count() for model in (Run, Attempt, Tip, Retrieval)]
    many = [attempt(f"rule_{n}") for n in range(11)]
    with pytest.raises(EnvelopeError, match="more room"):
        store(run(*many, tip("t1", "x" * 1_000)))
    assert before == [model.objects.count() for model in (Run, Attempt, Tip, Retrieval)]
    few = [attempt("rule", retrievals=(retrieval("t1", shown_chars=900),))]
    store(run(*few, tip("t1", "x" * 9_000)))
    assert shown_columns() == {("x" * 900, sha256(b"x" * 900), True)}


def test_rows_of_an_earlier_run_are_no_ground_to_refuse_a_later_one(settings):
    settings.MAX_DOCUMENT_BYTES = 10_000
    store(run(*[attempt(f"rule_{n}") for n in range(11)]))
    [result] = store(run(tip("t1", "x" * 1_000), external_id="night-2"))
    assert result.status == "created"
    assert shown_columns() == {("", "", False)}
    assert not Retrieval.objects.exclude(trace_reason=Reason.TIP_TEXT_UNKNOWN).exists()
