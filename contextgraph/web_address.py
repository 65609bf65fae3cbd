"""Where the admin of this checkout listens: the port that was chosen, else the first free one.

Guarantees: two checkouts side by side get two ports; a port that was chosen and is taken is refused,
never replaced. ``status`` reads what ``up`` wrote down.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from django.conf import settings

if TYPE_CHECKING:
    from pathlib import Path

PORTS_TRIED: Final = 50


class PortTaken(RuntimeError):
    """Nothing can listen on the configured port."""


def choose_port() -> int:
    """The port for the admin, written down for :func:`address`.

    Raises:
        PortTaken: the configured port, or every one that was tried, is in use.
    """
    first = settings.WEB_PORT
    candidates = [first] if settings.WEB_PORT_IS_CHOSEN else range(first, first + PORTS_TRIED)
    for port in candidates:
        if _is_free(port):
            _record().write_text(str(port), encoding="ascii")
            return port
    msg = f"port {first} of {settings.WEB_HOST} is in use: set CONTEXTGRAPH_WEB_PORT to a free one"
    raise PortTaken(msg)


def address() -> str:
    """URL of the admin as it was started last."""
    port = settings.WEB_PORT
    if not settings.WEB_PORT_IS_CHOSEN:
        with suppress(OSError, ValueError):
            port = int(_record().read_text(encoding="ascii"))
    return f"http://{settings.WEB_HOST}:{port}/admin/"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.WEB_HOST, port))
        except OSError:
            return False
    return True


def _record() -> Path:
    place: Path = settings.STATE_DIR / "web.port"
    return place
