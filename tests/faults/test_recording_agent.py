"""SIGKILL an agent at work: what a verb returned for is kept, what it did not is not there, it goes on.

The agent is a real process with a store of its own. It is killed while its verb waits for a lock, and
while a verb has written and not committed. Shaped by outcomes that were written at the end of a rule.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from django.db import connection, transaction

from contextgraph import pipeline
from contextgraph.agent import memory_store
from memory.models import Attempt, Retrieval, Run
from tests.faults.programs import wait_until
from tests.faults.saboteur import CHECKOUT
from tests.memory.ranking_rows import RULE, rule_tip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]

PREFACE: Final = """
import json, os, time
os.environ["DJANGO_SETTINGS_MODULE"] = "contextgraph.settings"
import django; django.setup()
from django.db import transaction
from contextgraph.agent import memory_store
store = memory_store("stig")
def say(**facts): print(json.dumps(facts), flush=True)
"""
SAVES: Final = f"""
run = store.start_run("n1", environment_tag="lab")
got = store.retrieve(run, {RULE!r}, category="audit")
store.mark_shown(got, shown={{got.tips[0].tip_id: "cut"}})
say(number=got.attempt_number, tips=[tip.tip_id for tip in got.tips])
input()
store.save_attempt(run, {RULE!r}, number=got.attempt_number, script="x", passed=True)
"""
RETRIEVES: Final = f"""
run = store.open_run("n1")
with transaction.atomic():
    got = store.retrieve(run, {RULE!r}, category="audit")
    say(number=got.attempt_number)
    time.sleep(120)
"""


@pytest.fixture(autouse=True)
def _quiet(broker: str, settings: Any) -> None:
    settings.SIGNALS = ["trace"]


@pytest.fixture
def agent() -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts a program as another process on the database of this test."""
    database = connection.settings_dict
    environment = os.environ | {
        "DATABASE_URL": f"postgresql://{database['USER']}@/{database['NAME']}"
        f"?host={database['HOST']}&port={database['PORT']}",
    }
    started: list[subprocess.Popen[str]] = []

    def start(program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PREFACE + program],
            env=environment,
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def heard(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def waiting_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database()"
        )
        return bool(cursor.fetchone()[0])


def test_an_agent_that_is_killed_loses_nothing_and_goes_on(
    agent: Callable[[str], subprocess.Popen[str]],
) -> None:
    for number in range(3):
        rule_tip(text=f"Option {number} on")
    process = agent(SAVES)
    said = heard(process)
    with transaction.atomic():
        Run.objects.select_for_update().get()
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        wait_until(waiting_for_a_lock, within=30, what="save_attempt to wait for the run")
        process.kill()
        process.wait(timeout=30)
    attempt = Attempt.objects.get()
    assert (attempt.ended_at, attempt.script, attempt.outcome_reason) == (None, None, "no_outcome")
    store = memory_store("stig")
    run = store.open_run("n1")
    again = store.retrieve(run, RULE, category="audit", attempt=said["number"])
    assert [tip.tip_id for tip in again.tips] == said["tips"]
    assert again.tips[0].text == "cut", "what was said of the prompt is kept"
    store.save_attempt(run, RULE, number=said["number"], script="x", passed=True)
    assert store.end_run(run)
    assert pipeline.reap(inline=True, impatient=True).finalized == [run.id]
    assert set(Retrieval.objects.values_list("outcome_value", flat=True)) == {1.0}


def test_a_retrieve_that_is_killed_before_its_commit_never_was(
    agent: Callable[[str], subprocess.Popen[str]],
) -> None:
    rule_tip()
    memory_store("stig").start_run("n1")
    process = agent(RETRIEVES)
    assert heard(process) == {"number": 1}
    process.kill()
    process.wait(timeout=30)
    store = memory_store("stig")
    got = store.retrieve(store.open_run("n1"), RULE)
    assert got.attempt_number == 1
    assert Attempt.objects.count() == Retrieval.objects.count() == 1
