"""What a kept dream pass says of a run, or of one category in it, and where in the pass it stands.

Guarantees: a figure about a category has the label of that category in that run, and the source of the
category's own entry; one about the whole run the run's. A path leads to the figure itself::

    summary.totals.followed                  a value
    summary.categories.ssh.followed          of the entry that is called so; names as `step` writes them
    summary.categories.*.rules_remediated.n  of each entry: their sum is meant
    summary.tips[flag=misleading]            a list, here of some of its entries: how many are meant

Of several paths to one pass the sum is meant. Reads no rows.

Shaped by: a memo that gave a category's figures as those of the run, with the run's totals for a source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from django.db.models.fields.json import KeyTransform

from scoring.memos import product_labels as label
from scoring.memos.ledger import counts_of, held_by

if TYPE_CHECKING:
    from scoring.memos.facts import Fact
    from scoring.memos.ledger import Ledger
    from scoring.memos.product_labels import Subject


def step(name: str) -> str:
    """Return a name as one step of a path: what would divide it or is not plain to see as ``%XX``."""
    return quote(name, safe=" /:+@").replace(".", "%2E")


def part_of(part: str) -> KeyTransform:
    """A part of a stored summary; the rest of it is not sent."""
    return KeyTransform(part, "summary")


@dataclass(frozen=True, slots=True)
class Scope:
    """What is told of a pass: the run (``names`` as shown: the run), or with ``category`` one category.

    ``key``: of the pass. ``names`` of a category: the category, then the run. ``category`` is its name as
    it is stored.
    """

    key: int
    names: tuple[str, ...]
    category: str | None = None

    def label(self, kind: Subject) -> str:
        """The label of a figure of this kind."""
        return (kind if self.category is None else kind.within).of(*self.names)

    def at(self, path: str) -> str:
        """Where a count of rows stands."""
        return self._held("totals" if self.category is None else self._entry, path)

    def at_rules(self, path: str) -> str:
        """Where a count of rules stands: the totals hold none, the categories do."""
        return self._held("categories.*" if self.category is None else self._entry, path)

    @property
    def _entry(self) -> str:
        return f"categories.{step(self.category or '')}"

    def _held(self, entry: str, path: str) -> str:
        return held_by("dream_passes", self.key, f"summary.{entry}.{path}")


def facts_of_pass(
    ledger: Ledger,
    scope: Scope,
    entry: dict[str, Any],
    hits: int,
    n: int,
    *,
    material: bool = False,
) -> None:
    """Add what a pass says in ``entry``, the totals or a category; ``hits`` of ``n`` rules remediated."""

    def add(kind: Subject, value: int, *sources: str) -> Fact:
        return ledger.count(scope.label(kind), value, *sources)

    part = add(label.REMEDIATED_IN, hits, scope.at_rules("rules_remediated.hits"))
    whole = add(label.RULES_IN, n, scope.at_rules("rules_remediated.n"))
    ledger.share(scope.label(label.REMEDIATED_SHARE_IN), part, whole, material=material)
    counts = counts_of(entry, ("followed", "ignored"))
    followed = add(label.FOLLOWED_IN, counts["followed"], scope.at("followed"))
    answered = add(label.ANSWERED_IN, sum(counts.values()), *map(scope.at, counts))
    ledger.share(scope.label(label.FOLLOW_SHARE_IN), followed, answered, material=material)
    cells = counts_of(entry["quadrants"], ("misleading",))
    add(label.MISLEADING_IN, cells["misleading"], scope.at("quadrants.misleading"))
