"""Several queries, one moment: what a report reads does not change while it reads.

Guarantees: inside ``one_moment`` every query sees the rows that were committed when the first one ran
(REPEATABLE READ), and none can write (READ ONLY). Inside a transaction of the caller nothing can be
promised any more: its own isolation level holds, which by default shows each query the newest rows.

Shaped by: an audit that knew of a tip in one section and, a commit later, looked it up in vain in the
figures of the section before.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import connection, transaction

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def one_moment() -> Iterator[None]:
    """Read in one snapshot; nested use joins the outer one."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
