"""What a re-grading changed, counted while it is done: runs, attempts, categories, tips.

Guarantees: plain data with stable keys; the report of a dry run is that of the real one; a run that
was not graded again is in it with the reason. Means are over the attempts that were looked at and have
an outcome, before and after, each with its n: all of a run's, or those that an undo takes back.

Shaped by: grader fixes whose effect was guessed from the next run.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from memory.rates import Mean, rounded

if TYPE_CHECKING:
    from contextgraph.outcome_changes import Change, Written
    from contextgraph.tip_shifts import Flip
    from memory.models import Run

TRANSITIONS_AT_MOST: Final = 200
"""Kinds of change that are told apart: a sender's own grades are of any number of values."""

NOTHING: Final = Mean(0.0, 0)


class State(enum.StrEnum):
    """What became of a run."""

    CHANGED = "changed"
    """Some grade is another one."""
    CONFIRMED = "confirmed"
    """The same grades, under another version of the ladder."""
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    """Not touched: it is not final, or what is to be undone lies under a later change."""
    FAILED = "failed"
    """Graded again; its dream pass failed, and the reaper tries again."""


@dataclass(slots=True)
class RunResult:
    """One run. ``to_judge``: retrievals that became judgeable; ``why``: for SKIPPED and FAILED."""

    id: int
    external_id: str
    state: State = State.UNCHANGED
    attempts: int = 0
    revised: int = 0
    confirmed: int = 0
    to_judge: int = 0
    without_outcome: int = 0
    why: str = ""

    def take(self, written: Written) -> None:
        """Count in what was written."""
        self.revised, self.confirmed = written.revised, written.confirmed
        self.to_judge, self.without_outcome = written.to_judge, written.without_outcome
        if written.revised:
            self.state = State.CHANGED
        elif written.confirmed:
            self.state = State.CONFIRMED


@dataclass(slots=True)
class Sides:
    """Mean outcome before and after."""

    before: Mean = NOTHING
    after: Mean = NOTHING

    def as_dict(self) -> dict[str, Any]:
        """``before``, ``after``, each with its n, and the ``change`` of the mean where both are known."""
        old, new = self.before.value, self.after.value
        known = old is not None and new is not None
        return {
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
            "change": rounded(new - old) if known else None,  # type: ignore[operator]
        }


@dataclass(slots=True)
class RegradeReport:
    """``ladder``: name@version that graded; ``unversioned``: changes under one and the same of these.

    ``gate``: whom the skill's gate would catch after it (``memory.gate_outlook``); None when
    no tip's sums moved.
    """

    skill: str
    cause: str
    ladder: str
    dry_run: bool
    batch: str = ""
    runs: list[RunResult] = field(default_factory=list)
    flips: list[Flip] = field(default_factory=list)
    tips_moved: int = 0
    unversioned: int = 0
    gate: dict[str, Any] | None = None
    _categories: defaultdict[str, Sides] = field(default_factory=lambda: defaultdict(Sides))
    _transitions: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    _others: int = 0

    def begin(self, run: Run) -> RunResult:
        """A new entry for *run*."""
        result = RunResult(id=run.pk, external_id=run.external_id)
        self.runs.append(result)
        return result

    def note(self, change: Change) -> None:
        """An attempt that was looked at, whether or not it changed."""
        sides = self._categories[change.category]
        old, new = change.before, change.after
        sides.before += _mean(old.outcome_value)
        sides.after += _mean(new.outcome_value)
        if not change.differs:
            return
        self.unversioned += self.cause == "regrade" and old.outcome_grader == new.outcome_grader
        key = (old.failure_mode, old.outcome_value, new.failure_mode, new.outcome_value)
        if key in self._transitions or len(self._transitions) < TRANSITIONS_AT_MOST:
            self._transitions[key] += 1
        else:
            self._others += 1

    @property
    def revised(self) -> int:
        """Attempts whose outcome is another one."""
        return sum(run.revised for run in self.runs)

    @property
    def confirmed(self) -> int:
        """Attempts with the same outcome under another version."""
        return sum(run.confirmed for run in self.runs)

    @property
    def not_done(self) -> list[RunResult]:
        """Runs for which the exit code speaks."""
        return [run for run in self.runs if run.state in (State.SKIPPED, State.FAILED)]

    def as_dict(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "skill": self.skill,
            "cause": self.cause,
            "ladder": self.ladder,
            "dry_run": self.dry_run,
            "batch": self.batch,
            "attempts": sum(run.attempts for run in self.runs),
            "revised": self.revised,
            "confirmed": self.confirmed,
            "unversioned": self.unversioned,
            "to_judge": sum(run.to_judge for run in self.runs),
            "without_outcome": sum(run.without_outcome for run in self.runs),
            "runs": [asdict(run) for run in self.runs],
            "changes": self.changes(),
            "other_changes": self._others,
            "categories": [
                {"category": name, **self._categories[name].as_dict()}
                for name in sorted(self._categories)
            ],
            "tips_moved": self.tips_moved,
            "tips": [flip.as_dict() for flip in self.flips],
            "gate": self.gate,
        }

    def changes(self) -> list[dict[str, Any]]:
        """Kinds of change with their number of attempts, the most frequent first."""
        names = ("failure_mode_before", "value_before", "failure_mode_after", "value_after")
        counted = sorted(self._transitions.items(), key=lambda one: (-one[1], repr(one[0])))
        return [{**dict(zip(names, key, strict=True)), "attempts": n} for key, n in counted]


def _mean(value: float | None) -> Mean:
    return NOTHING if value is None else Mean(value, 1)
