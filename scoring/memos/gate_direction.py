"""Whether rises, falls and comparisons are what the facts show.

Guarantees: a word of direction that belongs to a figure, or to a citation without one ("is up [F5]"),
must be shown by a fact: a change with that sign, or two levels that compare that way ("fell from 80%
[F1] to 72% [F2]"); a word of standing still, by a change of zero. What no fact of the sentence shows
is reported as unproven, so that "rose to 72% [F1]" does not pass on the level alone. Words of direction
in a fact's own label are part of the label. A sentence that cites nothing is not read here.

Source: issue 5, "comparative words with a figure must match the sign of a difference".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scoring.memos.facts_formula import Formula
from scoring.memos.figures_units import Shape, word_at
from scoring.memos.gate_bare import STAYED, Anchor, is_change, turns_bare
from scoring.memos.gate_report import FindingKind
from scoring.memos.gate_vocabulary import (
    DOWN,
    LESS,
    LOSS,
    MORE,
    PLACES,
    PROFIT,
    STILL,
    UNCLEAR,
    UP,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from decimal import Decimal

    from scoring.memos.facts import Fact
    from scoring.memos.figures_tokens import Token
    from scoring.memos.gate_labels import Labels, Window

_TO: Final = frozenset({"to", "from", "at"})
NEAR: Final = 3


@dataclass(frozen=True, slots=True)
class Turn:
    """A fault: what, the token that says it, and the anchor it was held against."""

    kind: FindingKind
    at: int
    anchor: Anchor | None


def says_less(item: Fact, window: Window, tokens: Sequence[Token], labels: Labels) -> bool:
    """Whether a figure's words say a loss or, of a change, a fall: then it needs no minus sign."""
    changes = is_change(item, labels)
    for at in range(window.begin, min(window.cited + 2, len(tokens))):
        word = word_at(tokens, at)
        near = at >= window.figure_stop or window.figure_first - at <= NEAR
        if word in LOSS or (changes and (word in DOWN or (word in LESS and near))):
            return True
    return False


def turns(
    tokens: Sequence[Token], anchors: Sequence[Anchor], skipped: Collection[int], labels: Labels
) -> list[Turn]:
    """Return the faults of one sentence. ``skipped`` are the words of labels and of figures."""
    if not anchors:
        return []
    own = {word for anchor in anchors for word in labels.words(anchor.item)}
    found = _wrong_ends(tokens, anchors)
    for at in range(len(tokens)):
        word = word_at(tokens, at)
        if at in skipped or word in own or not word.isalpha():
            continue
        if word in LOSS | PROFIT:
            fault = _loss(at, word, anchors, labels)
        elif word in UP | DOWN or (
            word in MORE | LESS
            and (_compares(tokens, at, anchors) or turns_bare(tokens, at, anchors, labels))
        ):
            fault = _direction(tokens, at, anchors, labels, rising=word in UP | MORE)
        elif word in UNCLEAR and (_touches(at, anchors) or _change_of(at, anchors, labels)):
            fault = Turn(FindingKind.UNPROVEN_DIRECTION, at, None)
        elif word in STILL or (word == "same" and word_at(tokens, at - 2) in STAYED):
            fault = _still(at, anchors, labels)
        else:
            continue
        if fault is not None:
            found.append(fault)
    return found


def _wrong_ends(tokens: Sequence[Token], anchors: Sequence[Anchor]) -> list[Turn]:
    """Return ends of a change that stand the wrong way round: "fell by 3 points to" its start."""
    found = []
    for change in anchors:
        if change.item.formula is None or not change.item.formula.is_change:
            continue
        end, start = change.item.derived_from
        wanted = {"to": end, "from": start}
        for anchor in anchors:
            lead = _lead(tokens, anchor)
            inside = anchor.item.id in change.item.derived_from
            if inside and anchor.item.id != wanted.get(lead, anchor.item.id):
                found.append(Turn(FindingKind.WRONG_DIRECTION, anchor.first, anchor))
    return found


def _touches(at: int, anchors: Sequence[Anchor]) -> bool:
    return any(
        0 <= anchor.first - at - 1 <= NEAR or 0 <= at - anchor.cited <= NEAR
        or anchor.stop <= at <= anchor.cited
        for anchor in anchors
    )  # fmt: skip


def _compares(tokens: Sequence[Token], at: int, anchors: Sequence[Anchor]) -> bool:
    """Whether "more", "up", "below" and the like stand with a figure, and not by themselves."""
    word, following = word_at(tokens, at), word_at(tokens, at + 1)
    if word in PLACES:
        one, two = _previous(anchors, at), _next(anchors, at)
        return one is not None and two is not None and _alike(one, two)
    after = _next(anchors, at)
    figured = after is not None and after.shape is not None
    if figured and following in {"by", "from"}:
        return True
    if figured and after is not None and following == "to" and word in {"up", "down"}:
        dated = word_at(tokens, at + 2) in {"date", "now", "here"}  # "up to date" compares nothing
        return after.first - at <= NEAR + 1 and not dated
    than = any(word_at(tokens, later) == "than" for later in range(at + 1, at + 5))
    if than and (after is not None or _previous(anchors, at) is not None):
        return True
    if after is not None and after.shape is not None and 0 <= after.first - at - 1 <= 1:
        return True
    before = _previous(anchors, at)
    return before is not None and before.shape is not None and (
        at <= before.cited or at - before.cited <= 1
    ) and at - before.stop <= NEAR + 1  # fmt: skip


def _change_of(at: int, anchors: Sequence[Anchor], labels: Labels) -> Anchor | None:
    """Return the change that a word belongs to: the next fact of the sentence, or else the last."""
    for anchor in (_next(anchors, at), _previous(anchors, at)):
        if anchor is not None:
            return anchor if is_change(anchor.item, labels) else None
    return None


def _still(at: int, anchors: Sequence[Anchor], labels: Labels) -> Turn | None:
    change = _change_of(at, anchors, labels)
    if change is not None:
        return Turn(FindingKind.WRONG_DIRECTION, at, change) if change.item.number else None
    touched = any(anchor.shape is not None for anchor in anchors) and _touches(at, anchors)
    return Turn(FindingKind.UNPROVEN_DIRECTION, at, None) if touched else None


def _next(anchors: Sequence[Anchor], at: int) -> Anchor | None:
    return next((anchor for anchor in anchors if anchor.first > at), None)


def _previous(anchors: Sequence[Anchor], at: int) -> Anchor | None:
    return next((anchor for anchor in reversed(anchors) if anchor.stop <= at), None)


def _polarity(item: Fact, labels: Labels) -> int:
    return -1 if labels.words(item) & DOWN else 1


def _loss(at: int, word: str, anchors: Sequence[Anchor], labels: Labels) -> Turn | None:
    anchor = _next(anchors, at)
    if anchor is None or anchor.first - at > NEAR + 2 or anchor.item.number is None:
        return None
    if is_change(anchor.item, labels) and word not in {"loss", "losses", "lost"}:
        return None
    number = anchor.item.number * _polarity(anchor.item, labels)
    wrong = number > 0 if word in LOSS else number < 0
    return Turn(FindingKind.WRONG_DIRECTION, at, anchor) if wrong else None


def _direction(
    tokens: Sequence[Token], at: int, anchors: Sequence[Anchor], labels: Labels, *, rising: bool
) -> Turn | None:
    before, after = _previous(anchors, at), _next(anchors, at)
    close = before is not None and (at <= before.cited or at - before.cited <= NEAR)
    candidates = (
        [before, after] if close and word_at(tokens, at) in MORE | LESS else [after, before]
    )
    pair = _levels(tokens, at, before, after)
    for anchor in candidates if pair is None else ():
        if anchor is not None and is_change(anchor.item, labels):
            return _held(at, anchor, _signed(anchor.item, labels), rising=rising)
    for anchor in (before, after):
        reached = anchor is after and after is not None and _lead(tokens, after) in _TO
        if anchor is None or anchor.shape is not Shape.MULTIPLE or reached:
            continue
        if anchor.item.number is not None and anchor.item.formula is Formula.RATIO:
            return _held(at, anchor, anchor.item.number - 1, rising=rising)
    pair = pair or _pair(tokens, at, anchors, before, after)
    if pair is None:
        return Turn(FindingKind.UNPROVEN_DIRECTION, at, after or before)
    later, earlier = pair
    if later.item.number is None or earlier.item.number is None:
        return Turn(FindingKind.UNPROVEN_DIRECTION, at, later)
    return _held(at, later, later.item.number - earlier.item.number, rising=rising)


def _levels(
    tokens: Sequence[Token], at: int, before: Anchor | None, after: Anchor | None
) -> tuple[Anchor, Anchor] | None:
    """Return two figures that are compared as they stand: "the change, 4 [F1], was above 9 [F2]"."""
    if before is None or after is None or not _alike(before, after):
        return None
    than = word_at(tokens, at) in PLACES or word_at(tokens, at + 1) in {"than", "from"}
    return (before, after) if than and word_at(tokens, at - 1) in STAYED else None


def _signed(item: Fact, labels: Labels) -> Decimal | None:
    return None if item.number is None else item.number * _polarity(item, labels)


def _held(at: int, anchor: Anchor, shown: Decimal | None, *, rising: bool) -> Turn | None:
    if shown is None:
        return Turn(FindingKind.UNPROVEN_DIRECTION, at, anchor)
    right = shown > 0 if rising else shown < 0
    return None if right else Turn(FindingKind.WRONG_DIRECTION, at, anchor)


def _pair(
    tokens: Sequence[Token], at: int, anchors: Sequence[Anchor],
    before: Anchor | None, after: Anchor | None,
) -> tuple[Anchor, Anchor] | None:  # fmt: skip
    """Return the two levels that a word of direction sets against each other: the one said to be more
    (or less) first."""
    if after is None:
        return None
    lead = _lead(tokens, after)
    second = _next(anchors, after.first)
    if second is not None and _alike(after, second):
        other = _lead(tokens, second)
        if lead == "from" and other == "to":
            return second, after
        if lead == "to" and other == "from":
            return after, second
    if before is None or not _alike(before, after):
        return None
    if lead == "to":
        return after, before
    than = any(
        word_at(tokens, later) == "than" for later in range(at + 1, min(at + 4, after.first))
    )
    than = than or word_at(tokens, at + 1) == "from"
    near = than or after.first - at - 1 <= NEAR + 3
    return (before, after) if lead in {"from", "than"} or near else None


def _lead(tokens: Sequence[Token], anchor: Anchor) -> str:
    """Return the preposition before a figure, past an article."""
    at = anchor.first - 1
    if word_at(tokens, at) in {"the", "a", "an"}:
        at -= 1
    return word_at(tokens, at)


def _alike(one: Anchor, other: Anchor) -> bool:
    return one.item.unit == other.item.unit and one.shape is not None and other.shape is not None
