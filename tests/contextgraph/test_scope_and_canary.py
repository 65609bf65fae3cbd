"""The two fields of the wire that came with the ranker: a tip's scope, a retrieval's canary."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from contextgraph.envelope import EnvelopeError, digest_of, parse_envelope
from contextgraph.ingest import ingest_envelope
from contextgraph.runlogs import RunLogError
from memory.models import Retrieval, Tip
from tests.contextgraph.run_documents import envelope

pytestmark = pytest.mark.django_db


def document(*, scope: Any = None, canary: Any = None, text: str | None = None) -> dict[str, Any]:
    """Two tips, two attempts; the first tip has the *scope*, its first retrieval the *canary*."""
    found = envelope()
    if scope is not None:
        found["tips"][0]["scope"] = scope
    if canary is not None:
        found["attempts"][0]["retrievals"][0]["canary"] = canary
    if text is not None:
        found["tips"][0]["text"] = text
    return found


def test_scope_and_canary_reach_their_rows() -> None:
    ingest_envelope(document(scope="environment", canary=True))
    assert list(Tip.objects.order_by("pk").values_list("scope", flat=True)) == [
        "environment", "rule",
    ]  # fmt: skip
    marked = Retrieval.objects.filter(canary=True)
    assert [row.tip.external_id for row in marked] == ["night-1/t1"]
    assert Retrieval.objects.count() == 4
    assert not Tip.objects.exclude(extra={}).exists()
    assert not Retrieval.objects.exclude(extra={}).exists()


def test_who_says_what_holds_anyway_sends_the_same_run() -> None:
    plain, spoken = (
        parse_envelope(document(**fields)) for fields in ({}, {"scope": "rule", "canary": False})
    )
    assert digest_of(plain.records()) == digest_of(spoken.records())


@pytest.mark.parametrize(
    ("fields", "place"),
    [({"scope": "galaxy"}, r"tips\.0\.scope"), ({"canary": "often"}, r"attempts\.0\.retrievals")],
)
def test_another_value_is_refused_by_its_place(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(EnvelopeError, match=place):
        parse_envelope(document(**fields))
    with pytest.raises(RunLogError, match=place):
        ingest_envelope(document(**fields))
    assert not Tip.objects.exists()


def test_a_late_text_brings_the_scope_and_leaves_what_people_decided() -> None:
    first = document(text="")
    first["run"]["external_id"] = "night-0"
    ingest_envelope(first)
    tip = Tip.objects.order_by("pk")[0]
    assert (tip.text, tip.scope) == ("", "rule")
    Tip.objects.filter(pk=tip.pk).update(
        protected=True, holdout_exempt=True, retired_at=timezone.now(), retired_reason="by hand"
    )
    ingest_envelope(document(scope="environment"))
    tip.refresh_from_db()
    assert (tip.text, tip.scope) == ("Set option 1 of night-1", "environment")
    assert (tip.protected, tip.holdout_exempt, tip.retired_reason) == (True, True, "by hand")
    assert tip.retired_at is not None


def test_the_committed_schema_knows_them() -> None:
    call_command("json_schema", "--check")
