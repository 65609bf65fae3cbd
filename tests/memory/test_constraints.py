"""Every rule that rows must obey, broken once: the database refuses it under the rule's own name."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, transaction

from contextgraph.models import IncomingDocument, IncomingPart, RejectedMessage
from memory.models import Retrieval
from memory.reasons import TRACE_VERDICTS, Reason
from scoring.models import Judgement, ScoreBatch
from scoring.trace import Verdict
from tests.factories import (
    MOMENT,
    make_attempt,
    make_dream_pass,
    make_retrieval,
    make_run,
    make_tip,
    sha256,
)

pytestmark = pytest.mark.django_db

JUDGED: dict[str, Any] = {"llm_source": "m@p", "tip_followed_computed_at": MOMENT}
EMBEDDED: dict[str, Any] = {"emb_source": "e", "tip_followed_computed_at": MOMENT}

RETRIEVAL_RULES: dict[str, dict[str, Any]] = {
    "retrieval_rank_from_one": {"rank": 0},
    "retrieval_score_finite": {"similarity_score": float("nan")},
    "retrieval_value_range": {"outcome_value": 1.01},
    "retrieval_confidence_range": {"outcome_confidence": -0.1},
    "retrieval_outcome_whole": {"outcome_confidence": None},
    "retrieval_propensity_range": {"propensity": 0.0},
    "retrieval_withheld_is_not_shown": {"withheld": True},
    "retrieval_max_chunk_range": {"tip_followed_emb_max_chunk": 1.5},
    "retrieval_trace_range": {
        "tip_followed_trace": 1.5,
        "tip_followed_trace_verdict": "followed",
        "tip_followed_trace_version": "1",
    },
    "retrieval_trace_has_source": {"tip_followed_trace": 0.5},
    "retrieval_trace_verdict_known": {"tip_followed_trace_verdict": "Followed"},
    "retrieval_review_has_author": {"tip_followed_review": True},
    "retrieval_p_range": {"tip_followed_p": float("nan"), "tip_followed_p_version": "hand-set@0"},
    "retrieval_p_has_version": {"tip_followed_p": 0.5},
    "retrieval_label_agrees": {"llm_label": "followed", "llm_source": "judge@0"},
    "retrieval_label_has_source": {"llm_label": "unclear", "llm_reason": "unclear"},
    "retrieval_reason_known": {"llm_reason": "because"},
    "retrieval_emb_range": {
        "tip_followed_emb": float("nan"),
        **EMBEDDED,
    },
    "retrieval_emb_has_source": {"tip_followed_emb": 0.5, "tip_followed_computed_at": MOMENT},
    "retrieval_error_has_no_label": {
        "tip_followed_llm": False,
        "llm_reason": "judge_error",
        **JUDGED,
    },
    "retrieval_followed_needs_source": {"tip_followed_llm": True},
    "retrieval_emb_has_no_error": {
        "tip_followed_emb": 0.5,
        "emb_reason": "embedding_error",
        **EMBEDDED,
    },
    "retrieval_unshown_has_no_label": {"shown": False, "tip_followed_llm": True, **JUDGED},
}
ATTEMPT_RULES: dict[str, dict[str, Any]] = {
    "attempt_number_from_one": {"number": 0},
    "attempt_value_range": {"outcome_value": -2.0},
    "attempt_confidence_range": {"outcome_confidence": 2.0},
    "attempt_outcome_or_reason": {"outcome_value": None, "outcome_confidence": None},
    "attempt_reason_known": {
        "outcome_value": None,
        "outcome_confidence": None,
        "outcome_reason": "judge_error",
    },
    "attempt_error_has_no_outcome": {"evaluator_error": "ssh: connection lost"},
    "attempt_script_facts_need_a_script": {"script": None},
}
RUN_RULES: dict[str, dict[str, Any]] = {
    "run_status_known": {"status": "paused"},
    "run_ends_after_start": {"ended_at": MOMENT - timedelta(days=1)},
    "run_done_has_time": {"status": "done"},
}
TIP_RULES: dict[str, dict[str, Any]] = {
    "tip_source_value_range": {"outcome_at_source_value": 1.5},
    "tip_source_confidence_range": {"outcome_at_source_confidence": 1.5},
    "tip_retired_has_reason": {"retired_at": MOMENT},
}


REJECTED_RULES: dict[str, dict[str, Any]] = {
    "rejected_reason_known": {"reason": ""},
}
BATCH_RULES: dict[str, dict[str, Any]] = {
    "score_batch_signal_known": {"signal": "oracle"},
    "score_batch_state_known": {"state": "lost"},
    "score_batch_lease_ends": {"state": "leased"},
    "score_batch_failed_has_reason": {"state": "failed"},
    "score_batch_range": {"first_id": 3},
}
JUDGEMENT_RULES: dict[str, dict[str, Any]] = {
    "judgement_label_or_reason": {"reason": "judge_error"},
    "judgement_reason_known": {"followed": None, "reason": "because"},
    "judgement_label_agrees": {"label": "contradicted"},
    "judgement_cached_has_no_call": {"cached": True},
}


def refused(row: Any, rule: str, **values: Any) -> None:
    with pytest.raises(IntegrityError, match=rule), transaction.atomic():
        type(row).objects.filter(pk=row.pk).update(**values)


@pytest.mark.parametrize("rule", RETRIEVAL_RULES)
def test_a_retrieval_that_breaks_its_rule_is_refused(rule: str) -> None:
    refused(make_retrieval(), rule, **RETRIEVAL_RULES[rule])


@pytest.mark.parametrize("rule", ATTEMPT_RULES)
def test_an_attempt_that_breaks_its_rule_is_refused(rule: str) -> None:
    refused(make_attempt(), rule, **ATTEMPT_RULES[rule])


@pytest.mark.parametrize("rule", RUN_RULES)
def test_a_run_that_breaks_its_rule_is_refused(rule: str) -> None:
    refused(make_run(), rule, **RUN_RULES[rule])


@pytest.mark.parametrize("rule", TIP_RULES)
def test_a_tip_that_breaks_its_rule_is_refused(rule: str) -> None:
    refused(make_tip(), rule, **TIP_RULES[rule])


@pytest.mark.parametrize(
    "signal",
    [
        {"tip_followed_emb_max_chunk": 0.5},
        {"tip_followed_emb_truncated": False},
        {"tip_followed_trace_verdict": "abstained"},
        {
            "tip_followed_trace": 1.0,
            "tip_followed_trace_verdict": "followed",
            "tip_followed_trace_version": "1",
            "trace_reason": "",
        },
    ],
)
def test_a_tip_that_was_not_shown_has_no_signal_of_any_kind(signal: dict[str, Any]) -> None:
    row = make_retrieval(shown=False)
    refused(row, "retrieval_unshown_has_no_trace", **signal)
    refused(row, "retrieval_unshown_has_no_label", tip_followed_llm=True, llm_reason="", **JUDGED)
    refused(row, "retrieval_unshown_has_no_label", tip_followed_emb=1.0, emb_reason="", **EMBEDDED)


@pytest.mark.parametrize("rule", REJECTED_RULES)
def test_a_rejected_message_that_breaks_its_rule_is_refused(rule: str) -> None:
    row = RejectedMessage.objects.create(reason="schema", body=b"{}", body_size=2)
    refused(row, rule, **REJECTED_RULES[rule])


@pytest.mark.parametrize("rule", BATCH_RULES)
def test_a_score_batch_that_breaks_its_rule_is_refused(rule: str) -> None:
    row = ScoreBatch.objects.create(
        run=make_run(), round=1, signal="judge", number=1, first_id=1, last_id=2, changed_at=MOMENT
    )
    refused(row, rule, **BATCH_RULES[rule])


@pytest.mark.parametrize("rule", JUDGEMENT_RULES)
def test_a_judgement_that_breaks_its_rule_is_refused(rule: str) -> None:
    row = Judgement.objects.create(retrieval=make_retrieval(), followed=True)
    refused(row, rule, **JUDGEMENT_RULES[rule])


@pytest.mark.parametrize("column", ["llm_reason", "emb_reason", "trace_reason"])
def test_every_reason_of_the_vocabulary_can_be_stored(column: str) -> None:
    row = make_retrieval()
    for reason in Reason:
        Retrieval.objects.filter(pk=row.pk).update(**{column: reason})


def test_the_verdicts_that_rows_may_hold_are_those_that_the_trace_gives() -> None:
    assert set(TRACE_VERDICTS) == {verdict.value for verdict in Verdict}


def test_every_field_with_choices_has_a_constraint_that_knows_them() -> None:
    for label in ("contextgraph", "memory", "scoring"):
        for model in apps.get_app_config(label).get_models():
            conditions = [str(getattr(rule, "condition", "")) for rule in model._meta.constraints]
            for field in model._meta.fields:
                words = [word for word, _ in field.choices or ()]
                listed = f"('{field.name}__in', {words})"
                # or label by label, or only some of them
                others = (
                    f"('{field.name}', '{words[0]}')" if words else "",
                    f"('{field.name}__in', [",
                )
                told = any(name in text for text in conditions for name in (listed, *others))
                assert not words or told, (model, field.name)


def test_one_current_run_per_skill_and_external_id_but_any_number_of_revisions() -> None:
    first = make_run(external_id="nightly", superseded_at=MOMENT)
    second = make_run(external_id="nightly", revision=2)
    make_run(external_id="nightly", skill="cve")  # another skill is another run
    refused(first, "run_current_once_per_skill_and_id", superseded_at=None)
    refused(second, "run_revision_once", revision=1)


def test_an_attempt_is_numbered_once_per_rule() -> None:
    attempt = make_attempt(rule_id="r", number=1)
    other = make_attempt(run=attempt.run, rule_id="r", number=2)
    refused(other, "attempt_once_per_rule", number=1)


def test_a_tip_is_retrieved_once_into_an_attempt() -> None:
    one = make_retrieval()
    other = make_retrieval(attempt=one.attempt)
    refused(other, "retrieval_once_per_attempt", tip=one.tip)


def test_a_tip_is_stored_once_per_skill() -> None:
    tip = make_tip(external_id="7")
    make_tip(external_id="7", skill="cve")
    refused(make_tip(external_id="8"), "tip_once_per_skill", external_id=tip.external_id)


def test_a_batch_is_planned_once_per_round_and_signal() -> None:
    values: dict[str, Any] = {
        "run": make_run(), "round": 1, "signal": "judge", "first_id": 1, "last_id": 2,
        "changed_at": MOMENT,
    }  # fmt: skip
    ScoreBatch.objects.create(number=1, **values)
    refused(ScoreBatch.objects.create(number=2, **values), "score_batch_once", number=1)


def test_a_document_has_parts_and_each_of_them_once() -> None:
    document = IncomingDocument.objects.create(
        sha256="0" * 64, parts=2, size=1, last_part_at=MOMENT
    )
    refused(document, "document_has_parts", parts=0)
    IncomingPart.objects.create(document=document, number=1, sha256="0" * 64, body=b"")
    other = IncomingPart.objects.create(document=document, number=2, sha256="0" * 64, body=b"")
    refused(other, "part_once_per_document", number=1)


def test_a_dream_pass_is_counted_once_per_round() -> None:
    one = make_dream_pass(number=1)
    refused(make_dream_pass(run=one.run, number=2), "dream_pass_once_per_round", number=1)


def test_every_named_constraint_of_the_product_is_broken_by_a_test() -> None:
    here = Path(__file__)
    files = (
        here,
        here.with_name("test_derived_constraints.py"),
        here.parent.parent / "scoring" / "test_constraints.py",
    )
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    names = {
        constraint.name
        for label in ("contextgraph", "memory", "scoring")
        for model in apps.get_app_config(label).get_models()
        for constraint in model._meta.constraints
    }
    assert {name for name in names if name not in text} == set()


def test_every_constraint_and_index_of_the_product_has_a_name_of_its_own() -> None:
    for label in ("contextgraph", "memory", "scoring"):
        for model in apps.get_app_config(label).get_models():
            for item in (*model._meta.constraints, *model._meta.indexes):
                assert item.name, model
                assert not item.name.endswith(("_idx", "_uniq")), item.name


def test_a_script_hash_is_the_hash_of_the_script() -> None:
    attempt = make_attempt(script="ls\n")
    assert attempt.script_sha256 == sha256("ls\n")
