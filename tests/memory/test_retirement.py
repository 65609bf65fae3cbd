"""Tips leave the pool and come back one by one: written down, by one caller, and never twice."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, transaction

from memory.models import EvictionSweep, Tip, TipChange
from memory.retirement import (
    AlreadyRetired,
    NotRetired,
    RetirementError,
    UnknownTip,
    reactivate,
    retire,
    tip_named,
)
from tests.factories import MOMENT, make_attempt, make_retrieval, make_tip
from tests.memory.sweep_histories import columns

pytestmark = pytest.mark.django_db


def changes(tip: Tip) -> list[tuple[str, str, str, int | None]]:
    """What was written down about a tip."""
    return list(tip.changes.values_list("action", "reason", "by", "sweep_id"))


def test_a_tip_leaves_and_comes_back_as_if_it_had_never_left() -> None:
    tip = make_tip()
    before = columns()
    retired = retire(tip.pk, reason=" breaks the login ", by="ann")
    assert (retired.retired_reason, retired.retired_sweep_id) == ("breaks the login", None)
    assert retired.retired_at is not None
    assert not Tip.objects.active().exists()
    back = reactivate(tip.pk, reason="mended", by="bob")
    assert back.retired_at is None
    assert columns() == before
    assert changes(tip) == [
        ("retire", "breaks the login", "ann", None),
        ("reactivate", "mended", "bob", None),
    ]


def test_a_sweep_may_be_named_as_the_cause() -> None:
    sweep = EvictionSweep.objects.create(
        skill="stig", policy="adr0019", gate={}, active=1, with_evidence=1, created_at=MOMENT,
        created_by="ann",
    )  # fmt: skip
    tip = make_tip()
    assert retire(tip.pk, reason="r", by="ann", sweep=sweep).retired_sweep == sweep
    assert changes(tip) == [("retire", "r", "ann", sweep.pk)]
    assert reactivate(tip.pk, reason="r", by="ann").retired_sweep_id is None


def test_a_person_may_retire_a_protected_tip() -> None:
    assert retire(make_tip(protected=True).pk, reason="r", by="ann").retired_at


def test_twice_is_an_error_that_says_what_there_is_and_writes_nothing() -> None:
    tip = make_tip(external_id="t-1")
    retire(tip.pk, reason="the first reason", by="ann")
    with pytest.raises(AlreadyRetired, match=r"stig/t-1 \(primary key \d+\).*the first reason"):
        retire(tip.pk, reason="the second", by="bob")
    assert len(changes(tip)) == 1
    reactivate(tip.pk, reason="r", by="ann")
    with pytest.raises(NotRetired, match="stig/t-1"):
        reactivate(tip.pk, reason="again", by="bob")
    assert len(changes(tip)) == 2


@pytest.mark.parametrize("verb", [retire, reactivate])
def test_an_unknown_tip_is_never_answered_with_another(verb: Any) -> None:
    make_tip()
    with pytest.raises(UnknownTip, match="no tip has the primary key 0"):
        verb(0, reason="r", by="ann")


@pytest.mark.parametrize(
    "said",
    [
        {"reason": "  "},
        {"reason": "null \0 byte"},
        {"reason": "\ud800"},
        {"by": ""},
        {"by": "x" * 151},
        {"by": "\0"},
    ],
)
def test_who_and_why_must_be_said_in_a_form_that_can_be_stored(said: dict[str, str]) -> None:
    tip = make_tip()
    for verb in (retire, reactivate):
        with pytest.raises(RetirementError):
            verb(tip.pk, **({"reason": "r", "by": "ann"} | said))
    assert not TipChange.objects.exists()
    assert Tip.objects.active().count() == 1


@pytest.mark.parametrize(
    ("skill", "external_id", "key"),
    [
        ("stig", "t-1", "stig/t-1"),
        ("stig", "a/b/c", "stig/a/b/c"),
        ("a/b", "c", "a/b/c"),
        ("", "t", "/t"),
        ("stig", "12", "stig/12"),
    ],
)
def test_a_tip_is_found_by_skill_and_id_even_with_slashes(
    skill: str, external_id: str, key: str
) -> None:
    make_tip()
    tip = make_tip(skill=skill, external_id=external_id)
    assert tip_named(key) == tip
    assert tip_named(str(tip.pk)) == tip


@pytest.mark.parametrize("key", ["stig/other", "t-1", "", "9" * 30, "stig/\0", "stig/\ud800", "²"])
def test_a_key_that_names_no_tip(key: str) -> None:
    make_tip(external_id="t-1")
    with pytest.raises(UnknownTip, match="no tip"):
        tip_named(key)


def test_a_key_that_names_two_tips() -> None:
    make_tip(skill="a/b", external_id="c")
    make_tip(skill="a", external_id="b/c")
    with pytest.raises(UnknownTip, match="more than one tip"):
        tip_named("a/b/c")


@pytest.mark.django_db(transaction=True)
def test_of_two_callers_one_retires_the_tip_and_the_other_is_told() -> None:
    tip = make_tip()
    start, results = threading.Barrier(2), []

    def call(by: str) -> None:
        try:
            start.wait(10)
            results.append(retire(tip.pk, reason=f"says {by}", by=by).retired_reason)
        except AlreadyRetired:
            results.append("told")
        finally:
            connection.close()

    callers = [threading.Thread(target=call, args=(by,)) for by in ("ann", "bob")]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    told, reason = sorted(results, key=lambda said: said != "told")
    assert told == "told"
    tip.refresh_from_db()
    assert tip.retired_reason == reason
    assert len(changes(tip)) == 1


@pytest.mark.django_db(transaction=True)
def test_a_tip_that_is_being_retired_can_be_retrieved_meanwhile() -> None:
    """Ingest keeps a key lock on each tip that it writes a row of: neither may wait for the other."""
    tip, attempt = make_tip(), make_attempt()
    written = threading.Event()

    def retrieve() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '5s'")
            make_retrieval(attempt=attempt, tip=tip)
            written.set()
        finally:
            connection.close()

    with transaction.atomic():
        retire(tip.pk, reason="r", by="ann")
        reader = threading.Thread(target=retrieve)
        reader.start()
        reader.join(20)
        assert written.is_set()
