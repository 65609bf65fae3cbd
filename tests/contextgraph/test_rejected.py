"""Rejected messages: kept whole, replayed through the consumer's own door."""

from __future__ import annotations

import gzip
import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, OperationalError

from contextgraph.intake import handle
from contextgraph.models import RejectedMessage
from contextgraph.outage import database_is_away
from contextgraph.refusals import Refusal
from contextgraph.rejected import BODY_CAP, reject, replay, waiting
from memory.models import Run, Tip
from tests.contextgraph.run_documents import body_of, envelope, sha256

pytestmark = pytest.mark.django_db

Reason = RejectedMessage.Reason


def rejected(body: bytes, reason: Reason = Reason.INTERNAL, **facts: Any) -> RejectedMessage:
    return reject(Refusal(reason, "some cause"), body=body, **facts)


def command(*arguments: str) -> dict[str, Any]:
    """Output of ``replay_rejected --json``; a CommandError is let through after it was written."""
    out = StringIO()
    call_command("replay_rejected", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_everything_that_a_replay_needs_is_kept():
    headers = {"document": "d1", "odd": {1, 2}, "nul": "a\x00b", 7: float("inf")}
    row = rejected(b"\x00\xff", content_type="text/\x00plain", headers=headers)
    row.refresh_from_db()
    assert bytes(row.body) == b"\x00\xff"
    assert (row.body_size, row.body_sha256) == (2, sha256(b"\x00\xff"))
    assert row.headers["document"] == "d1"
    assert row.headers["nul"] == "a\N{REPLACEMENT CHARACTER}b"
    assert "some cause" in row.detail


def test_a_huge_body_is_kept_up_to_the_cap_and_cannot_be_replayed():
    row = rejected(b" " * (BODY_CAP + 1))
    assert (len(row.body), row.body_size) == (BODY_CAP, BODY_CAP + 1)
    [outcome] = replay(waiting())
    assert (outcome.ok, outcome.reason) == (False, "too_large")


def test_a_redelivered_refusal_is_one_row_and_a_repeated_one_is_two():
    first = rejected(b"bad", Reason.NOT_JSON)
    assert rejected(b"bad", Reason.NOT_JSON, redelivered=True).pk == first.pk
    assert rejected(b"bad", Reason.NOT_JSON).pk != first.pk


def test_a_message_that_goes_through_is_resolved_and_stays():
    row = rejected(body_of(envelope()), content_type="application/json")
    [outcome] = replay(waiting())
    row.refresh_from_db()
    assert (outcome.ok, outcome.run_ids) == (True, (Run.objects.get().pk,))
    assert (row.replays, row.resolved_at is not None) == (1, True)
    assert list(replay(waiting())) == []


def test_a_message_that_fails_again_gets_the_new_reason():
    row = rejected(b"not json", content_type="application/json")
    [outcome] = replay(waiting())
    row.refresh_from_db()
    assert (outcome.ok, row.reason, row.replays, row.resolved_at) == (False, "not_json", 1, None)


def test_one_failure_does_not_keep_the_others_from_being_stored():
    handle(body_of(envelope("night-1")))
    rejected(body_of(envelope("night-1", attempts=3)))
    rejected(body_of(envelope("night-2")))
    assert [outcome.ok for outcome in replay(waiting())] == [False, True]
    assert set(Run.objects.values_list("external_id", flat=True)) == {"night-1", "night-2"}


def test_a_dry_run_says_what_would_happen_and_stores_nothing():
    row = rejected(body_of(envelope()))
    [outcome] = replay(waiting(), dry_run=True)
    row.refresh_from_db()
    assert outcome.ok
    assert (row.replays, row.resolved_at, Run.objects.count()) == (0, None, 0)


def test_a_compressed_body_is_replayed_with_its_headers():
    rejected(gzip.compress(body_of(envelope())), headers={"content-encoding": "gzip"})
    assert [outcome.ok for outcome in replay(waiting())] == [True]


def test_the_command_fails_while_a_message_still_fails():
    rejected(b"not json")
    rejected(body_of(envelope()))
    with pytest.raises(CommandError, match="1 of 2"):
        command()
    assert waiting().count() == 1


def test_the_command_takes_ids_and_a_reason():
    first, second = rejected(body_of(envelope("night-1"))), rejected(body_of(envelope("night-2")))
    other = rejected(body_of(envelope("night-3")), Reason.SCHEMA)
    assert [item["id"] for item in command(str(second.pk))["messages"]] == [second.pk]
    assert [item["id"] for item in command("--reason", "schema")["messages"]] == [other.pk]
    assert command("--dry-run")["messages"][0]["id"] == first.pk
    assert waiting().get().pk == first.pk


def test_the_command_refuses_an_id_that_does_not_wait():
    with pytest.raises(CommandError, match="4711"):
        command("4711")


@pytest.mark.parametrize(
    ("state", "away"),
    [
        (None, True),
        ("08006", True),
        ("57P01", True),
        ("53300", True),
        ("53100", True),
        ("40P01", True),
        ("54000", False),
        ("53200", False),
        ("22003", False),
    ],
)
def test_the_sqlstate_tells_an_outage_from_a_bad_statement(state, away):
    cause = Exception()
    cause.sqlstate = state  # type: ignore[attr-defined]
    error = OperationalError()
    error.__cause__ = cause
    assert database_is_away(error) is away


def test_an_over_long_index_entry_is_not_taken_for_an_outage():
    keys = "".join(chr(0x20000 + n * 7) for n in range(500))  # four bytes each, incompressible
    with pytest.raises(DatabaseError) as caught:
        Tip.objects.create(skill=keys, external_id=keys[::-1])
    assert not database_is_away(caught.value)
