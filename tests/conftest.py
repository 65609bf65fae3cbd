"""Fixtures and settings that every room's tests share.

Property tests have no deadline (a shared machine has no clock worth failing for) and, in CI, the same
examples in every run: a change that breaks nothing must not be turned back by another's luck. Outside
CI the examples are new each time, which is how they find something.
"""

from __future__ import annotations

import os
from pathlib import Path

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

FAULTS = Path(__file__).resolve().parent / "faults"


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in its own hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers a file stays whole, and the fault tests share one: they share services.

    Each worker has a Postgres and a Valkey of its own.
    """
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        faulty = item.path.is_relative_to(FAULTS)
        item.add_marker(pytest.mark.xdist_group("faults" if faulty else str(item.path)))


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
