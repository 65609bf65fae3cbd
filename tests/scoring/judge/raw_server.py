"""A server that sends the bytes it is told to, at the pace it is told to: what no HTTP library would.

Holds no assertions. Shaped by faults that a server of well-formed answers cannot show: headers without
end, chunk extensions, redirects to nowhere.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

DRIP_S = 0.05
DRIPS = 1_200
"""A trickle lasts ten seconds, unless the client goes."""


def redirect_to(location: str) -> bytes:
    """An opening for `RawServer`."""
    head = (
        f"HTTP/1.1 302 F\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin1")


class RawServer:
    """Answers every connection with ``opening`` and then ``drip``, byte by byte, again and again.

    ``cuts``: connections that the client ended in mid-answer. A context manager, on loopback.
    """

    def __init__(self, opening: bytes, drip: bytes = b"") -> None:
        self.opening, self.drip = opening, drip
        self.cuts = 0
        self._stopping = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._serve)]

    @property
    def base_url(self) -> str:
        """The address, without a path."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                connected, _ = self._listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._answer, args=(connected,))
            self._threads.append(thread)
            thread.start()

    def _answer(self, connected: socket.socket) -> None:
        with connected:
            try:
                connected.recv(65_536)
                connected.sendall(self.opening)
                for piece in self._pieces():
                    connected.sendall(piece)
                connected.shutdown(socket.SHUT_WR)
                while connected.recv(65_536):
                    pass
            except OSError:
                self.cuts += 1

    def _pieces(self) -> Iterable[bytes]:
        for _ in range(DRIPS if self.drip else 0):
            if self._stopping.wait(DRIP_S):
                return
            yield self.drip

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(5)
