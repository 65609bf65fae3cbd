"""Writes a memo without a model: sentences chosen by the facts, in plain English for a reviewer.

Guarantees: `write` is deterministic; what it returns passes the gate on the snapshot it was written
from, and tells every material fact that a memo has room for. Each sentence has a plainer one to fall
back on (``label: figure``), and what the gate refuses even then is left out: nothing that could be read
as a lie is shown. Mode human is prose with what matters, mode agent one line for each fact.

It draws no conclusion that the facts do not hold, and knows no more English than its templates.
Source: issue 5 (item 4): without a model the product still has a report.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scoring.memos.completeness import completeness
from scoring.memos.gate import MAX_CHARS, check
from scoring.memos.writer_category import about_category
from scoring.memos.writer_parts import Paragraph, Sentence, Told
from scoring.memos.writer_run import about_run
from scoring.memos.writer_tip import about_tip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scoring.memos.facts import Snapshot
    from scoring.memos.gate_report import GateReport

    Teller = Callable[[Told], list[Paragraph]]

logger = logging.getLogger(__name__)

WRITER_VERSION: Final = "writer-2"
"""Counted up when the templates change: part of every key under which a memo is kept."""
TELLERS: Final[dict[str, Teller]] = {
    "run": about_run,
    "tip": about_tip,
    "category": about_category,
}
SPARE_CHARS: Final = 1_000
"""For headings."""
LISTED_FOR_HUMANS: Final = 40
"""Facts of a product without sentences of its own that prose lists; an agent gets them all."""


def write(snapshot: Snapshot, *, mode: str) -> str:
    """Return the memo; ``mode`` is human or agent. Raises ValueError on another mode."""
    if mode not in {"human", "agent"}:
        raise ValueError(f"mode is human or agent, not {mode!r}")
    told = Told(snapshot)
    if not snapshot.facts:
        return f"{told.heading}\n\nNothing is known yet.\n"
    tell = TELLERS.get(snapshot.product) if mode == "human" else None
    paragraphs = tell(told) if tell is not None else []
    if not any(sentence.labels for part in paragraphs for sentence in part.sentences):
        paragraphs = _listed(told, mode)
    text, report = _settled(told, paragraphs)
    missing = completeness(report, snapshot).material_omissions
    if missing:
        room = MAX_CHARS - len(text) - SPARE_CHARS
        also = _fitting(told.lines(item.label for item in missing), room)
        paragraphs = [*paragraphs, Paragraph("Also counted", also)]
        text, report = _settled(told, paragraphs)
    return text


def _listed(told: Told, mode: str) -> list[Paragraph]:
    """A line for each fact, the material ones first."""
    facts = sorted(told.snapshot.by_citation.values(), key=lambda item: not item.is_material)
    labels = [item.label for item in facts]
    if mode == "human":
        material = sum(item.is_material for item in facts)
        labels = labels[: max(material, LISTED_FOR_HUMANS)]
    return [Paragraph("", _fitting(told.lines(labels), MAX_CHARS - SPARE_CHARS))]


def _fitting(lines: Sequence[Sentence], room: int) -> tuple[Sentence, ...]:
    """The first lines that fit into so many characters."""
    kept = []
    for line in lines:
        room -= len(line.lines) + 1
        if room < 0:
            break
        kept.append(line)
    return tuple(kept)


def _settled(told: Told, paragraphs: Sequence[Paragraph]) -> tuple[str, GateReport]:
    """Return the text in which each sentence is the best one that the gate lets pass.

    A sentence that is refused gives way to its next form, and in the end to nothing; that comes to an
    end, because no sentence ever goes back.
    """
    sentences = [sentence for paragraph in paragraphs for sentence in paragraph.sentences]
    form = dict.fromkeys(range(len(sentences)), 0)
    while True:
        text, places = _assembled(told, paragraphs, form)
        report = check(text, told.snapshot)
        refused = {
            number
            for number, (start, end) in places.items()
            if any(start <= finding.start < end for finding in report.findings)
        }
        if report.passed or not places:
            return text, report
        for number in refused or places:
            form[number] += 1
            _log_dropped(told, sentences[number], form[number])


def _assembled(
    told: Told, paragraphs: Sequence[Paragraph], form: dict[int, int]
) -> tuple[str, dict[int, tuple[int, int]]]:
    """Return the text, and where each sentence stands in it."""
    text, number = told.heading + "\n", 0
    places: dict[int, tuple[int, int]] = {}
    for paragraph in paragraphs:
        begun = False
        for sentence in paragraph.sentences:
            said = sentence.form(form[number])
            if said:
                if not begun:
                    text += f"\n## {paragraph.title}\n\n" if paragraph.title else "\n"
                text += _joint(text) if begun and not said.startswith("- ") else ""
                text += "\n" if begun and said.startswith("- ") and not text.endswith("\n") else ""
                places[number] = (len(text), len(text) + len(said))
                text, begun = text + said, True
            number += 1
        text += "\n" if begun else ""
    return text, places


def _joint(text: str) -> str:
    """What stands between a sentence and the one before: a list is closed by an empty line."""
    last = text.rpartition("\n")[2]
    return "\n\n" if last.startswith("- ") else " "


def _log_dropped(told: Told, sentence: Sentence, form: int) -> None:
    if form == sentence.forms:
        logger.warning(
            "memo.sentence_left_out",
            extra={"product": told.snapshot.product, "facts": len(sentence.labels)},
        )
