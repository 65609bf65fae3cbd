"""What a change may be said of: the labels and the subjects of the two facts it is the change between.

Guarantees: "the share in `run-7` fell by 8.6 points [F5]" and "since `run-6`, the share fell by…" speak
of the change between those two; the fact that it starts from stands behind a word of comparison
(since, from, than, below…), the one that it ends at does not, so that the same words about the wrong
end are refused. A change is no level: "rose to 13 [F5]" and "there were 13 [F5]" do not state it.

It reads the formula of a fact, never its label: a change without a formula has no two ends. Shaped by
true sentences that were refused, because a change's own label is no sentence anybody writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scoring.memos.figures_quantifiers import stem
from scoring.memos.figures_tokens import TokenKind
from scoring.memos.figures_units import word_at
from scoring.memos.gate_labels import stems_of
from scoring.memos.gate_vocabulary import CHANGES, DOWN, LESS, MORE, UNCLEAR, UP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scoring.memos.facts import Fact, Snapshot
    from scoring.memos.figures_tokens import Token
    from scoring.memos.gate_labels import Labels, Mention, Window

_SINCE: Final = frozenset({"since", "from", "after", "before", "over", "under", "on"})
_AGAINST: Final = frozenset({
    "than", "versus", "vs", "against", "compared", "relative", "below", "above", "unlike", "behind",
    "ahead", "beyond", "exceeds", "exceeded",
})  # fmt: skip
_TOLD: Final = UP | DOWN | MORE | LESS | UNCLEAR | CHANGES | {
    "moved", "move", "shift", "shifted", "swing", "swung", "step", "stepped", "differs",
}  # fmt: skip
_LEVELS: Final = frozenset({"to", "at"})
_AMOUNTS: Final = frozenset({"came", "comes", "coming", "amounts", "amounted", "adds", "added"})
NEAR: Final = 3
"""Words between "since" and what it is said of, at most; "than" reaches back to the last name."""


def ends_of(item: Fact, snapshot: Snapshot) -> tuple[Fact, Fact] | None:
    """Return the facts that a change ends at and starts from; None of a fact that is no change."""
    if item.formula is None or not item.formula.is_change:
        return None
    end, start = item.derived_from
    return snapshot.by_id[end], snapshot.by_id[start]


def sources_of(item: Fact, snapshot: Snapshot) -> frozenset[str]:
    """Return the ids of all facts that a fact is derived from, over any number of steps."""
    found: set[str] = set()
    waiting = list(item.derived_from)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += snapshot.by_id[name].derived_from
    return frozenset(found)


def is_told(item: Fact, window: Window, tokens: Sequence[Token]) -> bool:
    """Whether the words of a figure's window speak of a change, and the figure is not its level."""
    before = {word_at(tokens, at) for at in range(window.begin, window.figure_first)}
    after = {word_at(tokens, at) for at in range(window.figure_stop, window.end)}
    if word_at(tokens, window.figure_first - 1) in _LEVELS:
        summed = word_at(tokens, window.figure_first - 2) in _AMOUNTS
        return bool({stem(word) for word in before} & CHANGES or (summed and before & _TOLD))
    own = {word_at(tokens, at) for at in range(window.figure_first, window.figure_stop)}
    return bool((before | own | after) & _TOLD)


def is_level(
    item: Fact, window: Window, tokens: Sequence[Token], labels: Labels, snapshot: Snapshot
) -> bool:
    """Whether a change is stated as if it were what changed: "rose to 13", "there were 13"."""
    ends = ends_of(item, snapshot)
    if ends is None or is_told(item, window, tokens):
        return False
    words = {token.norm for token in tokens[: window.end] if token.kind is TokenKind.WORD}
    if labels.words(item) <= words:
        return False
    rises = any(word_at(tokens, at) in UP | DOWN for at in range(window.begin, window.figure_first))
    return rises or item.unit == ends[0].unit


def speaks_of_ends(
    item: Fact, window: Window, tokens: Sequence[Token], mention: Mention | None,
    labels: Labels, snapshot: Snapshot,
) -> bool:  # fmt: skip
    """Whether a change is told by what it is the change of, the label of an end or its own words.

    ``mention`` is the label that stands nearest to the figure.
    """
    ends = ends_of(item, snapshot)
    if ends is None or not is_told(item, window, tokens):
        return False
    if mention is not None and mention.ids & {end.id for end in ends}:
        wanted = ends[1] if is_base(tokens, mention.first, window.begin) else ends[0]
        return wanted.id in mention.ids
    core = _core(item, labels)
    here = stems_of(tokens[window.begin : window.end])
    if not core <= here or mention is None:
        return core <= here
    known = sources_of(item, snapshot) | {item.id}
    # "rules" may be a fact too, and is not what "failed rules fell by…" speaks of
    return bool(mention.ids & known) or any(
        labels.stems_by_id(name) <= core for name in mention.ids
    )


def changes_of_another(
    item: Fact, window: Window, tokens: Sequence[Token], labels: Labels, snapshot: Snapshot
) -> str:
    """Return the label of the change that a window tells instead of the change it cites, or ""."""
    if ends_of(item, snapshot) is None:
        return ""
    here = stems_of(tokens[window.begin : window.cited])
    if _core(item, labels) <= here:
        return ""
    for other in snapshot.facts:
        if other.id != item.id and ends_of(other, snapshot) and _core(other, labels) <= here:
            return other.label
    return ""


def _core(item: Fact, labels: Labels) -> frozenset[str]:
    """Return the stems of a change's label without its "change in"."""
    return labels.stems(item) - CHANGES


def other_end(
    item: Fact, window: Window, tokens: Sequence[Token], labels: Labels, snapshot: Snapshot
) -> str | None:
    """Return a name that stands where the other end of a change belongs, "" if all are right.

    None: the fact is no change, or no name of an end stands there. Behind the citation only what is
    compared with is read: the rest may belong to the next clause.
    """
    ends = ends_of(item, snapshot)
    if ends is None:
        return None
    wanted = [labels.subjects(end) or frozenset({labels.identifier}) for end in ends]
    own = labels.subjects(item)
    found: str | None = None
    for at in range(window.begin, window.end):
        token = tokens[at]
        name = token.text[1:-1]
        if token.kind is not TokenKind.NAME or name in own or not labels.is_subject(name):
            continue
        base = is_base(tokens, at, window.begin)
        if at >= window.cited and not base:
            continue
        between = any(word_at(tokens, near) == "between" for near in range(max(0, at - 4), at))
        if name not in (wanted[0] | wanted[1] if between else wanted[base]):
            return name
        found = ""
    return found


def is_base(tokens: Sequence[Token], at: int, begin: int) -> bool:
    """Whether what stands at ``at`` is compared with: "since `run-6`", "below that in `run-6`"."""
    for distance, here in enumerate(range(at - 1, begin - 1, -1), start=1):
        token = tokens[here]
        if token.kind in {TokenKind.NAME, TokenKind.CITE, TokenKind.NUM} or token.is_sym(",;:"):
            return False
        if token.is_word(*_AGAINST) or (distance <= NEAR and token.is_word(*_SINCE)):
            return True
    return False
