"""Is everything there that the main job needs? One finding per part, each with its mend.

Guarantees: every probe is bounded in time and none of them changes anything; a part that is broken
does not hide the others. Only an ``error`` means that the main job cannot run. A missing worker is an
error on configured services; on the embedded pair it is a warning, because `make run` and `make up`
start what they need.

Shaped by: systems that were "up" while one queue had no worker, or a judge's model name was wrong and
every verdict was NULL.
"""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Exists, OuterRef
from django.utils import timezone
from kombu import Connection

from contextgraph.celery import QUEUES, app
from contextgraph.checks import OLDEST_POSTGRES, postgres_version
from contextgraph.client import intake_queue
from contextgraph.models import RejectedMessage
from contextgraph.parts import incomplete_documents
from memory.models import Retrieval, Run, RunEvidence
from scoring.judge import service as judge
from scoring.judge.bench import DEFAULT, TIERS
from scoring.judge.client import JudgeClient
from scoring.models import JudgePause
from scoring.weights import model_available

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OK, WARNING, ERROR = "ok", "warning", "error"
PROBE_S: Final = 3.0
DEADLINE_S: Final = 10.0
HEARTBEAT_IS_OLD_S: Final = 60.0
SHOWN_AT_MOST: Final = 5
DISK_ERROR_BYTES: Final = 200 * 1024**2
DISK_WARNING_BYTES: Final = 2 * 1024**3
DOCUMENT_IS_LATE: Final = timedelta(minutes=10)
RUN_IS_LATE: Final = timedelta(minutes=30)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One line: which part, how it is, what is wrong and how to mend it."""

    part: str
    state: str
    detail: str
    mend: str = ""

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return asdict(self)


def examine() -> list[Finding]:
    """Probe every part, in the order in which they depend on each other."""
    found: list[Finding] = []
    for part, probe in PROBES:
        missing = {finding.part for finding in found if finding.state == ERROR} & NEEDS.get(
            part, set()
        )
        if missing:
            detail = f"not looked at: {', '.join(sorted(missing))} first"
            found.append(Finding(part=part, state=ERROR, detail=detail))
        else:
            found.extend(_bounded(part, probe))
    return found


def _bounded(part: str, probe: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Run one probe in a thread of its own: a server that accepts and then says nothing is a finding."""
    found: list[Finding] = []

    def run() -> None:
        try:
            found.extend(probe())
        except Exception as error:  # noqa: BLE001 - a probe that fails is a finding
            lines = str(error).strip().splitlines() or [""]
            detail = f"{type(error).__name__}: {lines[0]}"
            mend = MENDS.get(part, "see the cause")
            found.append(Finding(part=part, state=ERROR, detail=detail, mend=mend))
        finally:
            connection.close()  # this thread's own

    thread = threading.Thread(target=run, daemon=True, name=f"doctor-{part}")
    thread.start()
    thread.join(DEADLINE_S)
    if thread.is_alive():
        detail = f"no answer within {DEADLINE_S:g} s"
        mend = MENDS.get(part, "look at that server's log")
        return [Finding(part=part, state=ERROR, detail=detail, mend=mend)]
    return found


def _database() -> Iterator[Finding]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version')")
        version = cursor.fetchone()[0]
    kind = "embedded" if settings.USES_EMBEDDED else "configured"
    detail = f"Postgres {version}, {kind}"
    if (postgres_version() or OLDEST_POSTGRES) < OLDEST_POSTGRES:
        mend = f"Postgres {OLDEST_POSTGRES} or newer; or unset DATABASE_URL"
        yield Finding(part="database", state=ERROR, detail=f"{detail}: too old", mend=mend)
        return
    yield Finding(part="database", state=OK, detail=detail)


def _evidence() -> Iterator[Finding]:
    """Runs that were final before evidence was kept: the ranker knows nothing of them."""
    counted = Retrieval.objects.counted().filter(run=OuterRef("pk"))
    final = Run.objects.current().filter(status=Run.Status.DONE)
    missing = final.filter(
        Exists(counted), ~Exists(RunEvidence.objects.filter(run=OuterRef("pk")))
    ).count()
    if missing:
        yield Finding(
            part="evidence",
            state=WARNING,
            detail=f"final runs without any: {missing}; ranker and eviction do not know them",
            mend="manage.py recount",
        )
        return
    yield Finding(part="evidence", state=OK, detail="every final run has its own")


def _migrations() -> Iterator[Finding]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        detail = f"{len(plan)} to apply, first {plan[0][0]}"
        mend = "manage.py migrate"
        yield Finding(part="migrations", state=ERROR, detail=detail, mend=mend)
        return
    yield Finding(part="migrations", state=OK, detail="all applied")


def _broker() -> Iterator[Finding]:
    with Connection(settings.CELERY_BROKER_URL, connect_timeout=PROBE_S) as broker:
        broker.ensure_connection(max_retries=1, timeout=PROBE_S)
        scheme = str(settings.CELERY_BROKER_URL).split(":", 1)[0]
    yield Finding(part="broker", state=OK, detail=scheme)


def _result_backend() -> Iterator[Finding]:
    client = app.backend.client
    client.ping()
    policy = client.config_get("maxmemory-policy").get("maxmemory-policy", "unknown")
    if policy not in {"noeviction", "unknown"}:
        yield Finding(
            part="result backend",
            state=WARNING,
            detail=f"maxmemory-policy is {policy}: chord keys may be evicted",
            mend="set maxmemory-policy noeviction on that server",
        )
        return
    yield Finding(part="result backend", state=OK, detail="Redis protocol, noeviction")


def _workers() -> Iterator[Finding]:
    answers: dict[str, list[dict[str, Any]]] = (
        app.control.inspect(timeout=PROBE_S / 2).active_queues() or {}
    )
    served: dict[str, list[str]] = {name: [] for name in QUEUES}
    for worker, queues in answers.items():
        for queue in queues:
            served.setdefault(queue["name"], []).append(worker)
    for name in QUEUES:
        part = f"queue {name}"
        if served[name]:
            yield Finding(part=part, state=OK, detail=", ".join(sorted(served[name])))
        elif name == "judge" and not judge.configured():
            yield Finding(part=part, state=OK, detail="no worker, and no judge that needs one")
        else:
            yield Finding(
                part=part,
                state=WARNING if settings.USES_EMBEDDED else ERROR,
                detail="no worker answers: tasks of this queue wait",
                mend=f"make up, or: celery -A contextgraph worker -P threads -Q {name}",
            )


def _consumer() -> Iterator[Finding]:
    """Seen by the heartbeat of this host, or by the broker where it counts consumers (AMQP)."""
    age = _age(settings.STATE_DIR / "consumer.alive")
    if age is not None and age < HEARTBEAT_IS_OLD_S:
        yield Finding(part="consumer", state=OK, detail=f"turned {age:.0f} s ago on this host")
        return
    if not str(settings.CELERY_BROKER_URL).startswith(("redis", "sentinel")):
        with Connection(settings.CELERY_BROKER_URL, connect_timeout=PROBE_S) as broker:
            queue = intake_queue(settings.INTAKE_QUEUE)(broker.default_channel)
            consumers = queue.queue_declare().consumer_count
        if consumers:
            yield Finding(part="consumer", state=OK, detail=f"{consumers} at the intake queue")
            return
    yield Finding(
        part="consumer",
        state=WARNING,
        detail="none turns on this host: posted runs wait in the queue",
        mend="make up, or: manage.py consume_runs",
    )


def _scheduler() -> Iterator[Finding]:
    ages = [age for path in settings.STATE_DIR.glob("beat-schedule*") if (age := _age(path))]
    fresh = max(HEARTBEAT_IS_OLD_S, 3 * settings.REAP_EVERY_S)
    if ages and min(ages) < fresh:
        yield Finding(
            part="scheduler", state=OK, detail=f"swept {min(ages):.0f} s ago on this host"
        )
        return
    yield Finding(
        part="scheduler",
        state=WARNING,
        detail="none on this host: what messages lose is not picked up",
        mend="make up, or: celery -A contextgraph beat; once, by hand: manage.py reap_runs",
    )


def _age(path: Path) -> float | None:
    """Seconds since *path* was written; None when it is not there."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return None


def _embedding() -> Iterator[Finding]:
    there, detail = model_available()
    if there:
        yield Finding(part="embedding model", state=OK, detail=detail)
        return
    mend = "pip install -r requirements.lock"
    yield Finding(part="embedding model", state=ERROR, detail=detail, mend=mend)


def _judge() -> Iterator[Finding]:
    if not judge.configured():
        detail = "not configured: the signal is skipped, runs still complete"
        mend = "set JUDGE_BASE_URL and JUDGE_MODEL"
        yield Finding(part="judge server", state=OK, detail=detail, mend=mend)
        return
    for tier in (tier for tier in TIERS if judge.configured(tier)):
        config = judge.config(tier)
        with JudgeClient(config) as client:
            probe = client.probe(timeout_s=PROBE_S)
        yield Finding(
            part="judge server" if tier == DEFAULT else f"judge server ({tier})",
            state=WARNING if probe.problem else OK,
            detail=f"{config.model}: {probe.problem or 'answers and lists the model'}",
            mend="failed calls are kept and asked again once it answers" if probe.problem else "",
        )


def _judge_pauses() -> Iterator[Finding]:
    for pause in JudgePause.objects.filter(cleared_at__isnull=True).order_by("tier"):
        since, until = (f"{moment:%Y-%m-%d %H:%M:%S} UTC" for moment in (pause.since, pause.until))
        yield Finding(
            part=f"judge pause ({pause.tier})",
            state=WARNING,
            detail=f"not asked since {since}, next try from {until}: "
            f"{pause.error_class}: {pause.cause}",
            mend="mend the cause, then: manage.py judge_resume",
        )


def _disk() -> Iterator[Finding]:
    place = settings.STATE_DIR if settings.STATE_DIR.exists() else Path.cwd()
    free = shutil.disk_usage(place).free
    state = ERROR if free < DISK_ERROR_BYTES else WARNING if free < DISK_WARNING_BYTES else OK
    mend = "" if state == OK else "free some space: Postgres and the AOF stop without it"
    yield Finding(part="disk", state=state, detail=f"{free / 1024**3:.1f} GiB free", mend=mend)


def _intake() -> Iterator[Finding]:
    late = incomplete_documents(older_than=timezone.now() - DOCUMENT_IS_LATE)
    total = late.count()
    shown: list[Any] = list(late[:SHOWN_AT_MOST])
    for document in shown:
        whole = document.arrived == document.parts
        parts = "all parts, refused" if whole else f"{document.arrived} of {document.parts} parts"
        mend = "post the file again: parts that are there already are no-ops"
        yield Finding(
            part="incomplete document",
            state=WARNING,
            detail=f"{document.name or document.sha256[:12]}: {parts}",
            mend="manage.py replay_rejected --dry-run says why" if whole else mend,
        )
    if total > SHOWN_AT_MOST:
        detail = f"and {total - SHOWN_AT_MOST} more"
        yield Finding(part="incomplete document", state=WARNING, detail=detail)
    refused = RejectedMessage.objects.filter(resolved_at__isnull=True).count()
    if refused:
        detail = f"{refused} waiting"
        mend = "manage.py replay_rejected --dry-run says why"
        yield Finding(part="rejected messages", state=WARNING, detail=detail, mend=mend)
    stuck = Run.objects.open().unchanged_since(timezone.now() - RUN_IS_LATE).count()
    if stuck:
        detail = f"{stuck} without progress for {RUN_IS_LATE}"
        mend = "manage.py reap_runs"
        yield Finding(part="open runs", state=WARNING, detail=detail, mend=mend)


PROBES: Final[tuple[tuple[str, Callable[[], Iterator[Finding]]], ...]] = (
    ("database", _database),
    ("migrations", _migrations),
    ("broker", _broker),
    ("result backend", _result_backend),
    ("consumer", _consumer),
    ("workers", _workers),
    ("scheduler", _scheduler),
    ("embedding model", _embedding),
    ("judge server", _judge),
    ("judge pauses", _judge_pauses),
    ("disk", _disk),
    ("intake", _intake),
    ("evidence", _evidence),
)
NEEDS: Final = {
    "migrations": {"database"},
    "intake": {"database", "migrations"},
    "evidence": {"database", "migrations"},
    "consumer": {"broker"},
    "workers": {"broker"},
}
MENDS: Final = {
    "database": "check DATABASE_URL, or unset it to use the embedded server",
    "broker": "check CELERY_BROKER_URL, or unset it to use the embedded server",
    "result backend": "check CELERY_RESULT_BACKEND, or unset it to use the embedded server",
}
