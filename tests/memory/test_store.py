"""The verbs of an attempt: retrieve, say what was shown, save, join. Every row says what it should."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from contextgraph.agent import memory_store
from contextgraph.envelope import EnvelopeError
from memory.holdout_audit import audit_holdout
from memory.models import Attempt, Retrieval, Tip
from memory.store import AttemptConflict, Retrieved, StoreRefused
from tests.memory.ranking_rows import RULE, history, rule_tip, skill_files, swept

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


def withheld_and_shown(got: Retrieved) -> tuple[list[Retrieval], list[Retrieval]]:
    rows = rows_of(got)
    return [row for row in rows if row.withheld], [row for row in rows if row.shown]


# --- Retrieve -------------------------------------------------------------------------------------


def test_tips_are_ranked_logged_and_handed_out(store: MemoryStore, run: RunHandle) -> None:
    first, second = tips(2)
    history(second, {"outcome": 1.0, "llm": True})
    got = store.retrieve(run, RULE, category="audit", title="Record fchmod")
    assert [tip.tip_id for tip in got.tips] == [second.pk, first.pk]
    assert got.tips[0].score > got.tips[1].score >= 1.3
    assert got.prompt == f"1. {second.text}\n2. {first.text}"
    attempt = Attempt.objects.get(pk=got.attempt_id)
    assert (attempt.number, got.attempt_number, attempt.ended_at) == (1, 1, None)
    assert (attempt.category, attempt.title) == ("audit", "Record fchmod")
    assert attempt.started_at is not None
    for row, tip in zip(rows_of(got), got.tips, strict=True):
        assert (row.tip_id, row.rank, row.similarity_score) == (tip.tip_id, tip.rank, tip.score)
        assert (row.shown, row.shown_text, row.propensity) == (True, tip.text, 1.0)
        assert row.shown_sha256 == hashlib.sha256(tip.text.encode()).hexdigest()
        assert (row.model, row.environment_tag, row.category) == ("model-a", "lab", "audit")
        assert reasons(row) == ("no_script",) * 3, "what would be true if the agent died now"
        assert row.ranker
        assert row.retrieved_at == attempt.started_at


def test_without_tips_there_is_an_attempt_all_the_same(store: MemoryStore, run: RunHandle) -> None:
    got = store.retrieve(run, RULE)
    assert (got.tips, got.prompt, got.withheld) == ((), "", 0)
    assert Attempt.objects.get().pk == got.attempt_id


def test_withheld_tips_are_logged_and_never_handed_out(
    tmp_path: Path, settings: Any, store: MemoryStore, run: RunHandle
) -> None:
    settings.PROMPTS_DIR = skill_files(
        tmp_path, ranking="k = 20\nduplicate_similarity = 1.0", holdout="rate = 0.5"
    )
    tips(20)
    got = store.retrieve(run, RULE, category="audit")
    withheld, shown = withheld_and_shown(got)
    assert len(withheld) + len(shown) == 20
    assert 0 < len(withheld) == got.withheld < 20
    assert [tip.tip_id for tip in got.tips] == [row.tip_id for row in shown]
    assert all(row.tip.text not in got.prompt for row in withheld)
    assert {row.propensity for row in (*withheld, *shown)} == {0.5}
    assert (audit_holdout().coins, audit_holdout().wrong_coins) == (20, 0)
    assert store.retrieve(run, RULE, attempt=1) == got
    with pytest.raises(StoreRefused, match=f"tip {withheld[0].tip_id} was not handed out"):
        store.mark_shown(got, shown={withheld[0].tip_id: "peeked"})
    store.save_attempt(run, RULE, number=1, script="true", passed=True)
    assert {reasons(row) for row in withheld_and_shown(got)[0]} == {("not_shown",) * 3}
    assert {reasons(row) for row in withheld_and_shown(got)[1]} == {("",) * 3}


def test_tips_of_the_environment_and_canaries_are_marked(
    tmp_path: Path, settings: Any, store: MemoryStore, run: RunHandle
) -> None:
    settings.PROMPTS_DIR = skill_files(tmp_path, eviction="canary_rate = 0.999999")
    retired = swept(rule_tip(text="Stop auditd first"))
    saved = store.save_tip("Packages come from the mirror", run=run, scope="environment")
    got = store.retrieve(run, RULE, category="audit")
    assert {(tip.tip_id, tip.canary, tip.environment) for tip in got.tips} == {
        (retired.pk, True, False), (saved.tip_id, False, True),
    }  # fmt: skip
    assert Retrieval.objects.get(tip=retired).canary
    assert store.retrieve(run, RULE, attempt=1) == got, "as logged, so handed out"


def test_each_retrieve_begins_an_attempt_and_a_number_asks_again(
    store: MemoryStore, run: RunHandle
) -> None:
    tips(2)
    first, second = (store.retrieve(run, RULE, category="audit") for _ in range(2))
    other = store.retrieve(run, SIBLING)
    assert [got.attempt_number for got in (first, second, other)] == [1, 2, 1]
    tips(3)
    before = Retrieval.objects.count()
    assert store.retrieve(run, RULE, category="audit", attempt=2) == second
    assert Retrieval.objects.count() == before
    assert store.retrieve(run, RULE, attempt=7).attempt_number == 7
    assert store.retrieve(run, RULE).attempt_number == 8
    store.save_attempt(run, RULE, number=2, passed=True)
    with pytest.raises(StoreRefused, match=r"attempt .*fchmod #2 of run stig/n1 is saved"):
        store.retrieve(run, RULE, attempt=2)


def test_numbers_end_where_the_column_does(store: MemoryStore, run: RunHandle) -> None:
    store.save_attempt(run, RULE, number=2**31 - 1, passed=True)
    for verb in (store.retrieve, store.save_attempt):
        with pytest.raises(StoreRefused, match="#2147483647: give the next one a smaller number"):
            verb(run, RULE)
    with pytest.raises(EnvelopeError, match="which no column can hold"):
        store.retrieve(run, RULE, attempt=2**31)


@pytest.mark.parametrize(
    "fields",
    [{"rule_id": ""}, {"attempt": 0}, {"category": "x" * 501}, {"k": 0}, {"k": 3_000_000_000}],
)
def test_a_request_that_makes_no_sense_begins_nothing(
    store: MemoryStore, run: RunHandle, fields: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"rule_id|number|category|k is a number from 1"):
        store.retrieve(run, **({"rule_id": RULE} | fields))
    assert not Attempt.objects.exists()


# --- What was shown -------------------------------------------------------------------------------


def test_the_caller_says_what_the_prompt_made_of_the_tips(
    store: MemoryStore, run: RunHandle
) -> None:
    kept, cut, reworded, dropped = (tip.pk for tip in tips(4))
    got = store.retrieve(run, RULE)
    longer = "Please do this, if you would: write option 2 into /etc/app2.conf"
    store.mark_shown(got, shown={cut: "Write opt", reworded: longer}, dropped=[dropped])
    by_tip = {row.tip_id: row for row in rows_of(got)}
    assert (by_tip[kept].shown_text, by_tip[kept].shown_cut) == (got.tips[0].text, False)
    assert (by_tip[cut].shown_text, by_tip[cut].shown_cut) == ("Write opt", True)
    assert (by_tip[reworded].shown_text, by_tip[reworded].shown_cut) == (longer, False)
    assert by_tip[cut].shown_sha256 == hashlib.sha256(b"Write opt").hexdigest()
    gone = by_tip[dropped]
    assert (gone.shown, gone.withheld, gone.shown_text, gone.shown_sha256) == (False, False, "", "")
    store.save_attempt(run, RULE, script="true", passed=True)
    assert [reasons(row) for row in rows_of(got)] == [("",) * 3] * 3 + [("not_shown",) * 3]
    store.mark_shown(got, shown={dropped: "after all"}, dropped=[kept])
    assert [row.shown for row in rows_of(got)] == [False, True, True, True]
    assert [reasons(row) for row in rows_of(got)] == [("not_shown",) * 3] + [("",) * 3] * 3


def test_only_what_was_handed_out_can_have_been_shown(store: MemoryStore, run: RunHandle) -> None:
    [tip] = tips(1)
    got = store.retrieve(run, RULE)
    elsewhere = rule_tip(source_rule_id="sshd_other", category="ssh")
    for wrong in (
        {"shown": {elsewhere.pk: "x"}}, {"dropped": [elsewhere.pk]},
        {"shown": {tip.pk: "x"}, "dropped": [tip.pk]},
    ):  # fmt: skip
        with pytest.raises(StoreRefused, match=r"was not handed out|both shown and dropped"):
            store.mark_shown(got, **wrong)
    with pytest.raises(EnvelopeError, match="was dropped"):
        store.mark_shown(got, shown={tip.pk: ""})
    assert rows_of(got)[0].shown_text == tip.text
    other = store.start_run("n2")
    with pytest.raises(StoreRefused, match="run stig/n2 has no attempt"):
        store.mark_shown(Retrieved(other, RULE, got.attempt_id, 1, got.tips))


# --- Save -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "outcome", "said"),
    [
        ({"script": "true", "passed": True}, 1.0, ("", "", "")),
        ({"script": "true", "passed": False}, 0.0, ("", "", "")),
        ({"script": "true"}, None, ("no_outcome", "", "")),
        ({"passed": True}, 1.0, ("no_script",) * 3),
        ({}, None, ("no_script",) * 3),
        ({"script": "", "passed": True}, 1.0, ("", "", "")),
        ({"script": "tr", "script_truncated": True, "passed": True}, 1.0, ("script_truncated",) * 3),
        ({"script": "true", "evaluator_error": "timeout"}, None, ("no_outcome", "", "")),
        ({"script": "true", "passed": False, "failure_mode": "health_failure"}, -0.2, ("", "", "")),
    ],
)  # fmt: skip
def test_a_saved_attempt_is_graded_and_so_are_its_retrievals(
    store: MemoryStore,
    run: RunHandle,
    facts: dict[str, Any],
    outcome: float | None,
    said: tuple[str, ...],
) -> None:
    tips(2)
    got = store.retrieve(run, RULE, category="audit")
    assert store.save_attempt(run, RULE, **facts) == got.attempt_id
    attempt = Attempt.objects.get()
    assert attempt.outcome_value == outcome
    assert attempt.ended_at is not None
    assert attempt.category == "audit"
    for row in rows_of(got):
        assert (row.outcome_value, row.outcome_confidence) == (
            attempt.outcome_value, attempt.outcome_confidence,
        )  # fmt: skip
        assert reasons(row) == said


def test_a_later_success_climbs_down_the_ladder(store: MemoryStore, run: RunHandle) -> None:
    graded = []
    for _ in range(4):
        got = store.retrieve(run, RULE)
        key = store.save_attempt(run, RULE, number=got.attempt_number, script="x", passed=True)
        graded.append(Attempt.objects.get(pk=key).outcome_value)
    assert graded == [1.0, 0.8, 0.8, 0.5]


def test_an_attempt_needs_no_retrieve(store: MemoryStore, run: RunHandle) -> None:
    began = timezone.now() - timedelta(minutes=1)
    key = store.save_attempt(
        run, RULE, category="audit", title="t", script="x", passed=False, started_at=began
    )
    attempt = Attempt.objects.get(pk=key)
    assert (attempt.number, attempt.category, attempt.title) == (1, "audit", "t")
    assert attempt.started_at == began
    assert Attempt.objects.get(pk=store.save_attempt(run, RULE, script="x")).number == 2
    assert Attempt.objects.get(pk=store.save_attempt(run, RULE, number=9)).number == 9


def test_what_is_said_at_the_end_outranks_what_was_said_at_the_start(
    store: MemoryStore, run: RunHandle
) -> None:
    tips(1)
    got = store.retrieve(run, RULE, category="audit", title="old")
    store.save_attempt(run, RULE, category="kernel", title="")
    attempt = Attempt.objects.get()
    assert (attempt.category, attempt.title) == ("kernel", "")
    assert rows_of(got)[0].category == "kernel"


def test_with_several_open_attempts_the_number_says_which(
    store: MemoryStore, run: RunHandle
) -> None:
    store.retrieve(run, RULE)
    store.retrieve(run, RULE)
    with pytest.raises(StoreRefused, match=r"are open \(#1, #2\)"):
        store.save_attempt(run, RULE, passed=True)
    store.save_attempt(run, RULE, number=2, passed=True)
    store.save_attempt(run, RULE, passed=False)
    assert list(Attempt.objects.order_by("number").values_list("passed", flat=True)) == [
        False,
        True,
    ]


def test_saving_again_is_no_change_and_other_content_is_refused(
    store: MemoryStore, run: RunHandle
) -> None:
    tips(1)
    store.retrieve(run, RULE, category="audit")
    facts: dict[str, Any] = {
        "number": 1, "script": "chmod 0\n", "passed": False, "failure_mode": "clean_failure",
        "evaluator_raw": {"n": 1e300, "zero": -0.0, "deep": [1.5, {"a": None}]},
        "grade_value": 0.25, "grade_confidence": 0.5, "narrative": "n",
    }  # fmt: skip
    key = store.save_attempt(run, RULE, **facts)
    before = Attempt.objects.values().get()
    assert store.save_attempt(run, RULE, **facts) == key
    assert store.save_attempt(run, RULE, category="audit", **facts) == key
    assert Attempt.objects.values().get() == before
    changes: dict[str, Any] = {
        "script": "chmod 1\n", "passed": True, "narrative": "other", "evaluator_raw": None,
        "evaluator_error": "e", "grade_value": None, "deferred": True, "apply_failed": True,
        "category": "kernel", "ended_at": timezone.now(), "failure_mode": "evaluator_gap",
    }  # fmt: skip
    for name, value in changes.items():
        column = {"grade_value": "sender_grade_value"}.get(name, name)
        with pytest.raises(AttemptConflict, match=f"differs in .*{column}") as caught:
            store.save_attempt(run, RULE, **(facts | {name: value}))
        assert caught.value.attempt_id == key
        digest = hashlib.sha256(b"chmod 0\n").hexdigest()[:12]
        assert f"(primary key {key}: script {digest}, passed False)" in str(caught.value)
    assert Attempt.objects.values().get() == before


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"number": 0}, "attempt.number"),
        ({"grade_value": 2.0}, "attempt.grade_value"),
        ({"grade_confidence": float("nan")}, "attempt.grade_confidence"),
        ({"evaluator_raw": {"a": {1, 2}}}, "evaluator_raw.a: set is no JSON"),
        ({"failure_mode": "x" * 501}, "attempt.failure_mode"),
        ({"ended_at": timezone.now().replace(tzinfo=None)}, "attempt.ended_at"),
    ],
)
def test_values_that_cannot_be_posted_cannot_be_saved(
    store: MemoryStore, run: RunHandle, facts: dict[str, Any], said: str
) -> None:
    with pytest.raises(EnvelopeError, match=said):
        store.save_attempt(run, RULE, **facts)
    assert not Attempt.objects.exists()
