"""Tips with a past, for the tests of sweeps: real rows, counted by ``memory.evidence``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from contextgraph.skills import Eviction
from memory.evidence import refresh
from memory.models import Run, Tip
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

GATE = Eviction(
    min_retrievals=3, threshold=0.3, policy="adr0019", min_age_days=7, interval_below=False
)
"""Stig's gate, by the mean alone: few rows are enough."""

EARNED, MISLEADING, LUCKY, BYSTANDER = (True, 1.0), (True, 0.0), (False, 1.0), (False, 0.0)
UNKNOWN = (None, 1.0)
"""A visit: did the script follow the tip, and how did the attempt go."""


def old_tip(**fields: Any) -> Tip:
    """A tip that no age guard protects."""
    return make_tip(**({"created_at": timezone.now() - timedelta(days=30)} | fields))


def give_past(
    tip: Tip, *visits: tuple[bool | None, float], run: Run | None = None, **fields: Any
) -> Run:
    """Retrievals of *tip* in one run, each at a rule of its own; their evidence is counted."""
    run = run or make_run(skill=tip.skill)
    for followed, outcome in visits:
        attempt = make_attempt(run=run, outcome=outcome)
        make_retrieval(attempt=attempt, tip=tip, llm=followed, **fields)
    with transaction.atomic():
        refresh([run.pk])
    return run


def bad_tip(visits: int = 3, **fields: Any) -> Tip:
    """A tip that was followed into failure at each of its *visits*."""
    tip = old_tip(**fields)
    give_past(tip, *[MISLEADING] * visits)
    return tip


def columns(**filters: Any) -> list[tuple[Any, ...]]:
    """What decides whether a tip is in the pool, for all tips, by key."""
    rows = Tip.objects.filter(**filters).order_by("pk")
    return list(rows.values_list("pk", "retired_at", "retired_reason", "retired_sweep_id"))
