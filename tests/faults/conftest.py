"""Systems under test, one at a time: on the embedded pair, or with RabbitMQ and Redis.

``system`` is the embedded one; ``either_system`` runs a test on both, skipping the services where the
environment does not name them. A system lives until the other kind is asked for or a test fails: then
its processes are killed, the logs printed, and the next test gets a new one with a new database.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.harness import JUDGE_LATENCY_MS, System, migrate
from tests.faults.invariants import assert_nothing_moved
from tests.faults.servers import AMQP_ENV, REDIS_ENV, EmbeddedServers, ServiceServers

if TYPE_CHECKING:
    from collections.abc import Iterator

_databases = itertools.count(1)
HERE = Path(__file__).resolve().parent


class Bench:
    """Holds the servers of the session and the system that runs on them now."""

    def __init__(self) -> None:
        self.servers: dict[str, EmbeddedServers] = {}
        self.current: System | None = None

    def system(self, kind: str) -> System:
        """The system of this kind, in working order."""
        if self.current is not None and self.current.servers.kind != kind:
            self.retire(failed=False)
        if self.current is None:
            servers = self._servers(kind)
            servers.start()
            self.current = System(servers, database=f"faults_{next(_databases)}").__enter__()
        self.current.start_standing()
        return self.current

    def _servers(self, kind: str) -> EmbeddedServers:
        if kind not in self.servers:
            if kind == "embedded":
                made = EmbeddedServers()
            else:
                made = ServiceServers(os.environ[AMQP_ENV], os.environ[REDIS_ENV])
            self.servers[kind] = made
            migrate(made)
        return self.servers[kind]

    def retire(self, *, failed: bool) -> None:
        """End the current system; of one that worked, every run is looked at once more."""
        system, self.current = self.current, None
        if system is None:
            return
        try:
            if failed:
                sys.stdout.write(system.logs())
            else:
                assert_nothing_moved(system)
        finally:
            system.__exit__()
            shutil.rmtree(system.folder, ignore_errors=True)

    def close(self) -> None:
        """End everything."""
        try:
            self.retire(failed=False)
        finally:
            for servers in self.servers.values():
                servers.remove()


@pytest.hookimpl(trylast=True)  # after they were shuffled
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of this folder first: they take longest, and of several workers one has them all.

    Those with named services after the others: a change of systems costs ten seconds.
    """
    items.sort(
        key=lambda item: (
            not item.path.is_relative_to(HERE),
            item.get_closest_marker("services") is not None,
        )
    )


@pytest.fixture(scope="session")
def bench(django_db_blocker: Any) -> Iterator[Bench]:
    """For the fixtures below."""
    with django_db_blocker.unblock():
        made = Bench()
        yield made
        made.close()


@pytest.fixture
def system(bench: Bench, request: pytest.FixtureRequest) -> Iterator[System]:
    """A working system on the embedded pair."""
    yield from _lend(bench, "embedded", request)


@pytest.fixture(params=["embedded", pytest.param("services", marks=pytest.mark.services)])
def either_system(bench: Bench, request: pytest.FixtureRequest) -> Iterator[System]:
    """A working system, once on the embedded pair and once with RabbitMQ and Redis."""
    if request.param == "services" and not {AMQP_ENV, REDIS_ENV} <= os.environ.keys():
        pytest.skip(f"needs a RabbitMQ and a Redis: set {AMQP_ENV} and {REDIS_ENV}")
    yield from _lend(bench, request.param, request)


def _lend(bench: Bench, kind: str, request: pytest.FixtureRequest) -> Iterator[System]:
    failures = request.session.testsfailed
    lent = bench.system(kind)
    yield lent
    lent.judge.control(fault=None, latency_ms=JUDGE_LATENCY_MS)
    if request.session.testsfailed > failures:
        bench.retire(failed=True)
