"""A recorded run is the run that would have been posted: any sequence of verbs, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from django.conf import settings as settings_file
from django.db import transaction
from django.test import override_settings
from hypothesis import HealthCheck, event, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from contextgraph.agent import memory_store
from contextgraph.envelope import SCHEMA_V1, EnvelopeError, digest_of, parse_envelope
from contextgraph.ingest import ingest_envelope
from memory.models import Attempt, Retrieval, Run, Tip
from memory.store import StoreRefused
from memory.store_records import digest, records_of
from tests.memory.ranking_rows import rule_tip, skill_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from memory.store import MemoryStore, Retrieved

pytestmark = pytest.mark.django_db

RULES: Final = ("audit_rules_time_adjtimex", "audit_rules_time_\0☃")
FILES: Final = settings_file.PROMPTS_DIR
HOLDOUT: Final = 'rate = 0.3\nexempt_types = ["warning"]'


@pytest.fixture
def _with_a_coin(tmp_path: Path, settings: Any) -> None:
    """The defaults of a skill, with a hold-out and canaries."""
    settings.PROMPTS_DIR = skill_files(tmp_path, holdout=HOLDOUT, eviction="canary_rate = 0.5")


def document_of(run: Run, **header: Any) -> dict[str, Any]:
    """*run* as an envelope, with other words in its header if wanted."""
    first, *middle, footer = (record.model_dump(mode="json") for record in records_of(run))
    kept = {name: value for name, value in footer.items() if name == "summary"}
    return {
        "schema": SCHEMA_V1,
        "run": first | header,
        "tips": [entry for entry in middle if "tip" in entry],
        "attempts": [entry for entry in middle if "number" in entry],
    } | kept


def columns(row: Any, *without: str) -> dict[str, Any]:
    names = {field.attname for field in row._meta.concrete_fields} - {"id", "run_id", *without}
    return {name: getattr(row, name) for name in sorted(names)}


def attempts_of(run: Run) -> list[dict[str, Any]]:
    return [columns(row) for row in Attempt.objects.filter(run=run).order_by("pk")]


def retrievals_of(run: Run) -> list[dict[str, Any]]:
    """Of a posted row, the coin and the ranker are what the wire kept without knowing it."""
    found = []
    rows = Retrieval.objects.filter(run=run).select_related("attempt")
    for row in rows.order_by("attempt_id", "rank", "tip_id"):
        said = columns(row, "attempt_id") | {"attempt": (row.attempt.rule_id, row.attempt.number)}
        if row.run.log_format == "envelope":
            said |= {name: said["extra"].pop(name, said[name]) for name in ("coin", "ranker")}
        found.append(said)
    return found


def assert_same_as_posted(recorded: Run) -> None:
    assert digest(recorded) == recorded.digest
    [again] = ingest_envelope(document_of(recorded))
    assert (again.status, again.run_id) == ("unchanged", recorded.pk)
    [result] = ingest_envelope(document_of(recorded, external_id="posted"))
    posted = Run.objects.get(pk=result.run_id)
    facts = ("source", "started_at", "ended_at", "model", "environment_tag", "extra", "status")
    assert {f: getattr(posted, f) for f in facts} == {f: getattr(recorded, f) for f in facts}
    assert attempts_of(posted) == attempts_of(recorded)
    assert retrievals_of(posted) == retrievals_of(recorded)


@pytest.mark.usefixtures("_with_a_coin")
def test_a_night_of_work_is_the_same_recorded_and_posted() -> None:
    store = memory_store("default")
    for number in range(6):
        rule_tip(
            skill="default",
            source_rule_id=RULES[0],
            text=f"Option {number} into /etc/app{number}",
            tip_type="warning" if number == 3 else "strategy",
        )
    run = store.start_run("n1", model="m", environment_tag="lab", source="s", config={"k": [1.5]})
    store.save_tip("Packages come from the mirror", run=run, scope="environment")
    for passed in (False, True):
        got = store.retrieve(run, RULES[0], category="audit", title="Record adjtimex")
        shown = {tip.tip_id: tip.text[:9] for tip in got.tips[:1]}
        store.mark_shown(got, shown=shown, dropped=[tip.tip_id for tip in got.tips[1:2]])
        store.save_attempt(
            run, RULES[0], number=got.attempt_number, script="chmod 0600 /x\n", passed=passed,
            failure_mode="" if passed else "clean_failure", evaluator_raw={"rc": 1, "f": 1e300},
        )  # fmt: skip
    store.retrieve(run, RULES[1])
    store.end_run(run, {"fixed": 1})
    recorded = Run.objects.get(pk=run.id)
    assert Retrieval.objects.filter(run=recorded, coin__isnull=False).exists()
    assert_same_as_posted(recorded)
    assert parse_envelope(document_of(recorded)), "it is a document of the wire"


@pytest.mark.usefixtures("_with_a_coin")
def test_the_digest_sees_every_kind_of_row() -> None:
    rule_tip(skill="default", source_rule_id=RULES[0])
    store = memory_store("default")
    run = store.start_run("n1")
    store.retrieve(run, RULES[0])
    store.save_attempt(run, RULES[0], script="x", passed=True)
    store.end_run(run)
    row = Run.objects.get(pk=run.id)
    changes: tuple[tuple[Any, dict[str, Any]], ...] = (
        (Run, {"model": "other"}),
        (Run, {"extra": {"summary": {}}}),
        (Attempt, {"script": "y"}),
        (Attempt, {"passed": False}),
        (Retrieval, {"rank": 9}),
        (Retrieval, {"ranker": "0" * 64}),
        (Tip, {"mechanism": "other"}),
    )
    seen = {row.digest}
    for model, change in changes:
        with transaction.atomic():
            model.objects.update(**change)
            seen.add(digest(Run.objects.get(pk=run.id)))
            transaction.set_rollback(True)
    assert len(seen) == 1 + len(changes)
    assert digest_of(records_of(row)) == row.digest


def test_a_failure_that_the_grader_found_is_posted_as_it_was_sent() -> None:
    """Nobody named the failure: named in the document, it would be graded by another path."""
    store = memory_store("stig")
    run = store.start_run("n1")
    raw = {"health": "UNHEALTHY: app down"}
    key = store.save_attempt(
        run, RULES[0], passed=False, evaluator_raw=raw, grade_value=0.5, grade_confidence=0.5
    )
    attempt = Attempt.objects.get(pk=key)
    assert attempt.failure_mode == "health_failure"
    store.end_run(run)
    assert_same_as_posted(Run.objects.get(pk=run.id))


# --- Any sequence of verbs ------------------------------------------------------------------------

RULE = st.sampled_from(RULES)
NUMBER = st.none() | st.integers(1, 3)
WORD = st.sampled_from(["", "audit", "k\0\ud800", "x" * 500])
RAW = st.none() | st.dictionaries(
    WORD, st.floats() | st.integers() | st.lists(st.booleans() | WORD, max_size=2), max_size=2
)
FACTS = st.fixed_dictionaries(
    {},
    optional={
        "category": WORD,
        "title": WORD,
        "script": st.none() | WORD,
        "script_truncated": st.booleans(),
        "narrative": WORD,
        "evaluator_raw": RAW,
        "evaluator_error": WORD,
        "passed": st.none() | st.booleans(),
        "failure_mode": st.sampled_from(["", "health_failure", "evaluator_error", "odd\0"]),
        "apply_failed": st.booleans(),
        "deferred": st.booleans(),
        "grade_value": st.none() | st.floats(-1, 1),
        "grade_confidence": st.none() | st.floats(0, 1),
    },
)
PICK = st.integers(0, 5)
VERBS = st.one_of(
    st.tuples(st.just("retrieve"), RULE, NUMBER, WORD),
    st.tuples(st.just("save"), RULE, NUMBER, FACTS),
    st.tuples(st.just("mark"), PICK, st.sets(PICK), st.dictionaries(PICK, WORD)),
    st.tuples(st.just("join"), RULE, PICK),
    st.tuples(st.just("tip"), WORD, PICK, st.sampled_from(["rule", "environment"])),
    st.tuples(st.just("ban"), WORD, RULE),
)


class Agent:
    """Plays verbs; what it may not do is refused, and nothing else goes wrong."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.run = store.start_run("n1", environment_tag="lab")
        self.got: list[Retrieved] = []
        self.saved: list[int] = []

    def play(self, verb: tuple[Any, ...]) -> None:
        name, *arguments = verb
        try:
            with transaction.atomic():
                getattr(self, name)(*arguments)
            event(name)
        except (StoreRefused, EnvelopeError) as refusal:
            event(f"{name} refused: {type(refusal).__name__}")

    def retrieve(self, rule: str, number: int | None, word: str) -> None:
        self.got.append(
            self.store.retrieve(self.run, rule, attempt=number, category=word, title=word)
        )

    def save(self, rule: str, number: int | None, facts: Mapping[str, Any]) -> None:
        self.saved.append(self.store.save_attempt(self.run, rule, number=number, **facts))

    def mark(self, which: int, dropped: set[int], texts: dict[int, str]) -> None:
        if which < len(self.got):
            got = self.got[which]
            ids = [tip.tip_id for tip in got.tips]
            self.store.mark_shown(
                got,
                shown={ids[n]: text for n, text in texts.items() if n < len(ids)},
                dropped=[ids[n] for n in dropped if n < len(ids)],
            )

    def join(self, rule: str, which: int) -> None:
        if which < len(self.saved):
            self.store.update_retrieval_attempt_ids(self.run, rule, self.saved[which])

    def tip(self, word: str, which: int, scope: Any) -> None:
        source = self.saved[which] if which < len(self.saved) else None
        self.store.save_tip(word, run=self.run, attempt_id=source, scope=scope, category="audit")

    def ban(self, pattern: str, rule: str) -> None:
        self.store.add_ban(self.run, pattern, rule)


@hypothesis_settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(verbs=st.lists(VERBS, max_size=14), coins=st.booleans())
def test_after_any_sequence_of_verbs_the_rows_are_those_of_a_posted_run(
    verbs: list[tuple[Any, ...]], coins: bool, tmp_path: Path
) -> None:
    prompts = skill_files(tmp_path, holdout=HOLDOUT) if coins else FILES
    with override_settings(PROMPTS_DIR=prompts), transaction.atomic():
        for number in range(3):
            rule_tip(source_rule_id=RULES[0], text=f"Option {number} on")
        agent = Agent(memory_store("stig"))
        for verb in verbs:
            agent.play(verb)
        agent.store.end_run(agent.run, {"done": True})
        assert_same_as_posted(Run.objects.get(pk=agent.run.id))
        transaction.set_rollback(True)
