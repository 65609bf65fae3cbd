"""One question at a time about a pair of tip and script, over all threads, processes and hosts.

Guarantees: a key is held by one session of the database at a time (an advisory lock), from `begin` to
`end`; a worker that is killed holds nothing any more, because its session is gone. Nobody waits here:
what another holds is told at once, so that two who want each other's keys cannot wait for ever, and
the connection that holds is the one that its thread has anyway.

Needs sessions that are its own (no pooler in transaction mode). Who has waited for longer than
`patience` should ask all the same: a holder may be frozen, and a call too many is no harm.

Shaped by: the retries of one rule, judged side by side: four questions about one pair.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

if TYPE_CHECKING:
    from collections.abc import Collection

POLL_S: Final = 0.05
"""Seconds between two looks at what another asks about."""


def patience() -> float:
    """Seconds after which a holder is not waited for any more: a call, and the second asking."""
    return 2.0 * float(settings.JUDGE_DEADLINE_S)


class Flights:
    """The pairs that this thread asks about now."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def begin(self, keys: Collection[str]) -> set[str]:
        """Hold those of *keys* (hex, 16 digits or more) that nobody else holds; which they are."""
        if not keys:
            return set()
        numbers = {key: int.from_bytes(bytes.fromhex(key[:16]), signed=True) for key in keys}
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT key, pg_try_advisory_lock(number) "
                "FROM unnest(%s::text[], %s::bigint[]) AS wanted (key, number)",
                [list(numbers), list(numbers.values())],
            )
            mine = {key for key, held in cursor.fetchall() if held}
        self._held += [numbers[key] for key in mine]
        return mine

    def end(self) -> None:
        """Hold nothing any more."""
        held, self._held = self._held, []
        if not held:
            return
        # a session that is lost has lost its locks; whoever uses it next is told
        with contextlib.suppress(OperationalError, InterfaceError), connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_unlock(number) FROM unnest(%s::bigint[]) AS held (number)",
                [held],
            )
