"""Throw-away checkouts, and what the tests of the embedded servers do with them.

Nothing here asserts a promise of the product; it starts, connects and waits.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from contextgraph import embedded

CHECKOUT = Path(__file__).resolve().parents[3]
START = (
    "import sys; from pathlib import Path; from contextgraph import embedded;"
    "print(embedded.ensure_started(Path(sys.argv[1]), durable=sys.argv[2] == 'durable'))"
)


@contextmanager
def new_checkout():
    """Make an empty directory that any account may enter, short enough for sockets."""
    root = Path(tempfile.mkdtemp(prefix="cgt-", dir="/tmp"))
    root.chmod(0o755)
    yield root
    embedded.remove(root)
    shutil.rmtree(root)


def pids(root):
    status = embedded.status(root)
    return status.postgres.pid, status.valkey.pid


def database(root):
    return psycopg.connect(embedded.endpoints(root).database_url, autocommit=True)


def broker(root):
    path = urlsplit(embedded.endpoints(root).broker_url).path
    return redis.Redis(unix_socket_path=path, retry=Retry(NoBackoff(), retries=0))


def starter(root, *, durable=False, then="", **options):
    """Start the servers from another process, which may stay alive afterwards."""
    return subprocess.Popen(
        [sys.executable, "-c", START + then, str(root), "durable" if durable else "fast"],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.02)
