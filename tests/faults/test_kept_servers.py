"""`up` keeps the embedded servers running: what is killed comes back without anybody's command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contextgraph import embedded

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.faults


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="cg-kept-"))
    folder.chmod(0o755)
    monkeypatch.setenv("CONTEXTGRAPH_STATE_DIR", str(folder / "state"))
    yield folder
    embedded.remove(folder)


def test_a_killed_server_is_started_again(root: Path) -> None:
    embedded.ensure_started(root, durable=False)
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("DATABASE_", "CELERY_"))
    }
    keeper = subprocess.Popen(
        [sys.executable, "manage.py", "keep_servers"], cwd=CHECKOUT, env=environment
    )
    try:
        for name in ("postgres", "valkey"):
            pid = getattr(embedded.status(root), name).pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            end = time.monotonic() + 30
            while time.monotonic() < end:
                server = getattr(embedded.status(root), name)
                if server.answers and server.pid != pid:
                    break
                time.sleep(0.3)
            else:
                pytest.fail(f"{name} did not come back")
    finally:
        keeper.terminate()
        keeper.wait(timeout=20)
