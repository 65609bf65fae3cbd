"""Which tips did the agent really see? Retrieval lists of the prompt event -> retrieval entries.

Guarantees: ``shown`` is False whenever the log says, or leaves open, that the tips' section did not reach
the prompt; ``shown_text`` is what the agent saw, shortened as the prompt shortens it. Per tip, memory
holds a prefix and a hash, never the text.

Does not guarantee: a shown text for tips that the log does not hold: ``shown_chars`` then says how much
of the stored tip was shown.

Shaped by: rows inserted at retrieval, before the prompt was fitted to its token budget: tips were
credited that no model ever saw, and judged on text of which only the first 150 characters were shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contextgraph.envelope import RetrievalEntry, TipEntry, storable, validate
from contextgraph.runlogs.fields import MAX_COUNT, Fields
from contextgraph.runlogs.hazards import Hazard
from contextgraph.runlogs.scripts import sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from contextgraph.runlogs.side_file import SideFile

    Note = Callable[[Hazard], None]

PROMPT_CUT = 150
"""Characters of a tip that the upstream prompt shows."""

TIPS_SECTION = "similar_rule_tips"
"""Name of the prompt section that holds the tips."""


@dataclass(frozen=True, slots=True)
class KnownTip:
    """Enough of a tip's text to say what was shown of it."""

    prefix: str
    length: int
    sha256: str

    @classmethod
    def of(cls, text: str) -> KnownTip:
        """Remember *text*."""
        return cls(text[:PROMPT_CUT], len(text), sha256_of(text))


class TipLedger:
    """The tips of one run, by the sender's id."""

    def __init__(self, side_file: SideFile | None) -> None:
        self._side_file = side_file
        self._known: dict[str, KnownTip] = {}
        self.shows_whole = False
        """A tip longer than PROMPT_CUT was shown whole: this sender's prompt does not cut there."""

    def added(self, data: dict[str, Any], note: Note) -> TipEntry | None:
        """Record a ``tip_added`` event; return the entry unless the tip is already recorded."""
        fields = Fields(data, note)
        tip, text = fields.key("tip_id", "tip"), storable(fields.text("text"))
        if not tip:
            note(Hazard.ORPHAN_EVENT)
            return None
        known, new = self._known.get(tip), KnownTip.of(text)
        if known is not None:
            if known.sha256 != new.sha256:
                note(Hazard.TIP_TEXT_CHANGED)
            return None
        self._known[tip] = new
        if not text:
            note(Hazard.TIP_WITHOUT_TEXT)
        return _tip_entry(tip, text, fields)

    def from_side_file(self, tip: str, note: Note) -> TipEntry | None:
        """The side file's entry for a tip that the log has not recorded, once."""
        if tip in self._known or self._side_file is None:
            return None
        entry = self._side_file.tip(tip)
        return None if entry is None else self.added(entry, note)

    def known(self, tip: str) -> KnownTip | None:
        """What is known of a tip's text; None when the log has not recorded it."""
        return self._known.get(tip)


def _tip_entry(tip: str, text: str, fields: Fields) -> TipEntry:
    entry: dict[str, Any] = {
        "tip": tip,
        "text": text,
        "tip_type": fields.word("tip_type"),
        "category": fields.word("category"),
        "mechanism": fields.text("mechanism"),
        "source_rule_id": fields.key("source_rule_id", "rule_id"),
        "source_run_id": fields.key("source_run_id"),
        "outcome_at_source_value": fields.real("outcome_at_source_value", low=-1.0, high=1.0),
        "outcome_at_source_confidence": fields.real(
            "outcome_at_source_confidence", low=0.0, high=1.0
        ),
        "environment_tag": fields.word("environment_tag"),
    }
    return validate(TipEntry, fields.rest(TipEntry) | entry)


@dataclass(frozen=True, slots=True)
class PromptEvent:
    """The retrieval list of one prompt, and the fate of the section that shows it."""

    entries: list[Any]
    section_hazard: Hazard | None
    at: datetime | None

    @classmethod
    def of(cls, fields: Fields, at: datetime | None, note: Note) -> PromptEvent:
        """Read a ``prompt_assembled`` event of the worker."""
        entries = fields.items("v2_tips_loaded")
        if entries is None:
            note(Hazard.RETRIEVALS_NOT_LOGGED)
        hazard = _section_hazard(fields) if entries else None
        if hazard is not None:
            note(hazard)
        return cls(entries or [], hazard, at)

    def tips(self) -> Iterator[str]:
        """Usable tip ids of the list, as written, duplicates included."""
        for entry in self.entries:
            if isinstance(entry, dict) and (tip := Fields(entry, _silent).key("tip_id", "tip")):
                yield tip


def _section_hazard(fields: Fields) -> Hazard | None:
    included, truncated, dropped = (
        fields.items(f"sections_{fate}") or [] for fate in ("included", "truncated", "dropped")
    )
    if TIPS_SECTION in truncated:
        return Hazard.TIPS_SECTION_TRUNCATED
    if TIPS_SECTION in dropped or (included and TIPS_SECTION not in included):
        return Hazard.TIPS_DROPPED
    return None


def retrievals(prompt: PromptEvent, ledger: TipLedger, note: Note) -> list[RetrievalEntry]:
    """Turn the list of a prompt into entries: one per tip, first place kept."""
    found: dict[str, RetrievalEntry] = {}
    for position, item in enumerate(prompt.entries, start=1):
        if not isinstance(item, dict):
            note(Hazard.BAD_FIELD)
            continue
        fields = Fields(item, note)
        tip = fields.key("tip_id", "tip")
        if not tip:
            note(Hazard.ORPHAN_EVENT)
        elif tip in found:
            note(Hazard.TIP_REPEATED)
        else:
            rank = fields.count("rank") or min(position, MAX_COUNT)
            found[tip] = _retrieval(tip, rank, fields, prompt, ledger, note)
    return list(found.values())


def _retrieval(
    tip: str, rank: int, fields: Fields, prompt: PromptEvent, ledger: TipLedger, note: Note
) -> RetrievalEntry:
    withheld, said = fields.flag("withheld") is True, fields.flag("shown")
    if withheld and said:
        note(Hazard.WITHHELD_BUT_SHOWN)
    shown = not withheld and (prompt.section_hazard is None if said is None else said)
    text = storable(fields.text("text", "shown_text")) or None
    said_cut = fields.flag("shown_cut") is True
    entry: dict[str, Any] = {
        "tip": tip,
        "rank": rank,
        "similarity": fields.real("similarity_score", "similarity"),
        "shown": shown,
        "withheld": withheld,
        "propensity": fields.real("propensity", low=0.0, high=1.0, open_low=True) or 1.0,
        "retrieved_at": prompt.at,
    }
    exposure = _exposure(text, said_cut, tip, ledger, note) if shown else {}
    return validate(RetrievalEntry, fields.rest(RetrievalEntry) | entry | exposure)


def _exposure(
    text: str | None,
    said_cut: bool,  # noqa: FBT001 - one fact of four, all positional
    tip: str,
    ledger: TipLedger,
    note: Note,
) -> dict[str, Any]:
    """What was seen of a shown tip: its text if the log has it, else what the sender's prompt shows."""
    known = ledger.known(tip)
    if text is not None:
        cut = said_cut
        if known is not None and sha256_of(text) != known.sha256:
            seen = text.rstrip(".…")[:PROMPT_CUT]
            shortened = len(text) < known.length and known.prefix.startswith(seen)
            note(Hazard.TIP_SHOWN_CUT if shortened else Hazard.SHOWN_TEXT_DIFFERS)
            cut = cut or shortened
        elif len(text) > PROMPT_CUT:
            ledger.shows_whole = True
        return {"shown_text": text, "shown_cut": cut}
    if ledger.shows_whole:
        if known is None:
            note(Hazard.TIP_TEXT_UNKNOWN)
        return {}  # the tip's own text, whole
    if known is None:
        note(Hazard.TIP_TEXT_UNKNOWN)
        return {"shown_chars": PROMPT_CUT}
    cut = known.length > PROMPT_CUT
    if cut:
        note(Hazard.TIP_SHOWN_CUT)
    return {"shown_text": known.prefix, "shown_cut": cut}


def _silent(hazard: Hazard) -> None:
    """The same list is read again, and counted, when the attempt is closed."""
