"""What an agent in this process needs: the memory of a skill, with the grader that ingest uses too.

Guarantees: an attempt that is recorded gets the row and the grade that it would get if its run were
posted: both are made by ``contextgraph.run_rows`` and ``scoring.outcomes``. A run that was recorded is
announced to the workers; when no broker is there, the reaper finds it.

Does not set Django up: the agent does (``DJANGO_SETTINGS_MODULE=contextgraph.settings``, then
``django.setup()``), or posts its runs with ``contextgraph.client``, which needs none of this.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django.conf import settings

from contextgraph.celery import app
from contextgraph.outbox import Outbox
from contextgraph.run_rows import attempt_row
from contextgraph.skills import load_skill
from memory.store import MemoryStore
from scoring.outcomes import Evaluation, grade

if TYPE_CHECKING:
    from contextgraph.envelope import AttemptEntry
    from memory.models import Attempt, Run


def memory_store(skill: str, *, policy: str | None = None) -> MemoryStore:
    """The memory of *skill*; *policy* names a credit policy for the ranker (None: the skill's).

    Raises:
        EnvelopeError: *skill* is empty or too long.
        contextgraph.skills.SkillError: the skill file does not make sense.
    """
    load_skill(settings.PROMPTS_DIR, skill)  # before the first attempt, not after it
    return MemoryStore(skill, grade=graded_row, policy=policy)


def graded_row(run: Run, entry: AttemptEntry) -> Attempt:
    """The unsaved row of an attempt, graded as ingest grades it."""
    evaluation = Evaluation(
        number=entry.sender_number or entry.number,
        passed=entry.passed,
        failure_mode=entry.failure_mode,
        raw=entry.evaluator_raw,
        error=entry.evaluator_error,
        sender_value=entry.grade_value,
        sender_confidence=entry.grade_confidence,
    )
    return attempt_row(run, entry, grade(evaluation, load_skill(settings.PROMPTS_DIR, run.skill)))


def announce_recorded(run_id: int) -> None:
    """Hint that a recorded run waits for scoring; a broker that is away is no error."""
    send = partial(app.send_task, "contextgraph.dispatch_run", args=(run_id,), ignore_result=True)
    Outbox().publish(send, run_id=run_id)
