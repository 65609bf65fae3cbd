"""Tips of one skill: get or create, in batches, first text kept.

Guarantees: a tip that a document names has exactly one row afterwards, with the first text that was
ever sent for it; a tip that was only retrieved gets a row without text, filled when its text arrives.
The text that the run at hand has for a tip is known until the run ends, stored or not. Memory holds an
id, a key and a digest for each distinct tip; texts that differ from the stored ones wait on disk.

Does not guarantee safety against a second writer: ingest.py holds the lock of the skill, and the tips
that get a text.

Shaped by: one tip id with two texts in one log, where the later one silently replaced what the agent
had been shown; and one id with two texts in two runs, where the second run got the first one's.
"""

from __future__ import annotations

import hashlib
import math
from decimal import Decimal
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, Final, Self

from memory.duplicates import words_sha256
from memory.models import Tip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from contextgraph.envelope import TipEntry

IN_MEMORY: Final = 4 * 1024 * 1024
"""Bytes of differing texts that are held before they go to disk."""
IDS_AT_ONCE: Final = 1_000
"""Tips that the database is asked about in one query."""


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


def without_text(skill: str, tips: Iterable[str]) -> list[int]:
    """Primary keys of those of *tips* that have a row and no text."""
    empty = Tip.objects.filter(skill=skill, text_sha256="")
    named, found = iter(tips), list[int]()
    while part := list(islice(named, IDS_AT_ONCE)):
        found += empty.filter(external_id__in=part).values_list("pk", flat=True)
    return found


class OwnTexts:
    """What the tips of one run say where the stored tips say something else. First text kept."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by close()
        self._places: dict[str, tuple[int, int] | None] = {}

    def note(self, tip: str, text: str, *, differs: bool) -> None:
        """The run describes *tip*; kept unless the run described it before."""
        if tip in self._places:
            return
        if not differs:
            self._places[tip] = None
            return
        start = self._file.seek(0, 2)
        self._places[tip] = (start, self._file.write(text.encode()))

    def describes(self, tip: str) -> bool:
        """Whether the run has said by now what *tip* says."""
        return tip in self._places

    def text(self, tip: str) -> str | None:
        """The run's own text; None when the stored one is as good."""
        place = self._places.get(tip)
        if place is None:
            return None
        self._file.seek(place[0])
        return self._file.read(place[1]).decode()

    def clear(self) -> None:
        """Forget the run."""
        self._places.clear()
        self._file.seek(0)
        self._file.truncate()

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()


class TipBook:
    """The tips of one skill that a document has named so far: id -> (primary key, text digest).

    A context manager. ``own`` and ``filled`` (primary keys of tips that had a row, but no text) are
    those of the run at hand.
    """

    def __init__(self, skill: str) -> None:
        self.skill = skill
        self.own = OwnTexts()
        self.filled: set[int] = set()
        self._known: dict[str, tuple[int, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.own.close()

    def begin_run(self) -> None:
        """What an earlier run of the document said about a tip is no longer what this one says."""
        self.own.clear()
        self.filled.clear()

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
        """Fill an empty text, note what the run says; True when the stored text is another one."""
        pk, stored = self._known[entry.tip]
        sha = sha256_of(entry.text)
        if not stored:
            row = self._row(entry)
            fields = [f.name for f in Tip._meta.concrete_fields if f.name not in _TIP_KEPT]
            Tip.objects.filter(pk=pk).update(**{name: getattr(row, name) for name in fields})
            self._known[entry.tip] = (pk, sha)
            self.filled.add(pk)
        differs = stored not in ("", sha)
        self.own.note(entry.tip, entry.text, differs=differs)
        return differs

    def _row(self, entry: TipEntry) -> Tip:
        return Tip(
            skill=self.skill,
            external_id=entry.tip,
            text=entry.text,
            text_sha256=sha256_of(entry.text),
            words_sha256=words_sha256(entry.text),
            tip_type=entry.tip_type,
            category=entry.category,
            mechanism=entry.mechanism,
            source_rule_id=entry.source_rule_id,
            source_run_id=entry.source_run_id,
            outcome_at_source_value=entry.outcome_at_source_value,
            outcome_at_source_confidence=entry.outcome_at_source_confidence,
            environment_tag=entry.environment_tag,
            scope=entry.scope,
            extra=storable_json(entry.extra),
            text_repaired=entry.text_repaired,
        )


_TIP_KEPT = {
    "id", "skill", "external_id", "created_at", "protected", "holdout_exempt", "rule_family",
    "retired_at", "retired_reason", "retired_sweep",
}  # fmt: skip
"""What a late text does not touch: identity, what people and sweeps decided, what is computed."""
