"""When a failed question is asked again: doubled each time, jittered, never sooner than asked for.

Guarantees: the rows that fail in one round of a run have one jitter, so that their retries make one
round too. Does not decide whether to retry.

Shaped by rows with a jitter each, which made a round per sweep, and pauses that grew by rounds of one
row.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from django.conf import settings

if TYPE_CHECKING:
    from scoring.models import ScoreBatch

LONGEST_BACKOFF: Final = 8
"""Rounds over which the pause doubles, and for which an outage is borne: hours, by default."""


def retry_delay(failures: int, *, of: ScoreBatch, asked_for: float | None = None) -> float:
    """Seconds until a row that has failed *failures* times (from 1 on) is asked again."""
    longest: float = settings.JUDGE_RETRY_AFTER_S * 2 ** (min(failures, LONGEST_BACKOFF) - 1)
    dice = random.Random(f"{of.run_id}/{of.round}")  # noqa: S311 - spreads load, guards nothing
    return max(longest * dice.uniform(0.5, 1.0), asked_for or 0.0)
