"""``update_retrieval_attempt_ids``: retrievals follow the attempt that was really made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from contextgraph.agent import memory_store
from memory.holdout_audit import audit_holdout
from memory.models import Attempt, Retrieval, Tip
from memory.store import Retrieved, StoreRefused
from memory.store_rows import attempt_at
from tests.memory.ranking_rows import RULE, rule_tip, skill_files

if TYPE_CHECKING:
    from pathlib import Path

    from memory.store import MemoryStore, RunHandle

pytestmark = pytest.mark.django_db

SIBLING = RULE.replace("fchmod", "fchown")


@pytest.fixture
def store() -> MemoryStore:
    return memory_store("stig")


@pytest.fixture
def run(store: MemoryStore) -> RunHandle:
    return store.start_run("n1", model="model-a", environment_tag="lab")


def tips(count: int) -> list[Tip]:
    return [rule_tip(text=f"Write option {n} into /etc/app{n}.conf") for n in range(count)]


def rows_of(retrieved: Retrieved | int) -> list[Retrieval]:
    key = retrieved if isinstance(retrieved, int) else retrieved.attempt_id
    return list(Retrieval.objects.filter(attempt_id=key).order_by("rank"))


def reasons(row: Retrieval) -> tuple[str, str, str]:
    return row.llm_reason, row.emb_reason, row.trace_reason


# --- Join -----------------------------------------------------------------------------------------


def test_retrievals_follow_an_attempt_that_was_saved_under_another_number(
    store: MemoryStore, run: RunHandle
) -> None:
    tips(2)
    got = store.retrieve(run, RULE, category="audit")
    key = store.save_attempt(run, RULE, number=5, script="x", passed=True, category="audit")
    assert store.update_retrieval_attempt_ids(run, RULE, key) == 2
    assert [row.outcome_value for row in rows_of(key)] == [0.5, 0.5]
    assert {reasons(row) for row in rows_of(key)} == {("",) * 3}
    assert not Attempt.objects.filter(pk=got.attempt_id).exists(), "it was the same attempt"
    assert store.update_retrieval_attempt_ids(run, RULE, key) == 0


def test_there_is_nothing_to_join_when_retrieve_and_save_agree(
    store: MemoryStore, run: RunHandle
) -> None:
    tips(1)
    got = store.retrieve(run, RULE)
    assert store.update_retrieval_attempt_ids(run, RULE, got.attempt_id) == 0
    key = store.save_attempt(run, RULE, script="x", passed=True)
    assert store.update_retrieval_attempt_ids(run, RULE, key) == 0
    assert len(rows_of(key)) == 1


def test_a_tip_that_is_there_already_stays_where_it_is(store: MemoryStore, run: RunHandle) -> None:
    first = tips(1)[0]
    one = store.retrieve(run, RULE)
    store.save_attempt(run, RULE, number=1, script="x", passed=True)
    second = tips(1)[0]
    rule_tip(text="Third advice of /etc/audit")
    Tip.objects.filter(pk=second.pk).update(retired_at=timezone.now(), retired_reason="test")
    two = store.retrieve(run, RULE)
    assert store.update_retrieval_attempt_ids(run, RULE, one.attempt_id) == 1
    assert [row.tip_id for row in rows_of(two)] == [first.pk]
    assert len(rows_of(one)) == 2
    assert Attempt.objects.get(pk=two.attempt_id).ended_at is None


def test_what_only_retrieve_was_told_is_not_lost(store: MemoryStore, run: RunHandle) -> None:
    tips(1)
    got = store.retrieve(run, RULE, category="audit", title="Watch fchmod")
    begun = Attempt.objects.get(pk=got.attempt_id)
    key = store.save_attempt(run, RULE, number=5, script="x", passed=True)
    assert store.update_retrieval_attempt_ids(run, RULE, key) == 1
    kept = Attempt.objects.get()
    assert (kept.pk, kept.title, kept.started_at) == (key, "Watch fchmod", begun.started_at)
    assert [row.category for row in rows_of(key)] == [kept.category] == ["audit"]


def test_what_was_said_of_the_saved_attempt_stands(store: MemoryStore, run: RunHandle) -> None:
    tips(1)
    store.retrieve(run, RULE, category="audit")
    key = store.save_attempt(run, RULE, number=5, script="x", passed=True, category="logs")
    assert store.update_retrieval_attempt_ids(run, RULE, key) == 1
    assert [row.category for row in rows_of(key)] == ["logs"]


def test_an_attempt_that_found_no_tips_is_not_taken_for_another(
    store: MemoryStore, run: RunHandle
) -> None:
    key = store.save_attempt(run, RULE, script="x", passed=False)
    got = store.retrieve(run, RULE)
    assert not got.tips
    assert store.update_retrieval_attempt_ids(run, RULE, key) == 0
    store.mark_shown(got)
    assert store.save_attempt(run, RULE, script="y", passed=True) == got.attempt_id


def test_an_attempt_that_found_no_tips_goes_when_it_was_saved_under_another_number(
    store: MemoryStore, run: RunHandle
) -> None:
    begun = store.retrieve(run, RULE, title="Watch fchmod")
    key = store.save_attempt(run, RULE, number=7, script="x", passed=False)
    assert store.update_retrieval_attempt_ids(run, RULE, key) == 0
    kept = Attempt.objects.get()
    assert (kept.pk, kept.title) == (key, "Watch fchmod")
    assert begun.attempt_id != key
    got = store.retrieve(run, RULE)
    assert store.save_attempt(run, RULE, script="y", passed=True) == got.attempt_id


def test_an_attempt_without_tips_stays_when_it_was_begun_after_the_other(
    store: MemoryStore, run: RunHandle
) -> None:
    """Two agents at one rule: what the second has begun is not the first one's attempt."""
    first = store.retrieve(run, RULE)
    second = store.retrieve(run, RULE)
    key = store.save_attempt(run, RULE, number=1, script="x", passed=True)
    assert key == first.attempt_id
    assert store.update_retrieval_attempt_ids(run, RULE, key) == 0
    assert store.save_attempt(run, RULE, script="y", passed=True) == second.attempt_id


def test_an_attempt_without_tips_in_which_something_stands_stays(
    store: MemoryStore, run: RunHandle
) -> None:
    got = store.retrieve(run, RULE)
    store.save_tip("Load the rules with augenrules", run=run, attempt_id=got.attempt_id)
    key = store.save_attempt(run, RULE, number=5, script="x", passed=True)
    assert store.update_retrieval_attempt_ids(run, RULE, key) == 0
    assert Attempt.objects.filter(pk=got.attempt_id).exists()


def test_an_attempt_that_a_tip_was_born_of_stays(store: MemoryStore, run: RunHandle) -> None:
    tips(1)
    got = store.retrieve(run, RULE)
    saved = store.save_tip("Load the rules with augenrules", run=run, attempt_id=got.attempt_id)
    key = store.save_attempt(run, RULE, number=5, script="x", passed=True)
    assert store.update_retrieval_attempt_ids(run, RULE, key) == 1
    named = Tip.objects.get(pk=saved.tip_id).extra["source_attempt"]
    assert Attempt.objects.get(number=named).pk == got.attempt_id


@pytest.mark.parametrize(
    "columns",
    [
        {"script": "x", "script_sha256": "0" * 64},
        {"evaluator_raw": {"health": "HEALTHY"}},
        {"narrative": "it hung"},
        {"passed": False},
    ],
)
def test_an_attempt_in_which_something_stands_stays(
    columns: dict[str, Any], store: MemoryStore, run: RunHandle
) -> None:
    """No verb leaves one open: but what stands there is kept all the same."""
    tips(1)
    got = store.retrieve(run, RULE)
    Attempt.objects.filter(pk=got.attempt_id).update(**columns)
    key = store.save_attempt(run, RULE, number=5, script="y", passed=True)
    assert store.update_retrieval_attempt_ids(run, RULE, key) == 1
    assert Attempt.objects.filter(pk=got.attempt_id, **columns).exists()


def test_a_join_that_cannot_be_meant_is_refused(store: MemoryStore, run: RunHandle) -> None:
    key = store.save_attempt(run, RULE, script="x", passed=True)
    with pytest.raises(StoreRefused, match=r"is one at .*fchmod, not at"):
        store.update_retrieval_attempt_ids(run, SIBLING, key)
    with pytest.raises(StoreRefused, match="has no attempt with primary key"):
        store.update_retrieval_attempt_ids(run, RULE, key + 1_000)
    store.retrieve(run, RULE)
    store.retrieve(run, RULE)
    with pytest.raises(StoreRefused, match="are open"):
        store.update_retrieval_attempt_ids(run, RULE, key)


def test_coins_stay_with_the_number_that_they_were_tossed_for(
    tmp_path: Path, settings: Any, store: MemoryStore, run: RunHandle
) -> None:
    settings.PROMPTS_DIR = skill_files(tmp_path, holdout="rate = 0.1")
    tips(2)
    got = store.retrieve(run, RULE)
    key = store.save_attempt(run, RULE, number=4, script="x", passed=True)
    with pytest.raises(StoreRefused, match="number=1 instead"):
        store.update_retrieval_attempt_ids(run, RULE, key)
    assert (audit_holdout().coins, audit_holdout().wrong_coins) == (len(rows_of(got)), 0)


def test_an_open_attempt_is_found_by_the_rule_alone(store: MemoryStore, run: RunHandle) -> None:
    got = store.retrieve(run, RULE)
    row = Attempt.objects.get().run
    found = attempt_at(row, RULE, None)
    assert found is not None
    assert found.pk == got.attempt_id
    assert attempt_at(row, SIBLING, None) is None
