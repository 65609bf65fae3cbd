"""Tips of one skill: get or create, in batches, first text kept.

Guarantees: a tip that a document names has exactly one row afterwards, with the first text that was
ever sent for it; a tip that was only retrieved gets a row without text, filled when its text arrives.
Memory holds an id, a key and a digest for each distinct tip, never a text.

Does not guarantee safety against a second writer: ingest.py holds the lock of the skill.

Shaped by: one tip id with two texts in one log, where the later one silently replaced what the agent
had been shown.
"""

from __future__ import annotations

import hashlib
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from memory.models import Tip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from contextgraph.envelope import TipEntry


def sha256_of(text: str) -> str:
    """64 hex digits, or "" for an empty text."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def storable_json(value: Any) -> Any:
    """*value* with numbers that jsonb cannot hold (NaN, infinities) as text, Decimals as floats."""
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): storable_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable_json(item) for item in value]
    return value


class TipBook:
    """The tips of one skill that a document has named so far: id -> (primary key, text digest)."""

    def __init__(self, skill: str) -> None:
        self.skill = skill
        self._known: dict[str, tuple[int, str]] = {}

    def describe(self, entries: Sequence[TipEntry]) -> int:
        """Store tips with their text; returns how many stand there with another text already."""
        first: dict[str, TipEntry] = {}
        changed = 0
        for entry in entries:
            earlier = first.setdefault(entry.tip, entry)
            if not earlier.text:
                first[entry.tip] = entry
            elif entry.text and entry.text != earlier.text:
                changed += 1
        self._insert([self._row(e) for t, e in first.items() if t not in self._known])
        self._load(first)
        return changed + sum(self._settle(entry) for entry in first.values() if entry.text)

    def keys_of(self, tips: Iterable[str]) -> dict[str, int]:
        """Primary keys, making a row without text for a tip that was never described."""
        wanted = set(tips)
        self._insert([Tip(skill=self.skill, external_id=t) for t in wanted - self._known.keys()])
        self._load(wanted)
        return {tip: self._known[tip][0] for tip in wanted}

    def _insert(self, rows: list[Tip]) -> None:
        rows.sort(key=lambda row: row.external_id)
        Tip.objects.bulk_create(rows, ignore_conflicts=True)

    def _load(self, tips: Iterable[str]) -> None:
        missing = [tip for tip in tips if tip not in self._known]
        if missing:
            found = Tip.objects.filter(skill=self.skill, external_id__in=missing)
            for external_id, pk, sha in found.values_list("external_id", "pk", "text_sha256"):
                self._known[external_id] = (pk, sha)

    def _settle(self, entry: TipEntry) -> bool:
        """Fill an empty text; True when the stored text is another one."""
        pk, stored = self._known[entry.tip]
        sha = sha256_of(entry.text)
        if not stored:
            row = self._row(entry)
            fields = [f.name for f in Tip._meta.concrete_fields if f.name not in _TIP_KEPT]
            Tip.objects.filter(pk=pk).update(**{name: getattr(row, name) for name in fields})
            self._known[entry.tip] = (pk, sha)
        return stored not in ("", sha)

    def _row(self, entry: TipEntry) -> Tip:
        return Tip(
            skill=self.skill,
            external_id=entry.tip,
            text=entry.text,
            text_sha256=sha256_of(entry.text),
            tip_type=entry.tip_type,
            category=entry.category,
            mechanism=entry.mechanism,
            source_rule_id=entry.source_rule_id,
            source_run_id=entry.source_run_id,
            outcome_at_source_value=entry.outcome_at_source_value,
            outcome_at_source_confidence=entry.outcome_at_source_confidence,
            environment_tag=entry.environment_tag,
            extra=storable_json(entry.extra),
            text_repaired=entry.text_repaired,
        )


_TIP_KEPT = {"id", "skill", "external_id", "created_at", "retired_at", "retired_reason"}
"""What a late text does not touch."""
