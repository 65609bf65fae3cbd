"""The Celery app: queues and routes. No task code here, and no chord.

Four queues, so that a finalize never waits behind judge calls: ``control`` (dispatch, finalize, reap),
``judge`` (HTTP, threads), ``embed`` and ``trace`` (CPU). Intake has a queue of its own, outside Celery.
"""

from __future__ import annotations

import os
from typing import Final

from celery import Celery
from kombu import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "contextgraph.settings")

QUEUES: Final = ("control", "judge", "embed", "trace")

app = Celery("contextgraph")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.task_queues = [Queue(name, routing_key=name, durable=True) for name in QUEUES]
app.conf.task_routes = {
    "contextgraph.*": {"queue": "control"},
    "scoring.judge_batch": {"queue": "judge"},
    "scoring.embed_batch": {"queue": "embed"},
    "scoring.trace_batch": {"queue": "trace"},
}
app.autodiscover_tasks(["contextgraph", "scoring"])
