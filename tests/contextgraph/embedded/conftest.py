"""Checkouts of the tests of the embedded servers: one for each test, or one for a module.

Most tests share one durable pair of servers, which each of them brings into the state it needs.
"""

from __future__ import annotations

import pytest

from contextgraph.embedded import location
from tests.contextgraph.embedded.checkouts import new_checkout


@pytest.fixture
def checkout(monkeypatch):
    """A checkout of the test's own."""
    monkeypatch.delenv(location.STATE_DIR_ENV, raising=False)
    with new_checkout() as root:
        yield root


@pytest.fixture(scope="module")
def shared():
    """A checkout whose durable servers outlive a single test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(location.STATE_DIR_ENV, raising=False)
        with new_checkout() as root:
            yield root
