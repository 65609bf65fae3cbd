"""One HTTP request to the judge, which ends in time and in an answer or a typed error.

Guarantees: a request is over at the end of its time, whatever the other side does: then a timer shuts
the connection down under it, be it in the headers, between two chunks or in a body of single bytes. No
exception of sockets, TLS, HTTP or the libraries for them leaves, only a `JudgeError`. A redirect is an
answer like others: its ``Location`` is not even read, so that it cannot fail, or take the key along.

Not cut: looking up the name, and connecting, which may take ``connect_timeout_s`` for each address of
the name. Means nothing by a status, and asks once: both are the business of ``scoring.judge.client``.
Shaped by a header that was sent byte by byte for as long as somebody read, and by one redirect to
``//[`` that stopped every run.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

import requests
import requests.adapters
import requests.auth
import requests.exceptions
import urllib3.exceptions
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from scoring.judge.alarms import Alarms
from scoring.judge.errors import JudgeError, JudgeMisconfigured, JudgeTimeout, JudgeUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import SecretStr

    from scoring.judge.config import JudgeConfig

MAX_BODY_BYTES: Final = 1_048_576
"""Bytes of a reply that are read at most; a verdict needs about a thousand."""
PIECE_BYTES: Final = 65_536
TOO_LATE: Final = "the reply was not whole when the deadline of the call passed"
NO_ADDRESS: Final = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
    requests.exceptions.InvalidHeader,
)

_Socket = TypeVar("_Socket")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. ``whole``: False when the body was left at MAX_BODY_BYTES."""

    status: int
    retry_after: str | None
    body: bytes
    whole: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that is ready: all that can be done before it is its turn is done.

    Belongs to the thread that made it. ``ways``: proxies and certificates, as the environment has them.
    """

    session: requests.Session
    request: requests.PreparedRequest
    payload: bytes
    ways: dict[str, Any]


# --- The end of its time --------------------------------------------------------------------------


class _Cut:
    """Shuts the connection of this thread's request down after some seconds. ``made``: it did."""

    def __init__(self, after_s: float) -> None:
        self.made = False
        self._after_s = after_s
        self._lock = threading.Lock()
        self._over = False
        self._watched: Any = None

    def __enter__(self) -> Self:
        _alarms.after(self._after_s, self._make)
        _here.cut = self
        return self

    def __exit__(self, *_: object) -> None:
        _here.cut = None
        with self._lock:  # from here on the connection may serve another request
            self._over, self._watched = True, None

    def watch(self, connected: Any) -> None:
        """Take what the request goes through from now on. Raises TimeoutError if it is too late."""
        with self._lock:
            self._watched = connected
            if self.made:
                connected.close()
                raise TimeoutError(TOO_LATE)

    def _make(self) -> None:
        with self._lock:
            if self._over:
                return
            self.made = True
            if self._watched is not None:
                _shut(self._watched)


_alarms = Alarms()
_here = threading.local()


def _watched(connected: _Socket) -> _Socket:
    cut: _Cut | None = getattr(_here, "cut", None)
    if cut is not None:
        cut.watch(connected)
    return connected


def _shut(connected: Any) -> None:
    """Whoever reads or writes here sees the end; the descriptor stays theirs to close."""
    inner = getattr(connected, "socket", connected)  # TLS within the TLS of a proxy
    with contextlib.suppress(OSError):
        # an SSLSocket's own method would take its state away from the thread that uses it
        socket.socket.shutdown(inner, socket.SHUT_RDWR)


class _Connection(HTTPConnection):
    """Shows its socket to the timer: when it is made, and before anything new goes through it."""

    def _new_conn(self) -> socket.socket:
        return _watched(super()._new_conn())

    def _tunnel(self) -> None:
        super()._tunnel()
        _watched(self.sock)  # no TLS on a connection that was shut down: ssl would leave it open

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is not None:  # an older connection, or one that speaks TLS by now
            _watched(self.sock)
        super().request(*args, **kwargs)


class _TlsConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(requests.adapters.HTTPAdapter):
    pools: ClassVar[dict[str, type[HTTPConnectionPool]]] = {"http": _Pool, "https": _TlsPool}

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self.pools

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not proxy.lower().startswith("socks"):  # whose connections are of another kind
            manager.pool_classes_by_scheme = self.pools
        return manager


class JudgeSession(requests.Session):
    """A session whose requests can be cut, and which follows no redirect."""

    def __init__(self) -> None:
        super().__init__()
        for scheme in ("https://", "http://"):
            self.mount(scheme, _Adapter())

    def get_redirect_target(self, resp: requests.Response) -> None:
        """None: even ``allow_redirects=False`` would parse the address, and read the body for it."""


class _Bearer(requests.auth.AuthBase):
    """Sets our key or none: without an explicit auth, requests would send a ~/.netrc password."""

    def __init__(self, key: SecretStr | None) -> None:
        self._key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._key is not None:
            request.headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        return request


# --- A request ------------------------------------------------------------------------------------


class Transport:
    """Sends requests to one server. Each thread, and each process after a fork, has its session.

    ``new_session`` and ``clock`` (seconds) are seams.
    """

    def __init__(
        self,
        config: JudgeConfig,
        *,
        new_session: Callable[[], requests.Session] = JudgeSession,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._new_session, self._clock = config, new_session, clock
        self._local = threading.local()
        self._sessions: weakref.WeakSet[requests.Session] = weakref.WeakSet()

    def close(self) -> None:
        """Close the sessions of all threads; a later request opens a new one."""
        for session in list(self._sessions):
            session.close()
        self._local = threading.local()

    def prepared(self, method: str, path: str, payload: bytes | None) -> Prepared:
        """A request to ``path`` of the API, ready to be sent by this thread.

        Raises JudgeMisconfigured: no request can be made of the address or the key.
        """
        session = self._session()
        headers = {"Content-Type": "application/json"} if payload is not None else None
        url = self._config.api_root + path
        try:
            request = session.prepare_request(
                requests.Request(method, url, data=payload, headers=headers)
            )
            ways = session.merge_environment_settings(
                request.url, proxies={}, stream=True, verify=None, cert=None
            )
        except Exception as exc:
            raise _typed(exc) from exc
        return Prepared(session, request, payload or b"", dict(ways))

    def exchange(self, prepared: Prepared, *, within_s: float) -> Answer:
        """Send a request and read the body of its answer, in ``within_s`` seconds (> 0).

        Raises JudgeTimeout, JudgeUnreachable or JudgeMisconfigured.
        """
        cut = _Cut(within_s)
        try:
            with cut:
                answer = self._exchanged(prepared, within_s)
        except Exception as exc:
            raise JudgeTimeout(TOO_LATE) if cut.made else _typed(exc) from exc
        if cut.made:  # a connection that was shut down looks like one that came to its end
            raise JudgeTimeout(TOO_LATE)
        return answer

    def _exchanged(self, prepared: Prepared, within_s: float) -> Answer:
        config, started = self._config, self._clock()
        with prepared.session.send(
            prepared.request,
            timeout=(min(config.connect_timeout_s, within_s), min(config.read_timeout_s, within_s)),
            allow_redirects=False,
            **prepared.ways,
        ) as response:
            body, whole = _body(response)
            pause = response.headers.get("Retry-After")
            return Answer(response.status_code, pause, body, whole, self._clock() - started)

    def _session(self) -> requests.Session:
        pid = os.getpid()
        if getattr(self._local, "pid", None) != pid:
            session = self._new_session()
            session.auth = _Bearer(self._config.api_key)
            session.headers["User-Agent"] = "contextgraph-judge"
            session.headers["Accept-Encoding"] = "identity"  # replies are small
            self._sessions.add(session)
            self._local.session, self._local.pid = session, pid
        found: requests.Session = self._local.session
        return found


def _body(response: requests.Response) -> tuple[bytes, bool]:
    """The body and whether it is whole; read in pieces, so that no endless one is kept."""
    body = bytearray()
    while piece := response.raw.read1(PIECE_BYTES, decode_content=True):
        body += piece
        if len(body) > MAX_BODY_BYTES:
            return bytes(body[:MAX_BODY_BYTES]), False
    return bytes(body), True


def _typed(exc: Exception) -> JudgeError:
    """Name what the connection did. The texts of requests hold addresses, so none is quoted."""
    if isinstance(exc, requests.exceptions.SSLError | urllib3.exceptions.SSLError):
        return JudgeMisconfigured("the certificate of the judge server is not accepted")
    if isinstance(exc, NO_ADDRESS):
        return JudgeMisconfigured(
            f"no request can be made of the judge's address ({type(exc).__name__})",
            mend="check JUDGE_BASE_URL and JUDGE_API_KEY",
        )
    timeouts = (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError)
    if isinstance(exc, timeouts):
        return JudgeTimeout("the judge server did not answer in time")
    return JudgeUnreachable(
        f"the connection to the judge server failed ({type(exc).__name__})",
        mend="check JUDGE_BASE_URL and that the server runs",
    )
