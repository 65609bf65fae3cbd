"""What a memo says about a category: its last run, what changed since the one before, who misleads in it.

Guarantees: as ``writer_run``: nothing that a fact does not hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scoring.memos import product_labels as label
from scoring.memos.writer_parts import Paragraph, Sentence, Told
from scoring.memos.writer_run import changed, followed_into, quoting

if TYPE_CHECKING:
    from scoring.memos.product_labels import Subject


def about_category(told: Told) -> list[Paragraph]:
    """Return the paragraphs."""
    now, before = _runs(told)
    first = [
        _shares(told, now, kind) for kind in (label.REMEDIATED_SHARE_IN, label.FOLLOW_SHARE_IN)
    ]
    paragraphs = [Paragraph("", (*first, _misleading(told, now)))]
    if before:
        changes = (label.REMEDIATED_CHANGE, label.FOLLOW_CHANGE)
        paragraphs.append(
            Paragraph(
                "What changed",
                (
                    *(changed(told, name, before) for name in changes),
                    _shares(told, before, label.REMEDIATED_SHARE_IN),
                    _misleading(told, before),
                ),
            )
        )
    tips = [names[0] for names in told.names(label.INTO_FAILURE)]
    said = [part for name in tips for part in (followed_into(told, name), quoting(told, name))]
    paragraphs.append(Paragraph("Which tips mislead in it", tuple(said)))
    return paragraphs


def _runs(told: Told) -> tuple[str, str]:
    """The run that is told, whose share is material, and the one before it ("" if there is none)."""
    names = [found[0] for found in told.names(label.MISLEADING_IN)]
    return (names[0], names[1] if len(names) > 1 else "") if names else ("", "")


def _shares(told: Told, run: str, kind: Subject) -> Sentence:
    share = kind.of(run)
    return told.say(f"The {share} is {told.figure(share)}.", of=(share,))


def _misleading(told: Told, run: str) -> Sentence:
    count = label.MISLEADING_IN.of(run)
    return told.say(f"There were {told.counted(count)}.", of=(count,))
