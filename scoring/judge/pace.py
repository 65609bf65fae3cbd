"""How many judge requests may run at once, over all workers: a limit that adapts, kept in Valkey.

Guarantees: at most ``ceiling`` requests of all processes that share a server run at once; a worker that
dies gives its place back when its lease ends. Who waits stands in one line with the waiters of all
processes, and whoever gives a place back hands it to the first of them, so that none lies idle between
two looks; the next one has it for good when it has said that it lives. The limit is halved as soon as a
request meets a server that is overloaded or silent (once per episode: those that began before the last
cut do not cut again) and grows by about one per round of good answers. A call that waits for its next
try holds no place. One round trip to take a free place, one to give it back. Where there is no Valkey,
or it is away, each process goes on under the whole ceiling by itself, and says so once.

A newcomer who finds a place free does not look whether anybody is in line for it. Shaped by eight
workers that each kept to eight calls, and by places that lay free until somebody looked again.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

VALKEY_TIMEOUT_S: Final = 1.0
AWAY_S: Final = 5.0
"""How long a process keeps to its own limit before it looks for Valkey again."""
FORGET_MS: Final = 3_600_000
"""An hour without a call, and the limit is the ceiling again."""
LOOK_S: Final = 0.4
"""A waiter looks by itself after this many seconds, for a lease may have ended."""
OWN_LOOK_S: Final = 0.12
"""The same, under the limit of the process alone."""
LOOK_MS: Final = 2_000
"""Milliseconds after which a waiter that has not looked again is taken for dead."""
SLACK_S: Final = 5.0
CONNECTIONS_AT_MOST: Final = 4_096
"""Each thread that waits has one; the client's own bound of 100 would be met before the ceiling is."""

_LIMIT: Final = """
local ceiling = tonumber(ARGV[1])
local limit = tonumber(redis.call('HGET', KEYS[2], 'limit')) or ceiling
if limit > ceiling then limit = ceiling end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local function lease(id, ms)
    redis.call('ZREM', KEYS[3], id)
    redis.call('ZADD', KEYS[1], now + ms, id)
    redis.call('PEXPIRE', KEYS[1], ARGV[3] + ARGV[4])
end
"""
TAKE: Final = (
    _LIMIT
    + """
if redis.call('ZSCORE', KEYS[1], ARGV[2]) or redis.call('ZCARD', KEYS[1]) < math.floor(limit) then
    lease(ARGV[2], ARGV[3])
    return {1, now}
end
redis.call('ZADD', KEYS[3], 'NX', t[1] * 1000000 + t[2], ARGV[2])
redis.call('PEXPIRE', KEYS[3], ARGV[4])
redis.call('SET', KEYS[4] .. ARGV[2], 1, 'PX', ARGV[5])
return {0, now}
"""
)
"""KEYS: leases, state, line, prefix of a waiter. ARGV: ceiling, id, lease in ms, ms until all is
forgotten, ms until a waiter must have looked. -> taken?, now. Who gets none is in line from now on."""
GIVE_BACK: Final = (
    _LIMIT
    + """
redis.call('ZREM', KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[2])
local cut = tonumber(redis.call('HGET', KEYS[2], 'cut')) or 0
if ARGV[5] == 'good' then
    limit = math.min(ceiling, limit + 1 / limit)
elseif ARGV[5] == 'bad' and tonumber(ARGV[6]) >= cut then
    limit = math.max(1, limit / 2)
    redis.call('HSET', KEYS[2], 'cut', now)
end
redis.call('HSET', KEYS[2], 'limit', tostring(limit))
redis.call('PEXPIRE', KEYS[2], ARGV[4])
while redis.call('ZCARD', KEYS[1]) < math.floor(limit) do
    local first = redis.call('ZPOPMIN', KEYS[3])[1]
    if not first then break end
    if redis.call('DEL', KEYS[4] .. first) == 1 then
        lease(first, ARGV[7])
        redis.call('RPUSH', KEYS[5] .. first, now)
        redis.call('PEXPIRE', KEYS[5] .. first, ARGV[7])
    end
end
return tostring(limit)
"""
)
"""KEYS: as for TAKE, and the prefix of what is handed over. ARGV: ceiling, id, lease in ms, ms until all
is forgotten, good|bad|"", when it was taken, ms for the next one to say that it lives. The id leaves the
line too: its owner may have given up."""


@dataclass(slots=True)
class Slot:
    """One place among the requests that run. Say how it went; silence changes no limit."""

    verdict: str = ""

    def good(self) -> None:
        """The server answered."""
        self.verdict = "good"

    def bad(self) -> None:
        """The server was overloaded or silent."""
        self.verdict = "bad"


def valkey_url(url: str) -> str | None:
    """The address of a Celery result backend as redis-py writes it; None for other kinds of server."""
    parts = urlsplit(url)
    if parts.scheme == "redis+socket":
        database = (parse_qs(parts.query).get("virtual_host") or ["0"])[0].lstrip("/")
        return f"unix://{unquote(parts.netloc + parts.path)}?db={database}"
    if parts.scheme in {"redis", "rediss", "unix"}:
        return re.sub(r"ssl_cert_reqs=CERT_(\w+)", lambda hit: hit[0][:14] + hit[1].lower(), url)
    return None


class Pace:
    """The limit for one judge server. Safe to share between threads.

    Args:
        backend_url: the Celery result backend.
        server: the judge's address; workers with the same one share the limit.
        ceiling: requests at once at most, at least 1.
        lease_s: longer than a request can take, in seconds.
    """

    def __init__(self, *, backend_url: str, server: str, ceiling: int, lease_s: float) -> None:
        self._ceiling, self._lease_ms = ceiling, int((lease_s + SLACK_S) * 1000)
        name = hashlib.sha256(server.encode()).hexdigest()[:16]
        parts = ("leases", "state", "line", "waiter:", "place:")
        self._keys = [f"contextgraph:pace:{{{name}}}:{part}" for part in parts]
        self._lock = threading.Lock()
        self._own = threading.BoundedSemaphore(ceiling)
        self._away_until = 0.0
        self._local = False
        self._valkey: Any = None
        address = valkey_url(backend_url)
        if address is None:
            self._away_until = float("inf")
            logger.warning(
                "judge.pace_local: the result backend is no Valkey, limits are not shared"
            )
            return
        self._valkey = redis.Redis.from_url(
            address,
            socket_timeout=VALKEY_TIMEOUT_S,
            socket_connect_timeout=VALKEY_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            max_connections=CONNECTIONS_AT_MOST,
        )
        self._take = self._valkey.register_script(TAKE)
        self._give_back = self._valkey.register_script(GIVE_BACK)

    @contextlib.contextmanager
    def slot(self, waiting: Callable[[], None] = lambda: None) -> Iterator[Slot]:
        """Hold a place while a request runs; waits for one, calling ``waiting`` between two looks."""
        slot, name = Slot(), uuid.uuid4().hex
        taken: int | None = 0
        try:
            taken = self._taken(name, waiting)
            yield slot
        finally:
            if taken is None:
                self._own.release()
            else:
                self._returned(name, slot.verdict, taken)

    def limit(self) -> float | None:
        """The limit now, for people; None when Valkey does not say."""
        try:
            found = self._valkey.hget(self._keys[1], "limit") if self._valkey else None
        except redis.RedisError:
            return None
        return min(float(found), float(self._ceiling)) if found else float(self._ceiling)

    def close(self) -> None:
        """Close the connections of this process."""
        if self._valkey is not None:
            self._valkey.close()

    def _taken(self, name: str, waiting: Callable[[], None]) -> int | None:
        """When the place was taken (ms of Valkey's clock); None: under the process's own limit."""
        while True:
            if time.monotonic() < self._away_until:
                if self._own.acquire(timeout=OWN_LOOK_S):
                    return None
            else:
                try:
                    taken, now = self._take(keys=self._keys[:4], args=[*self._terms(name), LOOK_MS])
                    handed = None if taken else self._valkey.blpop(self._keys[4] + name, LOOK_S)
                except redis.RedisError as error:
                    self._lost(error)
                    continue
                self._found()
                if taken:
                    return int(now)
                if handed:
                    continue  # it is ours when we have said so: who is dead does not
            waiting()

    def _terms(self, name: str) -> list[object]:
        """The first parameters of both scripts."""
        return [self._ceiling, name, self._lease_ms, FORGET_MS]

    def _returned(self, name: str, verdict: str, taken: int) -> None:
        if self._valkey is None:
            return  # none was taken: who waited gave up
        try:
            self._give_back(keys=self._keys, args=[*self._terms(name), verdict, taken, LOOK_MS])
        except redis.RedisError as error:  # the lease ends by itself
            self._lost(error)

    def _lost(self, error: redis.RedisError) -> None:
        with self._lock:
            said, self._local = self._local, True
            self._away_until = time.monotonic() + AWAY_S
        if not said:
            logger.warning(
                "judge.pace_local: this process keeps to %d calls by itself (%s)",
                self._ceiling,
                type(error).__name__,
            )

    def _found(self) -> None:
        if self._local:
            self._local = False
            logger.warning("judge.pace_shared: the limit is shared with other workers again")
