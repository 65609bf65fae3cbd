"""The processes of a whole system, as `make up` runs them and docker-compose.yml repeats them.

Guarantees: each queue has exactly one kind of worker; torch lives in one process only (threads, one at
a time: a model never meets a fork, and the worker's own loop stays free for heartbeats).
"""

from __future__ import annotations

import sys

from django.conf import settings

from contextgraph.supervisor import ProcessSpec

WORKER_NAMES = {"control": "control", "judge": "judge", "embed,trace": "signals"}


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
        # the limit on calls is kept elsewhere: the others prepare, store, or wait for a pair
        threads = settings.JUDGE_CONCURRENCY * 2
        found.append(ProcessSpec("judge", _worker("judge", threads=threads)))
    if web_port is not None:
        environment = {"CONTEXTGRAPH_WEB_PORT": str(web_port)}
        found.append(ProcessSpec("web", [*manage, "serve"], environment))
    if settings.USES_EMBEDDED:
        found.append(ProcessSpec("servers", [*manage, "keep_servers"]))
    return found


def _celery() -> list[str]:
    return [sys.executable, "-m", "celery", "-A", "contextgraph"]


def _worker(queues: str, *, threads: int) -> list[str]:
    name = WORKER_NAMES[queues]
    return [
        *_celery(), "worker", "-Q", queues, "-P", "threads", "-c", str(threads), "-n", f"{name}@%h",
        "--loglevel", "WARNING", "--without-gossip", "--without-mingle",
    ]  # fmt: skip
