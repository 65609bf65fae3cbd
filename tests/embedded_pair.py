"""Pytest plugin: a throw-away Postgres and Valkey for the whole test run, before settings are read.

Loaded by ``-p tests.embedded_pair`` because pytest-django reads the settings before any conftest.
Nothing that already runs on this machine is touched: sockets in a temporary folder, no ports. The
servers skip waiting for the disk; what tests durability starts servers of its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from contextgraph import embedded

ROOT = Path(tempfile.mkdtemp(prefix="cg-test-"))
# traversable, so that the server account of a root run can work in place
ROOT.chmod(0o755)


def _stop() -> None:
    embedded.remove(ROOT)
    shutil.rmtree(ROOT, ignore_errors=True)


def _start() -> None:
    os.environ["CONTEXTGRAPH_STATE_DIR"] = str(ROOT / ".contextgraph")
    for name in [name for name in os.environ if name.startswith("JUDGE_")]:
        del os.environ[name]
    atexit.register(_stop)
    endpoints = embedded.ensure_started(ROOT, durable=False)
    os.environ["DATABASE_URL"] = endpoints.database_url
    os.environ["CELERY_BROKER_URL"] = endpoints.broker_url
    os.environ["CELERY_RESULT_BACKEND"] = endpoints.result_backend


_start()
