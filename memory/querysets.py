"""Reads, by the question they answer. Every method returns a queryset, so questions combine.

Guarantees: superseded revisions never reach credit, audits or the ranker unless asked for by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from django.db import models

if TYPE_CHECKING:
    from datetime import datetime

    from memory.models import Retrieval, Run, Tip


class UnknownRun(LookupError):
    """No run has this key. Never answered with another run."""


class AmbiguousRun(LookupError):
    """Several skills have a run with this external id; name the skill."""


def can_be_stored(text: str) -> bool:
    """Whether the database can hold *text*: an argument that is not UTF-8 comes with lone surrogates.

    Asking for one that it cannot hold is an error of the driver, and it cannot be there.
    """
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


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
        candidates = self if skill is None else self.filter(skill=skill)
        if not can_be_stored(f"{key}{skill}"):
            candidates = self.none()
        found = list(candidates.current().filter(external_id=key)[:2])
        if len(found) > 1:
            msg = f"several skills have a run {key!r}: name one with --skill"
            raise AmbiguousRun(msg)
        if not found and key.isascii() and key.isdigit() and len(key) < 19:
            found = list(candidates.filter(pk=int(key)))
        if not found:
            where = "" if skill is None else f" of skill {skill!r}"
            msg = f"no run{where} has the external id or primary key {key!r}"
            raise UnknownRun(msg)
        return found[0]


class TipQuerySet(models.QuerySet["Tip"]):
    """Which tips?"""

    def active(self) -> Self:
        """Not retired."""
        return self.filter(retired_at__isnull=True)


class RetrievalQuerySet(models.QuerySet["Retrieval"]):
    """Which retrievals?"""

    def counted(self) -> Self:
        """Rows of current revisions: the ones that credit may read."""
        return self.filter(superseded=False)

    def llm_pending(self) -> Self:
        """The judge has not answered and no reason says why not."""
        return self.filter(tip_followed_llm__isnull=True, llm_reason="")

    def emb_pending(self) -> Self:
        """Not embedded, and no reason says why not."""
        return self.filter(tip_followed_emb__isnull=True, emb_reason="")

    def trace_pending(self) -> Self:
        """Not traced, and no reason says why not."""
        return self.filter(tip_followed_trace__isnull=True, trace_reason="")
