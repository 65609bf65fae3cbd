"""What a memo says about a category: its last run, what changed since the one before, who misleads in it.

Guarantees: as ``writer_run``: nothing that a fact does not hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scoring.memos import product_labels as label
from scoring.memos.writer_parts import Paragraph, Sentence, Told
from scoring.memos.writer_run import changed, quoting

if TYPE_CHECKING:
    from scoring.memos.product_labels import Subject


def about_category(told: Told) -> list[Paragraph]:
    """Return the paragraphs."""
    places = told.names(label.MISLEADING_IN.within)
    paragraphs = []
    if places:
        shares = (label.REMEDIATED_SHARE_IN, label.FOLLOW_SHARE_IN)
        first = [_shares(told, places[0], kind) for kind in shares]
        paragraphs.append(Paragraph("", (*first, _misleading(told, places[0]))))
    if len(places) > 1:
        paragraphs.append(Paragraph("What changed", _since(told, *places[1])))
    tips = told.names(label.INTO_FAILURE.within)
    said = [part for tip in tips for part in (_followed_into(told, *tip), quoting(told, tip[0]))]
    paragraphs.append(Paragraph("Which tips mislead in it", tuple(said)))
    return paragraphs


def _since(told: Told, category: str, before: str) -> tuple[Sentence, ...]:
    """What changed since the run ``before``, and how it was then."""
    changes = (label.REMEDIATED_CHANGE_IN, label.FOLLOW_CHANGE_IN)
    return (
        *(changed(told, kind.of(category), before) for kind in changes),
        _shares(told, (category, before), label.REMEDIATED_SHARE_IN),
        _misleading(told, (category, before)),
    )


def _shares(told: Told, place: tuple[str, ...], kind: Subject) -> Sentence:
    share = kind.within.of(*place)
    return told.say(f"The {share} is {told.figure(share)}.", of=(share,))


def _misleading(told: Told, place: tuple[str, ...]) -> Sentence:
    count = label.MISLEADING_IN.within.of(*place)
    return told.say(f"There were {told.counted(count)}.", of=(count,))


def _followed_into(told: Told, name: str, category: str) -> Sentence:
    """Into what a tip was followed in the category, in all runs."""
    bad = label.INTO_FAILURE.within.of(name, category)
    good = label.INTO_SUCCESS.within.of(name, category)
    return told.say(
        f"In `{category}`, `{name}` was followed into a failure {told.times(bad)} and into a success "
        f"{told.times(good)}.",
        of=(bad, good),
    )
