"""The processes of a whole system, as `make up` runs them and docker-compose.yml repeats them.

Guarantees: each queue has exactly one kind of worker; torch lives in one process only (threads, one at
a time: a model never meets a fork, and the worker's own loop stays free for heartbeats).
"""

from __future__ import annotations

import sys

from django.conf import settings

from contextgraph.supervisor import ProcessSpec

WORKER_NAMES = {"control": "control", "judge": "judge", "embed,trace": "signals"}

JUDGE_PROCESSES = 2
"""Each with JUDGE_CONCURRENCY threads."""


def specs(*, web_port: int | None, judge: bool = True) -> list[ProcessSpec]:
    """What to supervise on one host. ``web_port`` None: without the admin."""
    manage = [sys.executable, str(settings.BASE_DIR / "manage.py")]
    found = [
        ProcessSpec("consumer", [*manage, "consume_runs"]),
        ProcessSpec("control", _worker("control", threads=2)),
        ProcessSpec("signals", _worker("embed,trace", threads=1)),
        ProcessSpec("scheduler", [*_celery(), "beat", "--loglevel", "WARNING", "--pidfile", ""]),
    ]
    if judge:
        # the limit on calls is kept elsewhere: half of the threads prepare, store, or wait for a pair,
        # which takes a core and more; in one process they would wait for each other
        for number in range(1, JUDGE_PROCESSES + 1):
            name = "judge" if number == 1 else f"judge-{number}"
            worker = _worker("judge", threads=settings.JUDGE_CONCURRENCY, name=name)
            found.append(ProcessSpec(name, worker))
    if web_port is not None:
        environment = {"CONTEXTGRAPH_WEB_PORT": str(web_port)}
        found.append(ProcessSpec("web", [*manage, "serve"], environment))
    if settings.USES_EMBEDDED:
        found.append(ProcessSpec("servers", [*manage, "keep_servers"]))
    return found


def _celery() -> list[str]:
    return [sys.executable, "-m", "celery", "-A", "contextgraph"]


def _worker(queues: str, *, threads: int, name: str | None = None) -> list[str]:
    name = name or WORKER_NAMES[queues]
    return [
        *_celery(), "worker", "-Q", queues, "-P", "threads", "-c", str(threads), "-n", f"{name}@%h",
        "--loglevel", "WARNING", "--without-gossip", "--without-mingle",
    ]  # fmt: skip
