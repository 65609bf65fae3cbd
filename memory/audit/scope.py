"""Which rows an audit is about. Every section reads through one Scope, so that all filter alike.

Guarantees: superseded revisions are never counted; naming a run of another skill, a superseded one,
or a skill that nothing is stored about is an error and not an empty report. Does not hold dates or
categories: a run or a skill is the unit that credit is kept apart by.

Shaped by: report sections of which some honoured the chosen run and some silently counted all runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Exists, OuterRef

from memory.models import Attempt, Retrieval, Run, Tip
from memory.querysets import can_be_stored

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from memory.querysets import RetrievalQuerySet, RunQuerySet, TipQuerySet


SKILLS_NAMED: Final = 20
"""Skills that a message lists at most."""


class ScopeError(ValueError):
    """The rows asked for cannot be audited; says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """One run, one skill, or everything."""

    skill: str | None = None
    run: Run | None = None

    def __post_init__(self) -> None:
        if self.run is None:
            return
        if self.skill is not None and self.skill != self.run.skill:
            msg = f"run {self.run.external_id!r} is of skill {self.run.skill!r}, not {self.skill!r}"
            raise ScopeError(msg)
        if self.run.superseded_at is not None:
            msg = (
                f"run {self.run.external_id!r} (revision {self.run.revision}) was superseded by a "
                "later revision: audit that one, by its external id"
            )
            raise ScopeError(msg)

    def require_known_skill(self) -> None:
        """Raise ScopeError, naming the skills there are, when nothing is stored about this one."""
        if self.skill is None:
            return
        if can_be_stored(self.skill) and any(
            model.objects.filter(skill=self.skill).exists() for model in (Run, Tip)
        ):
            return
        skills = (
            Run.objects.order_by().values("skill").union(Tip.objects.order_by().values("skill"))
        )
        names = [row["skill"] for row in skills.order_by("skill")[: SKILLS_NAMED + 1]]
        there = ", ".join(map(repr, names[:SKILLS_NAMED])) or "none, nothing is stored yet"
        more = ", and more" if len(names) > SKILLS_NAMED else ""
        msg = f"nothing is stored about a skill {self.skill!r}; there are: {there}{more}"
        raise ScopeError(msg)

    def retrievals(self) -> RetrievalQuerySet:
        """Counted retrievals, in no order."""
        return Retrieval.objects.counted().filter(**self._filters("run")).order_by()

    def attempts(self) -> QuerySet[Attempt]:
        """Attempts of current revisions, in no order."""
        current = Attempt.objects.filter(run__superseded_at__isnull=True)
        return current.filter(**self._filters("run")).order_by()

    def runs(self) -> RunQuerySet:
        """Current revisions, latest first."""
        return Run.objects.current().filter(**self._filters("pk")).order_by("-started_at", "-pk")

    def tips(self) -> TipQuerySet:
        """Tips of the skill; with a run, those that were retrieved in it."""
        if self.run is None:
            return Tip.objects.filter(**self._filters("run")).order_by()
        used = Retrieval.objects.filter(run=self.run, tip=OuterRef("pk"))
        return Tip.objects.filter(Exists(used), skill=self.run.skill).order_by()

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the head of a report."""
        run = self.run
        return {
            "skill": run.skill if run else self.skill,
            "run": {"id": run.pk, "external_id": run.external_id} if run else None,
        }

    def _filters(self, run_field: str) -> dict[str, Any]:
        if self.run is not None:
            return {run_field: self.run.pk}
        return {} if self.skill is None else {"skill": self.skill}
