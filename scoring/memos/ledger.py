"""Gathers the facts of one snapshot: counts, shares, scores and names, each with where it is from.

Guarantees: a share is derived from two counts that are facts themselves, and is left out where there is
nothing to divide by; a value that is not known is left out too, so that no memo has to speak of it; a
fact that is given twice is kept once. Floats become the decimals that their shortest text names. Pure.

Provenance is ``table:key#path`` for a value that a row holds, ``table?column=value&…`` for the rows that
were counted, values encoded as in an address. Who shows a fact makes links of them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from scoring.memos.facts import MAX_FACTS, Fact, Snapshot, derived, fact
from scoring.memos.facts_formula import Formula

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

MAX_COUNT: Final = 10**15


def held_by(table: str, key: int, path: str = "") -> str:
    """Return the provenance of a value that one row holds."""
    return f"{table}:{key}#{path}" if path else f"{table}:{key}"


def rows_of(table: str, **columns: object) -> str:
    """Return the provenance of a count: which rows were counted. Names of senders may hold anything."""
    return f"{table}?{urlencode(columns, safe='/:', quote_via=quote)}"


class Ledger:
    """The facts so far, by their labels."""

    def __init__(self) -> None:
        self._facts: dict[str, Fact] = {}

    def get(self, label: str) -> Fact | None:
        """Return the fact of this label, None if there is none."""
        return self._facts.get(label)

    def count(self, label: str, value: int, *sources: str, material: bool = False) -> Fact:
        """Add a number of things."""
        return self._add(fact(label, "count", value, material=material, provenance=sources))

    def score(
        self, label: str, value: float | None, *sources: str, material: bool = False
    ) -> Fact | None:
        """Add a number on a scale of its own; None adds nothing."""
        if value is None:
            return None
        number = Decimal(repr(round(float(value), 6)))
        return self._add(fact(label, "score", number, material=material, provenance=sources))

    def name(self, label: str, value: str, *sources: str, material: bool = False) -> Fact | None:
        """Add a name or a quoted text; an empty one adds nothing."""
        if not value:
            return None
        return self._add(fact(label, "name", value, material=material, provenance=sources))

    def day(self, label: str, value: date | None, *sources: str) -> Fact | None:
        """Add a day; None adds nothing."""
        if value is None:
            return None
        return self._add(fact(label, "date", value, provenance=sources))

    def total(self, label: str, *parts: Fact, material: bool = False) -> Fact:
        """Add the sum of ``parts``, two or more."""
        return self._add(derived(label, "count", Formula.SUM, parts, material=material))

    def share(self, label: str, part: Fact, whole: Fact, *, material: bool = False) -> Fact | None:
        """Add ``part`` in percent of ``whole``, unless that is zero."""
        if not whole.number:
            return None
        made = derived(label, "percent", Formula.PERCENT_OF, (part, whole), material=material)
        return self._add(made)

    def change(
        self, label: str, now: Fact | None, before: Fact | None, *, material: bool = False
    ) -> Fact | None:
        """Add ``now`` less ``before``, if both are known; of two percents it is in points."""
        if now is None or before is None:
            return None
        unit = "points" if now.unit == "percent" else now.unit
        made = derived(label, unit, Formula.DIFFERENCE, (now, before), material=material)
        return self._add(made)

    def snapshot(self, product: str, identifier: str, as_of: date | None) -> Snapshot:
        """Return what was gathered."""
        return Snapshot(product, identifier, as_of, tuple(self._facts.values()))

    @property
    def has_room(self) -> bool:
        """Whether a few more facts may be added."""
        return len(self._facts) < MAX_FACTS - 20

    def _add(self, item: Fact) -> Fact:
        return self._facts.setdefault(item.label, item)


def counts_of(entry: Mapping[str, object], names: Sequence[str]) -> dict[str, int]:
    """Return these whole numbers of a summary's entry; one that is missing is 0."""
    found = {name: entry.get(name, 0) for name in names}
    return {name: value if isinstance(value, int) else 0 for name, value in found.items()}
