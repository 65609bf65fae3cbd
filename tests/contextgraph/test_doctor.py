"""Doctor: what works is said, what is broken is named with its mend, nothing blocks, exit codes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from contextgraph import doctor
from contextgraph.models import IncomingDocument, IncomingPart
from memory import evidence
from tests.factories import make_attempt, make_retrieval, make_run
from tests.stand_ins.judge_server import JudgeServer

CHECKOUT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.django_db(transaction=True)


def states(*parts: str) -> dict[str, str]:
    """By the doctor as a whole, or by some of its probes."""
    probes = dict(doctor.PROBES)
    found = [f for part in parts for f in probes[part]()] if parts else doctor.examine()
    return {finding.part: finding.state for finding in found}


def test_it_has_a_line_for_every_part_and_no_error_on_a_whole_system() -> None:
    found = states()
    parts = {"database", "migrations", "broker", "result backend", "consumer", "scheduler", "disk"}
    queues = {f"queue {name}" for name in ("control", "judge", "embed", "trace")}
    assert found.keys() >= parts | queues | {"embedding model", "judge server"}
    assert doctor.ERROR not in {found[part] for part in parts}


def test_a_missing_worker_is_an_error_only_where_nobody_starts_one(settings: Any) -> None:
    settings.USES_EMBEDDED = True
    assert states("workers")["queue control"] == doctor.WARNING
    settings.USES_EMBEDDED = False
    assert states("workers")["queue control"] == doctor.ERROR


def test_a_running_consumer_is_seen_by_its_heartbeat(settings: Any, tmp_path: Path) -> None:
    settings.STATE_DIR = tmp_path
    assert states("consumer")["consumer"] == doctor.WARNING
    (tmp_path / "consumer.alive").touch()
    assert states("consumer")["consumer"] == doctor.OK


@pytest.mark.parametrize(("model", "state"), [("stand-in-judge", "ok"), ("another", "warning")])
def test_a_judge_that_does_not_serve_the_model_is_named(
    model: str, state: str, settings: Any
) -> None:
    with JudgeServer() as server:
        settings.JUDGE_BASE_URL, settings.JUDGE_MODEL = server.base_url, model
        assert states("judge server")["judge server"] == state


def test_documents_that_wait_for_parts_and_refused_ones_are_told_apart() -> None:
    old = timezone.now() - timedelta(hours=1)
    for name, arrived in (("waits", 1), ("refused", 2)):
        document = IncomingDocument.objects.create(
            sha256=name, name=name, parts=2, size=10, last_part_at=old
        )
        for number in range(1, arrived + 1):
            IncomingPart.objects.create(document=document, number=number, sha256="x", body=b"x")
    found = dict(doctor.PROBES)["intake"]()
    details = {f.detail for f in found if f.part == "incomplete document"}
    assert details == {"waits: 1 of 2 parts", "refused: all parts, refused"}


def test_final_runs_without_evidence_are_counted_with_the_mend() -> None:
    make_run(status="done")  # nothing was retrieved in it: nothing is missing
    make_retrieval(attempt=make_attempt(run=make_run(status="scoring")))
    assert states("evidence")["evidence"] == doctor.OK
    run = make_run(status="done")
    make_retrieval(attempt=make_attempt(run=run))
    (finding,) = dict(doctor.PROBES)["evidence"]()
    assert (finding.state, finding.mend) == (doctor.WARNING, "manage.py recount")
    assert "final runs without any: 1;" in finding.detail
    evidence.recount()
    assert states("evidence")["evidence"] == doctor.OK


def test_a_postgres_that_is_too_old_is_an_error(monkeypatch: Any) -> None:
    monkeypatch.setitem(connections["default"].__dict__, "pg_version", 140_022)
    (finding,) = dict(doctor.PROBES)["database"]()
    assert finding.state == doctor.ERROR
    assert "15 or newer" in finding.mend


def test_a_server_that_accepts_and_says_nothing_does_not_block(monkeypatch: Any) -> None:
    monkeypatch.setattr(doctor, "DEADLINE_S", 0.5)
    monkeypatch.setattr(doctor, "PROBES", (("database", lambda: time.sleep(30) or iter(())),))
    started = time.monotonic()
    (finding,) = doctor.examine()
    assert time.monotonic() - started < 25
    assert (finding.state, finding.part) == (doctor.ERROR, "database")


def run_doctor(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "doctor", "--json"],
        cwd=CHECKOUT, env=os.environ | environment, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip


def test_it_exits_1_and_names_the_broken_server() -> None:
    with socket.socket() as mute:  # accepts connections and never answers
        mute.bind(("127.0.0.1", 0))
        mute.listen(50)
        port = mute.getsockname()[1]
        done = run_doctor(DATABASE_URL=f"postgresql://x@127.0.0.1:{port}/x")
    report = json.loads(done.stdout)
    broken = {part["part"] for part in report["parts"] if part["state"] == "error"}
    assert done.returncode == 1
    assert not report["ok"]
    assert {"database", "migrations"} <= broken
    assert "broker" not in broken
