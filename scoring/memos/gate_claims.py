"""Whether the words beside a figure speak of the fact that it cites.

Guarantees: where a sentence names a fact by its label, a figure bound to another fact is reported. A
label may be said in another order, in words of the same family (succeeded and successful), its noun in
the clause before, a share by its percent sign, and a change by what it is the change of
(`scoring.memos.gate_change`). What is paraphrased beyond that is not judged here: that is the judge's
part, and a signal, not a proof.

Where a clause has the opposite of a label's word (failed for succeeded), the figure is reported too.
Source: hole 1 of the original gate ("no label check"), ADR-0006.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scoring.memos.facts_formula import Formula
from scoring.memos.figures_quantifiers import stem
from scoring.memos.figures_tokens import Token, TokenKind
from scoring.memos.figures_units import word_at
from scoring.memos.gate_change import changes_of_another, is_level, speaks_of_ends
from scoring.memos.gate_labels import STOP, stems_of
from scoring.memos.units import Measure

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scoring.memos.facts import Fact, Snapshot
    from scoring.memos.gate_labels import Labels, Mention, Window

_GENERIC: Final = frozenset({
    "time", "item", "case", "them", "total", "altogether", "overall", "so", "far", "here", "there",
    "only", "such", "each", "together", "these", "those", "one", "figure", "value", "thing", "cite",
    "then", "but", "just", "now", "still", "also", "again", "both", "more", "fewer", "less", "most",
    "least",
})  # fmt: skip
_BARE: Final = STOP | {
    "they", "stood", "came", "figure", "value", "number", "total", "reached", "being", "amounted", "here",
    "there", "then", "later", "next", "these", "those", "be", "now", "only", "just", "about", "some",
    "exactly", "around",
}  # fmt: skip
"""Words beside which a figure speaks of what the memo spoke of last."""
NEAR: Final = 3
_JOINTS: Final = frozenset({"and", "but", "while", "whereas", ",", ";"})
_AMONG: Final = frozenset({"of", "among", "amongst"})
_SHARES: Final = frozenset({"share", "rate", "percentage", "percent", "proportion"})
_FAMILIES: Final = {
    stem(word): words[0]
    for words in (
        (
            "success",
            "successes",
            "successful",
            "successfully",
            "succeed",
            "succeeded",
            "succeeding",
        ),
        ("fail", "failed", "failing", "failure"),
        ("mislead", "misled", "misleading"),
        ("follow", "followed", "following"),
        ("ignore", "ignored", "ignoring"),
        ("remediate", "remediated", "remediating", "remediation"),
        ("retrieve", "retrieved", "retrieval"),
        ("earn", "earned", "earning"),
        ("grade", "graded", "grading"),
        ("answer", "answered", "answering"),
        ("retire", "retired", "retirement"),
    )
    for word in words
}
"""Words of one family, by their stems: those in which runs, tips and rules are told."""
_OPPOSITES: Final = {
    "success": "fail", "fail": "success", "follow": "ignore", "ignore": "follow",
}  # fmt: skip


def speaks_of_another(
    item: Fact, window: Window, tokens: Sequence[Token], mentions: Sequence[Mention],
    labels: Labels, snapshot: Snapshot, last: Mention | None, beside: Collection[str],
) -> str:  # fmt: skip
    """Return the label of the fact that the text names instead of ``item``, or "".

    ``last`` is the label that the memo named last before this figure's window; ``beside`` are the ids
    of the facts whose figures share the citation, and whose words stand in the same window.
    """
    if opposite := _opposite(item, window, tokens, labels):
        return opposite
    nearest = nearest_mention(window, mentions)
    if speaks_of_ends(item, window, tokens, nearest, labels, snapshot):
        return ""
    if other_change := changes_of_another(item, window, tokens, labels, snapshot):
        return other_change
    spoken_of = last is not None and item.id in last.ids
    if is_level(item, window, tokens, labels, snapshot) and not spoken_of:
        return snapshot.by_id[item.derived_from[0]].label
    here = stems_of(tokens[window.begin : window.end])
    own = labels.stems(item)
    inputs = set(item.derived_from)
    named = {name for mention in mentions for name in mention.ids}
    shows_inputs = bool(inputs) and inputs <= named
    if nearest is not None and item.id not in nearest.ids:
        other = snapshot.by_id[min(nearest.ids)]
        # "failed attempts" is not "attempts"; "attempts that failed" may stand for "failed attempts"
        said = own <= here and not own < labels.stems(other)
        said = said or _said_by_kin(item, window, tokens, other, labels)
        return "" if said or shows_inputs else other.label
    if shows_inputs:
        return ""
    others = [other for other in snapshot.facts if other.id not in {item.id, *beside}]
    if longer := _longer(item, window, tokens, others, labels):
        return longer
    if own <= here or nearest is not None:
        return ""
    return _unsaid(item, window, tokens, own) or _carried(
        item, window, tokens, mentions, labels, snapshot, last
    )


def _longer(
    item: Fact, window: Window, tokens: Sequence[Token], others: Sequence[Fact], labels: Labels
) -> str:
    """Return a label that stands there in any order of its words, and says more than the fact's own."""
    core = _core(item, window, tokens, labels)
    here = stems_of(tokens[window.begin : window.end])
    before = stems_of(tokens[window.begin : window.cited])
    for other in others:
        wanted = labels.stems(other)
        if len(wanted) < 2 or not wanted <= before:
            continue
        said = core <= here or _said_by_kin(item, window, tokens, other, labels)
        if core < wanted or not said:
            return other.label
    return ""


def _unsaid(item: Fact, window: Window, tokens: Sequence[Token], own: frozenset[str]) -> str:
    """Return what is counted between a figure and its citation, if the label knows nothing of it."""
    if item.measure not in {Measure.COUNT, Measure.RANK}:
        return ""
    between = stems_of(
        [t for t in tokens[window.figure_stop : window.cited] if t.kind is TokenKind.WORD]
    )
    counted = between - _GENERIC - _BARE
    return " ".join(sorted(counted)) if counted and not _kin(counted) & _kin(own) else ""


def _carried(
    item: Fact, window: Window, tokens: Sequence[Token], mentions: Sequence[Mention],
    labels: Labels, snapshot: Snapshot, last: Mention | None,
) -> str:  # fmt: skip
    """Return the label that "it" stands for, if it is another fact's."""
    if last is None or last.ids & {item.id, *item.derived_from}:
        return ""
    begin, end = _clause(window, tokens)
    part = tokens[begin : window.figure_first]
    words = {token.norm for token in part if token.kind is TokenKind.WORD}
    other = snapshot.by_id[min(last.ids)]
    # "of 40 attempts [F2], 14 [F9] succeeded": the noun was named before, the rest is said here
    own, noun = labels.stems(item), labels.stems(other)
    said = _kin(own - noun) <= _kin(stems_of(tokens[begin:end]))
    parted = any(token.is_word(*_AMONG) for token in tokens[max(0, last.first - NEAR) : last.first])
    parted = parted and last in mentions  # "of 26 failed attempts [F8], 14 [F9] succeeded" is none
    said = said and (_kin(noun) <= _kin(own) or not parted or _is_part(item, other, snapshot))
    return "" if words - _BARE or said else other.label


def _is_part(item: Fact, other: Fact, snapshot: Snapshot) -> bool:
    """Whether the facts themselves say that what ``item`` counts is among what ``other`` counts."""
    added = other.formula is Formula.SUM and item.id in other.derived_from
    return added or any(
        share.formula is Formula.PERCENT_OF and share.derived_from == (item.id, other.id)
        for share in snapshot.facts
    )


def _opposite(item: Fact, window: Window, tokens: Sequence[Token], labels: Labels) -> str:
    """Return the word of a figure's clause that says the opposite of its label, "" if none does."""
    begin, end = _clause(window, tokens)
    own = _kin(labels.stems(item))
    here = _kin(stems_of(tokens[begin:end]))
    for family, other in _OPPOSITES.items():
        if family in own and other not in own and other in here and family not in here:
            return other
    return ""


def _clause(window: Window, tokens: Sequence[Token]) -> tuple[int, int]:
    """Return where the clause of a figure begins and ends: "and 26 [F8] failed"."""
    begin, end = window.begin, window.end
    for at in range(window.begin, window.figure_first):
        if word_at(tokens, at) in _JOINTS:
            begin = at + 1
    for at in range(window.cited, window.end):
        if word_at(tokens, at) in _JOINTS:
            return begin, at
    return begin, end


def _said_by_kin(
    item: Fact, window: Window, tokens: Sequence[Token], other: Fact, labels: Labels
) -> bool:
    """Whether a label is said in other words of its families: "of 40 attempts succeeded".

    ``other`` is the fact whose label stands there.
    """
    core = _core(item, window, tokens, labels)
    here = stems_of(tokens[window.begin : window.end])
    return _kin(core) <= _kin(here) and not _kin(core) <= _kin(labels.stems(other))


def _core(item: Fact, window: Window, tokens: Sequence[Token], labels: Labels) -> frozenset[str]:
    """Return the stems of a label that are to be said: the percent sign says the share before its whole.

    "93.3% of graded rules were remediated" is the share of graded rules remediated.
    """
    own = labels.stems(item)
    if item.formula is not Formula.PERCENT_OF:
        return own
    whole = labels.stems_by_id(item.derived_from[1])
    return own - _SHARES if _of_whole(whole, window, tokens) else own


def _of_whole(whole: frozenset[str], window: Window, tokens: Sequence[Token]) -> bool:
    """Whether "of" and the words of ``whole`` stand behind a figure; names may stand elsewhere."""
    after = tokens[window.figure_stop : window.end]
    wanted = {one for one in whole if not one.startswith("`")}
    words = [token for token in after if token.kind is TokenKind.WORD and token.norm not in STOP]
    return bool(after) and after[0].is_word("of") and stems_of(words[: len(wanted)]) <= whole


def _kin(stems: frozenset[str]) -> frozenset[str]:
    """Return one word for each family among the stems."""
    return frozenset(_FAMILIES.get(one, one) for one in stems)


def nearest_mention(window: Window, mentions: Sequence[Mention]) -> Mention | None:
    """Return the label that stands nearest to a figure within its window; after it on a tie."""
    best: tuple[int, int] | None = None
    found: Mention | None = None
    for mention in mentions:
        if mention.first < window.begin or mention.stop > window.end:
            continue
        after = mention.first >= window.figure_stop
        distance = (
            mention.first - window.figure_stop if after else window.figure_first - mention.stop
        )
        if after and mention.first >= window.cited:
            distance += (
                2 * NEAR
            )  # behind the citation: a label there is most likely the next figure's
        if best is None or (distance, not after) < best:
            best, found = (distance, not after), mention
    return found
