"""Writers meet on real connections, each holding what comes early in the order of ``memory.locks``."""

from __future__ import annotations

from contextlib import ExitStack
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from contextgraph import regrading
from contextgraph.envelope import OutcomeCorrection
from contextgraph.ingest import LogFacts, ingest_records
from contextgraph.late_outcomes import record_late_outcome
from contextgraph.regrading import regrade
from contextgraph.skills import load_skill
from memory import evidence
from memory.models import Attempt, EvictionSweep, Retrieval, Run, Tip
from scoring.models import JudgeCall
from tests.concurrency import Job
from tests.contextgraph.ladders import use_ladder
from tests.contextgraph.run_documents import attempt, run, tip
from tests.factories import make_attempt, make_retrieval, make_run
from tests.memory.sweep_histories import MISLEADING, give_past, old_tip

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from contextgraph.envelope import Record

pytestmark = pytest.mark.django_db(transaction=True)

RULE = "sshd_port"
SKILL_FILE = """
[grading]
version = "2"
kind = "binary"
[eviction]
automatic = true
min_retrievals = 3
threshold = 0.3
interval_below = false
cap_share = 1.0
"""
"""Grades a success higher than it is stored below, and retires at once."""


@pytest.fixture(autouse=True)
def _skill(broker: str, settings: Any, tmp_path: Path) -> Any:
    settings.SIGNALS = ["trace"]
    use_ladder(settings, tmp_path, SKILL_FILE)
    yield
    load_skill.cache_clear()


def caught_tip(**fields: Any) -> tuple[Tip, Run]:
    """A tip that misled, and the run whose first dream pass will retire it."""
    caught = old_tip(**fields)
    return caught, give_past(caught, *[MISLEADING] * 3, run=make_run(status="finalizing"))


def graded_run(*, born: Tip, **fields: Any) -> Attempt:
    """The attempt of a final run, in evidence, that used a tip, and that *born* was learned from."""
    origin = make_run(**({"status": "done"} | fields))
    source = make_attempt(run=origin, rule_id=RULE, outcome=0.25)
    make_retrieval(attempt=source, llm=True)
    Tip.objects.filter(pk=born.pk).update(
        source_run_id=origin.external_id,
        source_rule_id=RULE,
        outcome_at_source_value=0.25,
        outcome_at_source_confidence=1.0,
        extra={"source_attempt": 1},
    )
    with transaction.atomic():
        evidence.refresh([origin.pk])
    return source


def store(records: list[Record]) -> None:
    ingest_records(lambda: iter(records), log=LogFacts(), revise=True)


# --- A dream pass that is taken back holds everything until its end --------------------------------


def a_regrading() -> tuple[Run, Callable[[], Any]]:
    caught, dreaming = caught_tip()
    origin = graded_run(born=caught).run.external_id
    return dreaming, lambda: regrade(skill="stig", by="ada", run=origin)


def a_late_outcome() -> tuple[Run, Callable[[], Any]]:
    caught, dreaming = caught_tip()
    source = graded_run(born=caught)
    verdict = OutcomeCorrection(rule_id=RULE, number=1, passed=False)
    return dreaming, lambda: record_late_outcome(source.pk, verdict, by="ada")


def a_revision() -> tuple[Run, Callable[[], Any]]:
    """It brings the text of the tip."""
    caught, dreaming = caught_tip(text="")
    # shown by its own words, so that no row waits for the text, and the revision for no run
    caught.retrievals.update(shown_text="as it was", shown_sha256="5" * 64)
    store(run(attempt(retrievals=()), external_id="old"))
    document = run(tip(caught.external_id), attempt(passed=False), external_id="old")
    return dreaming, lambda: store(document)


@pytest.mark.parametrize("scene", [a_regrading, a_late_outcome, a_revision])
def test_no_writer_waits_in_a_circle_with_a_dream_pass_that_is_taken_back(
    scene: Callable[[], tuple[Run, Callable[[], Any]]],
) -> None:
    dreaming, write = scene()
    words = ["dream", str(dreaming.pk), "--dry-run", "--force"]
    with ExitStack() as jobs, transaction.atomic():
        with connection.cursor() as cursor:  # the pass stops between its credit and its tips
            cursor.execute(f"LOCK TABLE {EvictionSweep._meta.db_table} IN SHARE MODE")
        dream = jobs.enter_context(Job(lambda: call_command(*words, stdout=StringIO())))
        dream.until_it_waits()
        writer = jobs.enter_context(Job(write))
        writer.until_it_waits()
    assert (dream.error, writer.error) == (None, None)
    assert evidence.check() == []


# --- Others ---------------------------------------------------------------------------------------


def test_a_judge_may_commit_while_a_late_outcome_holds_its_run() -> None:
    """What a call cost points to the run, and is checked when the row is in hand."""
    source = make_attempt(run=make_run(status="scoring"), rule_id=RULE, outcome=0.25)
    row = make_retrieval(attempt=source)
    verdict = OutcomeCorrection(rule_id=RULE, number=1, passed=False)
    with ExitStack() as jobs, transaction.atomic():
        JudgeCall.objects.create(run=source.run, tips=1, http_tries=1, seconds=1.0)
        Retrieval.objects.filter(pk=row.pk).update(llm_tries=1)
        late = jobs.enter_context(Job(lambda: record_late_outcome(source.pk, verdict, by="ada")))
        late.until_it_waits()
    assert late.error is None
    row.refresh_from_db()
    assert (row.llm_tries, row.outcome_value) == (1, 0.0)


def test_tips_born_of_a_run_are_locked_in_the_order_of_their_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As sweeps lock theirs, however many attempts are written at once: here the higher key first."""
    monkeypatch.setattr(regrading, "ATTEMPTS_AT_ONCE", 1)
    low, high = old_tip(), old_tip()
    first = graded_run(born=high)
    second = make_attempt(run=first.run, rule_id=RULE, number=2, outcome=0.25)
    born = Tip.objects.filter(pk=high.pk).values("source_run_id", "source_rule_id")
    Tip.objects.filter(pk=low.pk).update(
        outcome_at_source_value=0.25,
        outcome_at_source_confidence=1.0,
        extra={"source_attempt": second.number},
        **born.get(),
    )
    with ExitStack() as jobs, transaction.atomic():
        assert Tip.objects.select_for_update(no_key=True).get(pk=low.pk)
        work = jobs.enter_context(Job(lambda: regrade(skill="stig", by="ada")))
        work.until_it_waits()
        free = Tip.objects.select_for_update(no_key=True, nowait=True)
        assert free.get(pk=high.pk), "else a sweep that holds the first would wait for the second"
    assert work.error is None
    values = Tip.objects.filter(source_rule_id=RULE).values_list("outcome_at_source_value")
    assert set(values) == {(1.0,)}
