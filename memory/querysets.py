"""Reads, by the question they answer. Every method returns a queryset, so questions combine.

Guarantees: superseded revisions never reach credit, audits or the ranker unless asked for by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from django.db import models
from django.db.models import Q

from memory.reasons import STRUCTURAL

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from memory.models import Attempt, Retrieval, Run, Tip


class UnknownRun(LookupError):
    """No run has this key. Never answered with another run."""


class AmbiguousRun(LookupError):
    """Several skills have a run with this external id; name the skill."""


class RunQuerySet(models.QuerySet["Run"]):
    """Which runs?"""

    def current(self) -> Self:
        """Without superseded revisions."""
        return self.filter(superseded_at__isnull=True)

    def open(self) -> Self:
        """Not final yet; served by the partial index run_open_by_age."""
        return self.exclude(status="done")

    def unchanged_since(self, moment: datetime) -> Self:
        """Whose state last changed before *moment*."""
        return self.filter(state_changed_at__lt=moment)

    def named(self, key: str, *, skill: str | None = None) -> Run:
        """The run whose external id or primary key is *key*; the external id is tried first.

        Raises:
            UnknownRun: there is none.
            AmbiguousRun: several skills use the external id and *skill* was not given.
        """
        candidates = self.filter(skill=skill) if skill else self
        found = list(candidates.current().filter(external_id=key)[:2])
        if len(found) > 1:
            msg = f"several skills have a run {key!r}: name one with --skill"
            raise AmbiguousRun(msg)
        if not found and key.isascii() and key.isdigit() and len(key) < 19:
            found = list(candidates.filter(pk=int(key)))
        if not found:
            where = f" of skill {skill!r}" if skill else ""
            msg = f"no run{where} has the external id or primary key {key!r}"
            raise UnknownRun(msg)
        return found[0]


class TipQuerySet(models.QuerySet["Tip"]):
    """Which tips?"""

    def active(self) -> Self:
        """Not retired."""
        return self.filter(retired_at__isnull=True)


class AttemptQuerySet(models.QuerySet["Attempt"]):
    """Which attempts?"""

    def judgeable(self) -> Self:
        """With a whole script."""
        return self.filter(script__isnull=False, script_truncated=False)


class RetrievalQuerySet(models.QuerySet["Retrieval"]):
    """Which retrievals?"""

    def counted(self) -> Self:
        """Rows of current revisions: the ones that credit may read."""
        return self.filter(superseded=False)

    def with_outcome(self) -> Self:
        """Graded rows."""
        return self.filter(outcome_value__isnull=False, outcome_confidence__isnull=False)

    def scorable(self) -> Self:
        """Shown, and with a whole script: a signal can be computed."""
        structural = [str(reason) for reason in STRUCTURAL]
        return self.exclude(trace_reason__in=structural)

    def llm_pending(self) -> Self:
        """The judge has not answered and no reason says why not."""
        return self.filter(tip_followed_llm__isnull=True, llm_reason="")

    def emb_pending(self) -> Self:
        """Not embedded, and no reason says why not."""
        return self.filter(tip_followed_emb__isnull=True, emb_reason="")

    def trace_pending(self) -> Self:
        """Not traced, and no reason says why not."""
        return self.filter(tip_followed_trace__isnull=True, trace_reason="")

    def retry_due(self, now: datetime) -> Self:
        """Failed judge calls whose next try is due; served by retrieval_judge_retry_due."""
        return self.filter(llm_retry_at__lte=now)

    def of_runs(self, runs: Iterable[int]) -> Self:
        """Rows of these runs."""
        return self.filter(Q(run_id__in=list(runs)))
