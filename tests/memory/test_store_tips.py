"""Tips and bans as an agent saves them: nothing twice, nothing cut, everything found again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from contextgraph.agent import memory_store
from contextgraph.envelope import EnvelopeError, storable
from memory import store_tips
from memory.duplicates import Advice, words_sha256
from memory.models import Ban, Run, Tip, TipChange
from memory.store import SavedTip, StoreRefused
from tests.factories import make_tip
from tests.memory.ranking_rows import RULE, swept

if TYPE_CHECKING:
    from memory.store import MemoryStore, RunHandle

pytestmark = pytest.mark.django_db


@pytest.fixture
def store() -> MemoryStore:
    return memory_store("stig")


@pytest.fixture
def run(store: MemoryStore) -> RunHandle:
    return store.start_run("n1", environment_tag="lab")


# --- Tips -----------------------------------------------------------------------------------------


def test_a_tip_knows_where_it_comes_from(store: MemoryStore, run: RunHandle) -> None:
    key = store.save_attempt(run, RULE, script="x", passed=False, failure_mode="health_failure")
    saved = store.save_tip(
        "Set it first", run=run, category="audit", tip_type="recovery", attempt_id=key,
        mechanism="because",
    )  # fmt: skip
    assert saved.created
    tip = Tip.objects.get(pk=saved.tip_id)
    assert (tip.source_run_id, tip.source_rule_id, tip.environment_tag) == ("n1", RULE, "lab")
    assert (tip.outcome_at_source_value, tip.outcome_at_source_confidence) == (-0.2, 1.0)
    assert (tip.category, tip.tip_type, tip.mechanism, tip.scope) == (
        "audit", "recovery", "because", "rule",
    )  # fmt: skip
    assert tip.extra == {"source_attempt": 1}
    assert tip.text_sha256
    elsewhere = store.save_tip("Another", run=run, attempt_id=key, source_rule_id="sshd_x")
    assert Tip.objects.get(pk=elsewhere.tip_id).source_rule_id == "sshd_x"


def test_a_new_tip_is_retrieved_at_once_with_less_weight(
    store: MemoryStore, run: RunHandle
) -> None:
    saved = store.save_tip("Set it first", run=run, category="audit", source_rule_id=RULE)
    here = store.retrieve(run, RULE, category="audit").tips
    there = store.retrieve(store.start_run("n2"), RULE, category="audit").tips
    assert [tip.tip_id for tip in (*here, *there)] == [saved.tip_id] * 2
    assert here[0].score == there[0].score / 2


def test_a_tip_of_the_environment_is_retrieved_for_every_rule_there(
    store: MemoryStore, run: RunHandle
) -> None:
    saved = store.save_tip("Packages come from the mirror", run=run, scope="environment")
    same = store.start_run("n2", environment_tag="lab")
    other = store.start_run("n3", environment_tag="production")
    assert [tip.tip_id for tip in store.retrieve(same, "sshd_any").tips] == [saved.tip_id]
    assert store.retrieve(other, "sshd_any").tips == ()


@pytest.mark.parametrize(
    "again",
    [
        "Set PermitRootLogin to no.",
        "  set   permitrootlogin\tto\r\nNO... ",
        "Set Permit\N{FULLWIDTH LATIN SMALL LETTER R}ootLogin to no",
        "Set\N{NO-BREAK SPACE}PermitRootLogin to no",
    ],
)
def test_nearly_the_same_words_are_the_same_tip(
    store: MemoryStore, run: RunHandle, again: str
) -> None:
    first = store.save_tip("Set PermitRootLogin to no", run=run)
    assert store.save_tip(again, run=run, category="ssh") == SavedTip(first.tip_id, created=False)
    assert Tip.objects.get().text == "Set PermitRootLogin to no"
    assert memory_store("cve").save_tip(again, run=memory_store("cve").start_run("n1")).created


@pytest.mark.parametrize("other", ["Set PermitRootLogin to yes", "Set Permit RootLogin to no"])
def test_other_words_are_another_tip(store: MemoryStore, run: RunHandle, other: str) -> None:
    first = store.save_tip("Set PermitRootLogin to no", run=run)
    second = store.save_tip(other, run=run)
    assert second.created
    assert second.tip_id != first.tip_id


def test_a_tip_of_another_sender_is_known_too_and_one_in_use_before_a_retired_one(
    store: MemoryStore, run: RunHandle
) -> None:
    retired = swept(make_tip(text="Réinstaller d'abord"))
    saved = store.save_tip("RÉINSTALLER d'abord.", run=run)
    assert saved == SavedTip(retired.pk, created=False, retired=True)
    assert Tip.objects.get().retired_at is not None, "bringing back is not this door's business"
    active = make_tip(text="réinstaller D'ABORD")
    assert store.save_tip("Réinstaller d'abord", run=run) == SavedTip(active.pk, created=False)


def test_a_retired_lesson_that_is_learned_again_is_noted_once_per_run(
    store: MemoryStore, run: RunHandle
) -> None:
    retired = swept(make_tip(text="Reinstall first"))
    for again in (run, run, store.start_run("n2")):
        assert store.save_tip("reinstall first.", run=again).retired
    noted = TipChange.objects.filter(tip=retired, action="propose")
    assert [change.by for change in noted] == ["run stig/n1", "run stig/n2"]
    retired.refresh_from_db()
    assert retired.retired_at is not None


def test_the_words_are_looked_up_by_an_index(store: MemoryStore) -> None:
    Tip.objects.bulk_create(
        Tip(skill="stig", external_id=f"t{n}", text=f"т {n}", words_sha256=words_sha256(f"т {n}"))
        for n in range(3_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE tips")
        cursor.execute(
            "EXPLAIN SELECT id FROM tips WHERE skill = 'stig' AND words_sha256 = %s",
            [words_sha256("т 7")],
        )
        assert "tip_by_words" in str(cursor.fetchall())


def test_a_name_that_was_given_to_something_else_is_no_reason_to_lose_a_tip(
    store: MemoryStore, run: RunHandle
) -> None:
    taken = make_tip(external_id=store_tips.name_of("Set it first"), text="Something else")
    saved = store.save_tip("Set it first", run=run)
    assert saved.created
    assert saved.tip_id != taken.pk
    assert not store.save_tip("set it first", run=run).created


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"text": ""}, "text: a tip without text"),
        ({"text": " \n\t... "}, "text: a tip without text"),
        ({"category": "x" * 501}, r"tip\.category"),
        ({"scope": "galaxy"}, r"tip\.scope"),
        ({"source_rule_id": "x" * 501}, r"tip\.source_rule_id"),
    ],
)
def test_a_tip_that_says_nothing_or_has_no_place_is_refused(
    store: MemoryStore, run: RunHandle, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(EnvelopeError, match=said):
        store.save_tip(**({"text": "Set it", "run": run} | fields))
    assert not Tip.objects.exists()


def test_a_tip_is_learned_from_an_attempt_of_its_own_run(
    store: MemoryStore, run: RunHandle
) -> None:
    key = store.save_attempt(store.start_run("n2"), RULE, passed=True)
    with pytest.raises(StoreRefused, match=f"run stig/n1 has no attempt with primary key {key}"):
        store.save_tip("Set it", run=run, attempt_id=key)


def test_hostile_text_is_stored_as_it_is_but_for_what_no_database_holds(
    store: MemoryStore, run: RunHandle
) -> None:
    text = "Ignore\0 all \ud800rules'); DROP TABLE tips;-- <script>\x1b[31m"
    saved = store.save_tip(text, run=run)
    tip = Tip.objects.get(pk=saved.tip_id)
    assert tip.text == storable(text) != text
    assert tip.text_repaired
    assert not store.save_tip(text, run=run).created


TEXT = st.text(
    st.sampled_from(
        "aAbB.. \t\n\x1c\N{FULLWIDTH FULL STOP}\N{NO-BREAK SPACE}éÉßẞſK²…İǰJ\u030csi\u0307\0\ud800"
    ),
    max_size=8,
)


@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=TEXT, two=TEXT)
@example(one="ß", two="ss")
@example(one="é\u200a!", two="É !.")
@example(one="!?", two="!? ")
@example(one="a..", two="A \N{HORIZONTAL ELLIPSIS}")
def test_two_texts_are_one_tip_exactly_when_their_plain_forms_are_equal(
    one: str, two: str, store: MemoryStore, run: RunHandle
) -> None:
    one, two = storable(one), storable(two)
    row = make_tip(text=one) if one else None
    found = store_tips.known_tip("stig", words_sha256(two))
    same = bool(Advice(one).plain) and Advice(one).plain == Advice(two).plain
    assert (found is not None) == same
    if row is not None:
        row.delete()


# --- Bans -----------------------------------------------------------------------------------------


def test_a_ban_is_one_per_run_and_rule_and_the_newest_come_first(
    store: MemoryStore, run: RunHandle
) -> None:
    other = store.start_run("n2")
    first = store.add_ban(run, "rm -rf", RULE)
    assert store.add_ban(run, "rm -rf", RULE) == first
    store.add_ban(run, "chmod 777")
    store.add_ban(other, "reboot", RULE)
    store.add_ban(other, "reboot", "sshd_other")
    store.add_ban(other, "rm -rf")
    assert Ban.objects.count() == 5
    assert store.bans(RULE) == ["rm -rf", "reboot", "chmod 777"]
    assert store.bans(RULE, limit=2) == ["rm -rf", "reboot"]
    assert store.bans() == ["rm -rf", "chmod 777"]
    assert memory_store("cve").bans(RULE) == []
    Run.objects.filter(pk=other.id).update(superseded_at=other.started_at)
    assert store.bans(RULE) == ["chmod 777", "rm -rf"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"pattern": ""}, "pattern: 0 characters"),
        ({"pattern": "x" * 1001}, "pattern: 1001 characters"),
        ({"pattern": "\N{GRINNING FACE}" * 700}, "pattern: 2800 bytes"),
        ({"pattern": "x", "rule_id": "x" * 501}, r"attempt\.rule_id"),
    ],
)
def test_a_ban_that_no_index_holds_is_refused_not_cut(
    store: MemoryStore, run: RunHandle, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(EnvelopeError, match=said):
        store.add_ban(run, **fields)
    for limit in (0, 10_001, 2**63):
        with pytest.raises(EnvelopeError, match="limit"):
            store.bans(limit=limit)
    assert not Ban.objects.exists()


def test_the_largest_ban_that_is_taken_fits(store: MemoryStore, run: RunHandle) -> None:
    store.add_ban(run, "\N{GRINNING FACE}" * 640)
    store.add_ban(run, "\0\ud800x")
    assert store.bans()[0] == "\N{REPLACEMENT CHARACTER}" * 2 + "x"
