"""``high_stakes`` of a run's header: said in either format, kept, and never guessed from a word."""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command

from contextgraph.agent import memory_store
from contextgraph.envelope import EnvelopeError, RunHeader, digest_of, validate
from contextgraph.ingest import ingest_envelope
from memory.models import Run
from scoring.judge.stakes import asked_for
from tests.contextgraph.run_documents import envelope
from tests.contextgraph.runlogs.log_builder import Log, Read

HEADER = {"skill": "stig", "external_id": "n1", "started_at": "2026-11-01T08:00:00Z"}


@pytest.mark.parametrize("value", ["yes", 1, "true", None])
def test_only_true_and_false_are_answers(value: object) -> None:
    with pytest.raises(EnvelopeError, match="high_stakes"):
        validate(RunHeader, HEADER | {"high_stakes": value})


def test_not_to_ask_is_the_same_as_to_say_nothing() -> None:
    said, silent = (validate(RunHeader, HEADER | each) for each in ({"high_stakes": False}, {}))
    assert digest_of([said]) == digest_of([silent])
    assert digest_of([validate(RunHeader, HEADER | {"high_stakes": True})]) != digest_of([silent])


@pytest.mark.parametrize(("said", "kept"), [(True, True), (False, False), ("yes", False)])
def test_a_run_log_says_it_in_its_first_event(said: object, kept: bool) -> None:
    log = Log().event("run_start", agent="system", run_id="n1", high_stakes=said)
    log.event("skill_manifest", agent="system", skill_name="hardening").rule().attempt()
    (header,) = [each for each in Read(log).records if isinstance(each, RunHeader)]
    assert header.high_stakes is kept


@pytest.mark.django_db
@pytest.mark.usefixtures("broker")
def test_it_is_stored_shown_and_heeded() -> None:
    for name, fields in (("n1", {"high_stakes": True}), ("n2", {})):
        ingest_envelope(envelope(name, **fields))
    asked, silent = Run.objects.order_by("external_id")
    assert (asked_for(asked), asked_for(silent)) == (True, False)
    assert silent.extra == {}
    shown = []
    for run in (asked, silent):
        out = io.StringIO()
        call_command("show_run", str(run.pk), stdout=out)
        shown.append("high stakes" in out.getvalue())
    assert shown == [True, False]


@pytest.mark.django_db
def test_an_agent_in_this_process_can_ask_for_it() -> None:
    store = memory_store("stig")
    store.start_run("n1", high_stakes=True)
    store.start_run("n2")
    asked, silent = Run.objects.order_by("external_id")
    assert (asked_for(asked), silent.extra) == (True, {})
