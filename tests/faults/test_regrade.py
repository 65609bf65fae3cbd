"""SIGKILL in the middle of a re-grading: whole runs or none, and the next call goes on.

A real ``manage.py regrade`` waits for a lock that this test holds, between two runs or in the middle of
one, and is killed there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, transaction

from contextgraph.regrading import regrade
from memory import evidence
from memory.models import Attempt, OutcomeRevision, Retrieval, Run
from tests.contextgraph.ladders import NAIVE, edited, use_ladder
from tests.contextgraph.regraded_runs import everything, summary, upstream_run
from tests.faults.programs import wait_until
from tests.faults.saboteur import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
"""Unlike pg_stat_activity, this one is read anew within a transaction."""


@pytest.fixture
def _naive(broker: str, settings: Any, tmp_path: Path) -> None:
    settings.SIGNALS = ["trace"]
    use_ladder(settings, tmp_path, NAIVE)


def regrading_process(settings: Any) -> subprocess.Popen[bytes]:
    database = connection.settings_dict
    environment = os.environ | {
        "DATABASE_URL": f"postgresql://{database['USER']}@/{database['NAME']}"
        f"?host={database['HOST']}&port={database['PORT']}",
        "CONTEXTGRAPH_PROMPTS_DIR": str(settings.PROMPTS_DIR),
        "CONTEXTGRAPH_SIGNALS": "trace",
    }
    argv = [
        sys.executable,
        str(CHECKOUT / "manage.py"),
        "regrade",
        "--skill",
        "stig",
        "--by",
        "ada",
    ]
    return subprocess.Popen(
        argv, env=environment, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def is_stuck() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(WAITING)
        return bool(cursor.fetchone()[0])


def is_gone() -> bool:
    """Whether the server has noticed, too."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return not cursor.fetchone()[0]


def killed_while(locked: Any, settings: Any) -> None:
    """Start it with the rows *locked* held by us; kill it when it waits for them."""
    with transaction.atomic():
        assert list(locked.select_for_update())
        process = regrading_process(settings)
        try:
            wait_until(is_stuck, within=60, what="the re-grading to reach the lock")
        finally:
            os.kill(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, output.decode()
    wait_until(is_gone, within=30, what="the end of the killed session")


@pytest.mark.usefixtures("_naive")
def test_killed_between_two_runs(settings: Any, tmp_path: Path) -> None:
    runs = [upstream_run(f"night-{number}") for number in (1, 2)]
    use_ladder(settings, tmp_path, edited())
    killed_while(Run.objects.filter(pk=runs[1].pk), settings)
    assert list(Run.objects.order_by("pk").values_list("status", flat=True)) == [
        "finalizing",
        "done",
    ]
    assert set(OutcomeRevision.objects.values_list("attempt__run")) == {(runs[0].pk,)}
    report = regrade(skill="stig", by="ada")
    assert [one.revised for one in report.runs] == [0, 3]
    assert_all_regraded(runs)


@pytest.mark.usefixtures("_naive")
def test_killed_in_the_middle_of_a_run(settings: Any, tmp_path: Path) -> None:
    run = upstream_run()
    use_ladder(settings, tmp_path, edited())
    before = everything()
    # its attempts and revisions are written by then
    killed_while(Retrieval.objects.filter(rule_id="sshd_banner"), settings)
    assert everything() == before
    assert regrade(skill="stig", by="ada").revised == 3
    assert_all_regraded([run])


def assert_all_regraded(runs: list[Run]) -> None:
    assert set(Run.objects.values_list("status", flat=True)) == {"done"}
    assert set(Attempt.objects.values_list("outcome_grader", flat=True)) == {"stig@1"}
    assert [summary(run)["tips"][0]["quadrants"]["misleading"] for run in runs] == [3] * len(runs)
    assert set(OutcomeRevision.objects.values_list("number", flat=True)) == {1}
    assert evidence.check() == []
