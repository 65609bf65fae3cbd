"""Is the database away, or is the message bad? And: wait until it is back.

Guarantees: an error of the server or the connection is told from an error that the same statement
would meet again; waiting backs off with jitter, and ends at once when the caller wants to stop.

Does not repair: what was not committed must be done again.

Shaped by: a driver that reports "index row too large" and "server closed the connection" as the same
class of error. The SQLSTATE tells them apart.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Final

from django.db import InterfaceError, OperationalError, connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db import Error

logger = logging.getLogger(__name__)

AWAY_CLASSES: Final = frozenset({"08", "40", "57", "58"})
"""SQLSTATE classes: connection, rolled back by the server, operator intervention, system error."""

AWAY_CODES: Final = frozenset({"53100", "53300", "55P03", "25006"})
"""Disk full, too many connections, lock not available, read-only (a standby)."""

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 15.0
STOP_CHECK_S: Final = 0.2


def database_is_away(error: Error) -> bool:
    """True when the same work may succeed later, because *error* is the server's or the network's."""
    if isinstance(error, InterfaceError):
        return True
    state = str(getattr(error.__cause__, "sqlstate", None) or "")
    if state:
        return state[:2] in AWAY_CLASSES or state in AWAY_CODES
    return isinstance(error, OperationalError)


def wait_for_database(should_stop: Callable[[], bool]) -> bool:
    """Try until the database answers. False: *should_stop* said so first."""
    longest = FIRST_WAIT_S
    while not should_stop():
        # at least half of the step: a database that answers and fails in turns must not be hammered
        _pause(random.uniform(longest / 2, longest), should_stop)  # noqa: S311 - jitter, no secret
        longest = min(longest * 2, LONGEST_WAIT_S)
        try:
            connection.close()
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except (OperationalError, InterfaceError) as error:
            logger.warning("intake.database_away: %s", str(error).strip().split("\n")[0])
        else:
            logger.info("intake.database_back")
            return True
    return False


def _pause(seconds: float, should_stop: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not should_stop():
        time.sleep(min(STOP_CHECK_S, left))
