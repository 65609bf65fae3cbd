"""Postgres and Valkey from wheels, for when no service URL is given.

The public names are ``endpoints`` (where the servers of a checkout listen; starts nothing),
``ensure_started``, ``status``, ``stop``, ``remove``, and the errors. They take the checkout's root;
the state lies in ``<root>/.contextgraph`` or where CONTEXTGRAPH_STATE_DIR says.

Imports no Django: the settings import it. Made for Linux; Unix sockets only.
"""

from __future__ import annotations

from contextgraph.embedded.errors import (
    BinariesNotFoundError,
    EmbeddedError,
    MajorVersionMismatchError,
    ServerStartError,
    ServerStopError,
    StateUnusableError,
)
from contextgraph.embedded.servers import (
    Endpoints,
    PairStatus,
    ServerStatus,
    endpoints,
    ensure_started,
    remove,
    status,
    stop,
)

__all__ = [
    "BinariesNotFoundError",
    "EmbeddedError",
    "Endpoints",
    "MajorVersionMismatchError",
    "PairStatus",
    "ServerStartError",
    "ServerStatus",
    "ServerStopError",
    "StateUnusableError",
    "endpoints",
    "ensure_started",
    "remove",
    "status",
    "stop",
]
