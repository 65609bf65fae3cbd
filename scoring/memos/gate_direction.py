"""Whether rises, falls and comparisons are what the facts show.

Guarantees: a word of direction that belongs to a figure must be shown by a fact: a change with that
sign, or two levels that compare that way ("fell from 80% [F1] to 72% [F2]"). What no fact of the
sentence shows is reported as unproven, so that "rose to 72% [F1]" does not pass on the level alone.
Words of direction in a fact's own label are part of the label. A sentence that cites nothing is not
read here.

Source: issue 5, "comparative words with a figure must match the sign of a difference".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_units import Shape, word_at
from scoring.memos.gate_report import FindingKind
from scoring.memos.units import Measure

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from decimal import Decimal

    from scoring.memos.facts import Fact
    from scoring.memos.figures_tokens import Token
    from scoring.memos.gate_labels import Labels

UP: Final = frozenset(
    "rose rise rises risen rising grew grow grows grown growing growth increase increases increased"
    " increasing climb climbs climbed climbing gain gains gained gaining jump jumps jumped jumping"
    " surge surges surged soar soared exceed exceeds exceeded exceeding outnumber outnumbers"
    " outnumbered outpaced outperformed outperforms uptick upturn raised raises expanded expands"
    " surpassed surpasses topped doubled tripled rebounded spiked spike skyrocketed ballooned swelled"
    " boosted boost hiked hike upped advanced advance strengthened lifted uplift accelerated".split()  # noqa: SIM905
)
DOWN: Final = frozenset(
    "fell fall falls fallen falling drop drops dropped dropping decrease decreases decreased"
    " decreasing decline declines declined declining shrank shrink shrinks shrunk shrinking slid"
    " slides slide sank sinks sunk reduce reduces reduced reducing reduction lowered lowers slipped"
    " slips plunged plunge plummeted dip dipped diminished trails trailed lags lagged downturn"
    " downtick halved cut cuts lose loses losing eroded contracted contraction tumbled dwindled"
    " slumped slump collapsed collapse crashed cratered nosedived tanked eased weakened softened"
    " retreated shed trimmed slashed pared slowed setback sagged waned ebbed abated".split()  # noqa: SIM905
)
MORE: Final = frozenset(
    {"higher", "more", "greater", "larger", "bigger", "longer", "up", "additional", "extra", "another"}
    | {"ahead", "above", "over", "beyond", "further"}
)  # fmt: skip
LESS: Final = frozenset(
    {"lower", "fewer", "less", "smaller", "shorter", "down"} | {"behind", "below", "under"}
)
_PLACES: Final = frozenset({"above", "below", "over", "under", "ahead", "behind", "beyond"})
"""Prepositions, which compare only between two figures of one unit."""
UNCLEAR: Final = frozenset(
    {"improved", "improves", "improve", "improving", "improvement", "better", "worse", "worsened"}
    | {"worsens", "worsen", "worsening", "deteriorated", "deterioration"}
)
"""Words whose direction depends on what is measured."""
LOSS: Final = frozenset({"loss", "losses", "deficit", "shortfall", "lost", "negative", "minus"})
PROFIT: Final = frozenset({"profit", "profits", "surplus", "positive"})
_TO: Final = frozenset({"to", "from", "at"})
_CHANGES: Final = frozenset({"change", "difference", "delta", "lift", "gap", "movement", "margin"})
NEAR: Final = 3


@dataclass(frozen=True, slots=True)
class Anchor:
    """A figure with its fact, or a citation without a figure, in the order of the sentence."""

    first: int
    stop: int
    cited: int
    item: Fact
    shape: Shape | None


@dataclass(frozen=True, slots=True)
class Turn:
    """A fault: what, the token that says it, and the anchor it was held against."""

    kind: FindingKind
    at: int
    anchor: Anchor | None


def says_less(tokens: Sequence[Token], begin: int, end: int) -> bool:
    """Whether the words from ``begin`` to ``end`` say a fall or a loss."""
    return any(
        word_at(tokens, at) in DOWN | LESS | LOSS for at in range(begin, min(end, len(tokens)))
    )


def is_change(item: Fact, labels: Labels) -> bool:
    """Whether the sign of the fact says that something rose or fell."""
    told = item.formula is not None and item.formula.is_change
    words = labels.words(item) & (UP | DOWN | (_CHANGES - {"margin"}))
    return told or bool(words) or item.measure is Measure.POINTS


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
        elif word in UP | DOWN or (word in MORE | LESS and _compares(tokens, at, anchors)):
            fault = _direction(tokens, at, anchors, labels, rising=word in UP | MORE)
        elif word in UNCLEAR and _touches(at, anchors):
            fault = Turn(FindingKind.UNPROVEN_DIRECTION, at, None)
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
    following = word_at(tokens, at + 1)
    if word_at(tokens, at) in _PLACES:
        one, two = _previous(anchors, at), _next(anchors, at)
        return one is not None and two is not None and _alike(one, two)
    if following in {"by", "from"} or (following == "to" and word_at(tokens, at) in {"up", "down"}):
        return True
    than = any(word_at(tokens, later) == "than" for later in range(at + 1, at + 5))
    after = _next(anchors, at)
    if than and (after is not None or _previous(anchors, at) is not None):
        return True
    if after is not None and after.shape is not None and 0 <= after.first - at - 1 <= 1:
        return True
    before = _previous(anchors, at)
    return before is not None and before.shape is not None and (
        at <= before.cited or at - before.cited <= 1
    ) and at - before.stop <= NEAR + 1  # fmt: skip


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
    for anchor in candidates:
        if anchor is not None and is_change(anchor.item, labels):
            return _held(at, anchor, _signed(anchor.item, labels), rising=rising)
    for anchor in (before, after):
        reached = anchor is after and after is not None and _lead(tokens, after) in _TO
        if anchor is None or anchor.shape is not Shape.MULTIPLE or reached:
            continue
        if anchor.item.number is not None:
            return _held(at, anchor, anchor.item.number - 1, rising=rising)
    pair = _pair(tokens, at, anchors, before, after)
    if pair is None:
        return Turn(FindingKind.UNPROVEN_DIRECTION, at, after or before)
    later, earlier = pair
    if later.item.number is None or earlier.item.number is None:
        return Turn(FindingKind.UNPROVEN_DIRECTION, at, later)
    return _held(at, later, later.item.number - earlier.item.number, rising=rising)


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
