"""A report is of one moment, whatever other connections commit while it reads, and it cannot write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from memory.audit import audit
from memory.credit import POLICIES
from memory.models import Retrieval
from memory.snapshot import one_moment
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from datetime import datetime

pytestmark = pytest.mark.django_db(transaction=True)


def report(moment: datetime) -> dict[str, Any]:
    """An audit of everything, as if made at *moment*."""
    return audit(policy=POLICIES["adr0019"], now=moment).as_dict()


def test_a_run_that_is_ingested_between_two_queries_is_in_no_section() -> None:
    run = make_run()
    tip = make_tip()
    for outcome in (0.0, 1.0):
        make_retrieval(attempt=make_attempt(run=run, outcome=outcome), tip=tip, llm=True)
    moment = timezone.now()
    before = report(moment)
    queries: list[str] = []

    def ingest_first(execute: Any, *args: Any) -> Any:
        """Another connection commits a run, and supersedes the first one, before each query."""
        if any(sql.startswith("SELECT") for sql in queries):  # the first one takes the snapshot
            with ThreadPoolExecutor(1) as other:
                other.submit(ingest_meanwhile).result()
        queries.append(args[0])
        return execute(*args)

    def ingest_meanwhile() -> None:
        try:
            make_retrieval(attempt=make_attempt(outcome=0.0), llm=True)
            Retrieval.objects.filter(run=run).update(superseded=True)
        finally:
            connection.close()

    with connection.execute_wrapper(ingest_first):
        during = report(moment)
    assert len(queries) > 10
    assert during == before
    assert report(moment) != before


def test_an_audit_cannot_write() -> None:
    with one_moment(), pytest.raises(DatabaseError, match="read-only transaction"):
        make_run()
    make_run()  # the connection is as it was


def test_inside_a_transaction_of_the_caller_a_report_reads_what_that_transaction_wrote() -> None:
    with transaction.atomic():
        make_retrieval(llm=True)
        assert report(timezone.now())["tip_pool"]["total"] == 1
