"""Words of direction that stand with a citation and no figure: "is up [F5]", "went down [F5]".

Guarantees: beside the citation of a change, every word of comparison that can speak of it is read as a
direction; beside the citation of a level, those that say that it rose, fell or is more than before,
which no level can show. Idioms are left alone ("up to date", "set up", "as shown above", "more or
less"). Where a figure stands with the citation, `scoring.memos.gate_direction` reads the words.

Shaped by memos that passed with "the share is up [F5]" about a change of -33.3 points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_quantifiers import stem
from scoring.memos.figures_tokens import TokenKind
from scoring.memos.figures_units import Shape, word_at
from scoring.memos.gate_vocabulary import CHANGES, DOWN, PLACES, UP
from scoring.memos.units import Measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scoring.memos.facts import Fact
    from scoring.memos.figures_tokens import Token
    from scoring.memos.gate_labels import Labels

STAYED: Final = frozenset({
    "is", "are", "was", "were", "be", "been", "being", "stay", "stays", "stayed", "remain", "remains",
    "remained", "held", "kept",
})  # fmt: skip
_MOVED: Final = STAYED | {
    "go", "goes", "went", "gone", "going", "come", "comes", "came", "move", "moves", "moved", "moving",
    "stand", "stands", "stood", "edged", "inched", "crept", "ticked", "trended", "headed", "shot",
    "turned", "got", "lies", "lay", "ended", "finished", "closed", "nudged", "drifted", "pushed",
}  # fmt: skip
"""Verbs behind which "up" and "higher" say that something rose."""
_PHRASAL: Final = frozenset({
    "set", "sets", "setting", "make", "makes", "made", "take", "takes", "took", "taken", "follow",
    "follows", "followed", "break", "breaks", "broke", "broken", "write", "writes", "wrote", "written",
    "look", "looked", "looks", "back", "backed", "clean", "cleaned", "start", "started", "shut", "sum",
    "sums", "summed", "bring", "brought", "bear", "show", "shows", "showed", "call", "called",
})  # fmt: skip
_LEVELS: Final = frozenset({
    "up", "down", "higher", "lower", "fewer", "greater", "larger", "bigger", "smaller", "longer",
    "shorter",
})  # fmt: skip
_SAID: Final = frozenset({
    "described", "listed", "shown", "mentioned", "given", "as", "said", "the", "see", "named", "noted",
    "cited",
})  # fmt: skip
_COUNTED: Final = frozenset({"more", "fewer", "less"})
_ADDED: Final = frozenset({"additional", "another", "extra", "further"})


@dataclass(frozen=True, slots=True)
class Anchor:
    """A figure with its fact, or a citation without a figure, in the order of the sentence."""

    first: int
    stop: int
    cited: int
    item: Fact
    shape: Shape | None


def is_change(item: Fact, labels: Labels) -> bool:
    """Whether the sign of the fact says that something rose or fell."""
    told = item.formula is not None and item.formula.is_change
    words = labels.words(item) & (UP | DOWN | (CHANGES - {"margin"}))
    return told or bool(words) or item.measure is Measure.POINTS


def turns_bare(tokens: Sequence[Token], at: int, anchors: Sequence[Anchor], labels: Labels) -> bool:
    """Whether the word of comparison at ``at`` says a direction of a fact that is cited bare."""
    after = next((anchor for anchor in anchors if anchor.first > at), None)
    before = next((anchor for anchor in reversed(anchors) if anchor.stop <= at), None)
    anchor = after or before
    if anchor is None or anchor.shape is not None:
        return False
    word, following, lead = (word_at(tokens, at + step) for step in (0, 1, -1))
    moved = lead in _MOVED or (word_at(tokens, at - 2) in _MOVED and lead != "the")
    counts = stem(following) in labels.nouns
    if word in _ADDED or following in {"or", "to"} or lead == "or":
        return False
    if word in PLACES:
        return (
            moved and lead not in _SAID and is_change(anchor.item, labels) and not _ends(tokens, at)
        )
    if is_change(anchor.item, labels):
        return lead not in _PHRASAL
    return (word in _LEVELS and moved) or (word in _COUNTED and counts)


def _ends(tokens: Sequence[Token], at: int) -> bool:
    """Whether a word of place names no place: it stands before a sign, or last."""
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    return after is None or (after.kind is TokenKind.SYM)
