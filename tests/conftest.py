"""Fixtures and settings that every room's tests share.

Property tests have no deadline (a shared machine has no clock worth failing for) and, in CI, the same
examples in every run: a change that breaks nothing must not be turned back by another's luck. Outside
CI the examples are new each time, which is how they find something.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "here",
    settings.get_profile("default"),  # whatever hypothesis itself makes of the environment
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers a file stays whole, and the fault tests share one: they share services.

    Each worker has a Postgres and a Valkey of its own (``tests.embedded_pair``).
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "faults" if nodeid.startswith("tests/faults/") else nodeid.split("::", 1)[0]

    return ByFile(config, log)


CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real input beside the checkout; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("CONTEXTGRAPH_SHARED_DATA", CHECKOUT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real input is not there: {folder} (CONTEXTGRAPH_SHARED_DATA names another)")
    return folder


@pytest.fixture(autouse=True)
def _empty_intake_queue(request: pytest.FixtureRequest) -> None:
    """Tests that use the broker start with empty queues."""
    if "broker" not in request.fixturenames:
        return
    from django.conf import settings
    from kombu import Connection

    with Connection(settings.CELERY_BROKER_URL) as connection:
        connection.default_channel.client.flushdb()


@pytest.fixture
def broker(settings: object) -> str:
    """URL of the embedded broker, emptied."""
    return str(settings.CELERY_BROKER_URL)  # type: ignore[attr-defined]
