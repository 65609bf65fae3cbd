"""What ``memory.store`` takes and gives: handles, shown tips, and the ways in which it refuses.

Guarantees: values only, no database; every refusal names the row, the cause and the mend. Does not hold
what was withheld from an agent: a value that an agent can read holds no tip that it must not see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime


class StoreRefused(RuntimeError):
    """What was asked cannot be done with the rows as they are; nothing was written."""


class RunExists(StoreRefused):
    """Another run of the skill has this external id."""


class RunClosed(StoreRefused):
    """The run is not being recorded any more: it was ended, closed by the reaper, or superseded."""


class AttemptConflict(StoreRefused):
    """The attempt is saved with other content. ``attempt_id``: its primary key."""

    def __init__(self, message: str, *, attempt_id: int) -> None:
        self.attempt_id = attempt_id
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class RunHandle:
    """A run that is being recorded. ``id``: primary key; the other fields never change."""

    id: int
    skill: str
    external_id: str
    started_at: datetime
    model: str = ""
    environment_tag: str = ""


@dataclass(frozen=True, slots=True)
class ShownTip:
    """A tip that belongs into the prompt.

    ``tip_id``: primary key; ``tip``: external id. ``text``: what the agent is to see, byte for byte.
    ``rank`` from 1, with gaps where a tip was withheld; ``score``: composite, may exceed 1.
    """

    tip_id: int
    tip: str
    text: str
    rank: int
    score: float
    tip_type: str = ""
    canary: bool = False
    environment: bool = False


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The tips of one attempt, best first, and the attempt that they were logged for.

    ``attempt_id``: primary key; ``attempt_number``: from 1 within the rule. ``withheld``: how many tips
    the coin kept back; which ones is for the analysis, not for the agent.
    """

    run: RunHandle
    rule_id: str
    attempt_id: int
    attempt_number: int
    tips: tuple[ShownTip, ...]
    withheld: int = 0

    @property
    def prompt(self) -> str:
        """The tips as a numbered list, each text unchanged; "" when there is none."""
        return "\n".join(f"{place}. {tip.text}" for place, tip in enumerate(self.tips, start=1))


class AttemptState(NamedTuple):
    """How far an attempt has come. ``number``: from 1 within the rule; ``attempt_id``: primary key.

    ``saved``: ``save_attempt`` has closed it; else it is open. ``passed``: the verdict, None for none.
    """

    rule_id: str
    number: int
    attempt_id: int
    saved: bool
    passed: bool | None


class SavedTip(NamedTuple):
    """``created`` False: the skill had the tip already, in nearly these words. ``retired``: and it is not
    in use; to bring it back is ``memory.retirement``'s business."""

    tip_id: int
    created: bool
    retired: bool = False
