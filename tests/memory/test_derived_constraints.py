"""The rules of what is kept beside the graph, broken once each: sums, sweeps, stages, revisions, bans."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import IntegrityError, transaction

from tests.factories import (
    MOMENT,
    make_attempt,
    make_ban,
    make_dream_stage,
    make_retrieval,
    make_revision,
    make_run,
    make_run_evidence,
    make_sweep,
    make_sweep_entry,
    make_tip,
    make_tip_change,
    make_tip_evidence,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db


def refused(row: Any, rule: str, **values: Any) -> None:
    with pytest.raises(IntegrityError, match=rule), transaction.atomic():
        type(row).objects.filter(pk=row.pk).update(**values)


CHECKS: list[tuple[Callable[[], Any], str, dict[str, Any]]] = [
    (make_retrieval, "retrieval_coin_range", {"coin": 1.0, "propensity": 1.0, "withheld": True,
                                              "shown": False}),
    (make_retrieval, "retrieval_coin_decided", {"coin": 0.7, "propensity": 0.5}),
    (make_tip, "tip_scope_known", {"scope": "everywhere"}),
    (make_run_evidence, "run_evidence_counts", {"credit_n": 1}),
    (make_run_evidence, "run_evidence_counts", {"rows": 2, "visits": 2}),
    (make_tip_evidence, "tip_evidence_counts", {"shown": 1}),
    (make_tip_evidence, "tip_evidence_level_known", {"level": "family"}),
    (make_tip_evidence, "tip_evidence_has_tip", {"tip": None}),
    (make_tip_evidence, "tip_evidence_has_tip", {"level": "skill"}),
    (make_dream_stage, "dream_stage_known", {"stage": "sleep"}),
    (make_dream_stage, "dream_stage_state_known", {"state": "lost", "finished_at": MOMENT}),
    (make_dream_stage, "dream_stage_state_known", {"state": "done"}),
    (make_dream_stage, "dream_stage_failed_has_error", {"state": "failed", "finished_at": MOMENT}),
    (make_sweep, "sweep_state_known", {"state": "lost", "applied_at": MOMENT, "applied_by": "a"}),
    (make_sweep, "sweep_applied_has_time", {"state": "applied"}),
    (make_sweep, "sweep_applied_has_time", {"applied_at": MOMENT}),
    (make_sweep, "sweep_undone_has_time", {"state": "undone", "applied_at": MOMENT,
                                           "applied_by": "a"}),
    (make_sweep_entry, "sweep_entry_cause_known", {"cause": "dislike"}),
    (make_sweep_entry, "sweep_entry_interval", {"high": -0.6}),
    (make_sweep_entry, "sweep_entry_interval", {"mean": float("nan")}),
    (make_sweep_entry, "sweep_entry_gives_back_own", {"given_back": True}),
    (make_tip_change, "tip_change_action_known", {"action": "delete"}),
    (make_tip_change, "tip_change_has_reason_and_author", {"reason": ""}),
    (make_tip_change, "tip_change_has_reason_and_author", {"by": ""}),
    (make_revision, "outcome_revision_cause_known", {"cause": "whim"}),
    (make_revision, "outcome_revision_range", {"new_value": 1.5}),
    (make_revision, "outcome_revision_has_author", {"by": ""}),
    (make_ban, "ban_says_something", {"pattern": ""}),
]  # fmt: skip


@pytest.mark.parametrize(("make", "rule", "values"), CHECKS)
def test_a_row_that_breaks_its_rule_is_refused(
    make: Callable[[], Any], rule: str, values: dict[str, Any]
) -> None:
    refused(make(), rule, **values)


def test_only_a_retired_tip_was_retired_by_a_sweep() -> None:
    refused(make_tip(), "tip_active_has_no_sweep", retired_sweep=make_sweep())


def test_the_coin_says_why_a_tip_was_shown_or_withheld() -> None:
    make_retrieval(coin=0.4, propensity=0.5)
    row = make_retrieval(shown=False, withheld=True, coin=0.6, propensity=0.5)
    refused(row, "retrieval_coin_decided", coin=0.4)


def test_a_run_says_one_thing_about_a_tip_on_a_rule_under_a_policy() -> None:
    one = make_run_evidence()
    other = make_run_evidence(run=one.run, tip=one.tip, policy="quadrant")
    refused(other, "run_evidence_once", policy=one.policy)


def test_a_key_has_one_sum_also_the_skill_without_a_tip() -> None:
    one = make_tip_evidence()
    other = make_tip_evidence(tip=one.tip, policy="adr0019")
    refused(other, "tip_evidence_once", policy=one.policy)
    for policy in ("quadrant", "adr0019"):
        whole = make_tip_evidence(policy=policy)
        type(whole).objects.filter(pk=whole.pk).update(level="skill", tip=None)
    refused(whole, "tip_evidence_once", policy="quadrant")


def test_a_run_stands_once_in_each_stage() -> None:
    one = make_dream_stage(stage="score")
    refused(make_dream_stage(run=one.run, stage="credit"), "dream_stage_once", stage="score")


def test_a_sweep_catches_a_tip_once() -> None:
    one = make_sweep_entry()
    refused(make_sweep_entry(sweep=one.sweep), "sweep_entry_once", tip=one.tip)


def test_the_revisions_of_an_attempt_are_numbered() -> None:
    attempt = make_attempt()
    make_revision(attempt=attempt, number=1)
    refused(make_revision(attempt=attempt, number=2), "outcome_revision_once", number=1)


def test_a_pattern_is_banned_once_per_run_and_rule() -> None:
    run = make_run()
    make_ban(run=run, pattern="a")
    make_ban(run=run, pattern="a", rule_id="elsewhere")
    refused(make_ban(run=run, pattern="b"), "ban_once", pattern="a")


def test_a_recording_run_has_a_status_of_its_own() -> None:
    run = make_run(status="recording")
    refused(run, "run_status_known", status="dreaming")
    refused(run, "run_ends_after_start", ended_at=run.started_at - timedelta(days=1))
