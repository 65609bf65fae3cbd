"""Runs that an agent records itself: left alone while it lives, taken over when it is silent."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from contextgraph import pipeline, reaping
from tests.factories import make_attempt, make_retrieval, make_run

if TYPE_CHECKING:
    from memory.models import Run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _a_day_is_the_limit(broker: str, settings: Any) -> None:
    settings.RECORDING_TIMEOUT_H = 24.0
    settings.SIGNALS = ["trace"]


def recording(*, hours_ago: float, heard_hours_ago: float | None = None) -> Run:
    """A run begun some hours ago, of which an attempt or a retrieval was heard later."""
    then = timezone.now() - timedelta(hours=hours_ago)
    run = make_run(status="recording", started_at=then, state_changed_at=then, ended_at=None)
    heard = timezone.now() - timedelta(
        hours=hours_ago if heard_hours_ago is None else heard_hours_ago
    )
    attempt = make_attempt(run=run, started_at=then)
    make_retrieval(attempt=attempt, retrieved_at=heard)
    return run


def test_a_recording_is_never_dispatched() -> None:
    run = recording(hours_ago=1)
    assert not pipeline.dispatch(run.pk)
    swept = pipeline.reap(inline=True, impatient=True).as_dict()
    assert not any(swept.values())
    run.refresh_from_db()
    assert run.status == "recording"


@pytest.mark.parametrize(("hours_ago", "heard"), [(23.0, None), (100.0, 1.0)])
def test_an_agent_that_was_heard_of_is_not_taken_over(
    hours_ago: float, heard: float | None
) -> None:
    run = recording(hours_ago=hours_ago, heard_hours_ago=heard)
    assert not pipeline.reap(inline=True, impatient=True).closed
    assert not reaping.close_recording(run.pk)


def test_an_attempt_is_a_sign_of_life() -> None:
    run = recording(hours_ago=100)
    make_attempt(run=run, started_at=timezone.now() - timedelta(hours=1))
    assert not pipeline.reap(inline=True, impatient=True).closed


def test_a_silent_recording_is_closed_without_an_end_and_finished() -> None:
    run = recording(hours_ago=25)
    swept = pipeline.reap(inline=True, impatient=True)
    assert (swept.closed, swept.finalized) == ([run.pk], [run.pk])
    run.refresh_from_db()
    assert (run.status, run.ended_at, len(run.digest)) == ("done", None, 64)
    assert not reaping.close_recording(run.pk)


def test_sweeping_until_all_is_done_does_not_wait_for_an_agent() -> None:
    run, out = recording(hours_ago=1), StringIO()
    call_command("reap_runs", "--inline", "--until-done", "--json", stdout=out)
    assert not any(json.loads(out.getvalue()).values())
    run.refresh_from_db()
    assert run.status == "recording"
