"""Whether the words beside a figure speak of the fact that it cites.

Guarantees: where a sentence names a fact by its label, a figure bound to another fact is reported; where
a fact's label has a subject in backticks, its figure may not stand with another subject; a denial, an
average or a rate that the label does not know is reported. What is paraphrased beyond the label's own
words is not judged here: that is the judge's part, and a signal, not a proof.

Source: hole 1 of the original gate ("no label check"), ADR-0006.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_quantifiers import stem
from scoring.memos.figures_tokens import Token, TokenKind, tokens_of
from scoring.memos.figures_words import CARDINALS
from scoring.memos.units import Measure

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scoring.memos.facts import Fact, Snapshot

STOP: Final = frozenset(
    {
        "the",
        "and",
        "for",
        "with",
        "from",
        "that",
        "this",
        "than",
        "was",
        "were",
        "are",
        "has",
        "had",
    }
    | {
        "been",
        "its",
        "per",
        "all",
        "any",
        "not",
        "out",
        "into",
        "over",
        "under",
        "who",
        "which",
        "when",
    }
    | {"a", "an", "of", "in", "on", "to", "by", "at", "is", "it", "as", "or", "be", "no"}
)
_NO_NOUNS: Final = STOP | {
    "share", "rate", "value", "total", "number", "count", "mean", "average", "median", "first",
    "last", "only", "change", "difference", "time", "none", "more", "less", "most", "least", "before",
    "after", "since", "percent", "ratio", "score", "each", "every", "other", "between", "both", "same",
    "best", "worst", "new", "shown", "seen", "made", "done",
}  # fmt: skip
_BEFORE: Final = frozenset("-\u2212\u2013$\u20ac\u00a3+")
_GENERIC: Final = frozenset(
    {
        "time",
        "item",
        "case",
        "them",
        "total",
        "altogether",
        "overall",
        "so",
        "far",
        "here",
        "there",
        "only",
    }
    | {
        "such",
        "each",
        "together",
        "these",
        "those",
        "one",
        "figure",
        "value",
        "thing",
        "cite",
        "then",
    }
    | {
        "but",
        "just",
        "now",
        "still",
        "also",
        "again",
        "both",
        "more",
        "fewer",
        "less",
        "most",
        "least",
    }
)
_BARE: Final = STOP | {
    "they", "stood", "came", "figure", "value", "number", "total", "reached", "being", "amounted", "here",
    "there", "then", "later", "next", "these", "those", "be", "now", "only", "just", "about", "some",
    "exactly", "around",
}  # fmt: skip
"""Words beside which a figure speaks of what the memo spoke of last."""
NEAR: Final = 3


@dataclass(frozen=True, slots=True)
class Mention:
    """The label of one fact or more, word for word, at ``first`` to ``stop``."""

    first: int
    stop: int
    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Window:
    """What belongs to one figure: from the citation before it to its own, and on to the next figure."""

    begin: int
    figure_first: int
    figure_stop: int
    cited: int
    end: int


def key_of(token: Token) -> str:
    """Return what two tokens of a label and a text are the same by."""
    return token.norm if token.kind is TokenKind.WORD else token.text


class Labels:
    """The labels of a snapshot, ready to be looked for in a text."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.identifier = snapshot.identifier
        self._tokens = {item.id: tokens_of(item.label) for item in snapshot.facts}
        self._stems = {name: stems_of(tokens) for name, tokens in self._tokens.items()}
        self._words = {
            name: frozenset(token.norm for token in tokens if token.kind is TokenKind.WORD)
            for name, tokens in self._tokens.items()
        }
        self._subjects = {
            name: frozenset(token.text[1:-1] for token in tokens if token.kind is TokenKind.NAME)
            for name, tokens in self._tokens.items()
        }
        self._by_label = {item.label: {item.id} for item in snapshot.facts}
        self._by_first: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for name, tokens in self._tokens.items():
            keys = tuple(map(key_of, tokens))
            self._by_first.setdefault(keys[0], []).append((keys, name))

    @cached_property
    def nouns(self) -> frozenset[str]:
        """Stems of what the facts count: the nouns before which "no" and "every" are figures."""
        counting = {Measure.COUNT, Measure.PERCENT, Measure.RATIO, Measure.TOKENS}
        words = {
            token.norm
            for item in self._snapshot.facts
            if item.measure in counting
            for token in self._tokens[item.id]
            if token.kind is TokenKind.WORD and len(token.norm) > 2
        }
        return frozenset(stem(word) for word in words if not {word, stem(word)} & _NO_NOUNS)

    @cached_property
    def names(self) -> frozenset[str]:
        """What may stand in backticks: the identifier, texts of name facts, subjects, whole labels."""
        texts = {str(item.value) for item in self._snapshot.facts if item.measure is Measure.NAME}
        texts |= {name for item in self._snapshot.facts for name in self.subjects(item)}
        texts |= {item.label for item in self._snapshot.facts}
        return frozenset(texts | {self._snapshot.identifier}) - {"None", ""}

    @cached_property
    def all_subjects(self) -> frozenset[str]:
        """The subjects of all facts."""
        return frozenset(name for item in self._snapshot.facts for name in self.subjects(item))

    def subjects(self, item: Fact) -> frozenset[str]:
        """Return what a fact is about: the parts of its label in backticks."""
        return self._subjects[item.id]

    def words(self, item: Fact) -> frozenset[str]:
        """Return the words of a fact's label, as compared."""
        return frozenset(
            token.norm for token in self._tokens[item.id] if token.kind is TokenKind.WORD
        )

    def stems(self, item: Fact) -> frozenset[str]:
        """Return the stems of the words of weight of a fact's label, and its subjects."""
        return self._stems[item.id]

    def mentions(self, tokens: Sequence[Token]) -> list[Mention]:
        """Return the labels that stand in ``tokens`` word for word; of two that overlap the longer."""
        found: list[Mention] = []
        at = 0
        while at < len(tokens):
            fitting: dict[int, set[str]] = {}
            for keys, name in self._by_first.get(key_of(tokens[at]), ()):
                part = tokens[at : at + len(keys)]
                if len(part) == len(keys) and all(map(str.__eq__, map(key_of, part), keys)):
                    fitting.setdefault(len(keys), set()).add(name)
            if tokens[at].kind is TokenKind.NAME and (
                same := self._by_label.get(tokens[at].text[1:-1])
            ):
                fitting.setdefault(1, set()).update(same)
            if fitting:
                longest = max(fitting)
                found.append(Mention(at, at + longest, frozenset(fitting[longest])))
            at += max(fitting, default=1)
        return found


def stems_of(tokens: Sequence[Token]) -> frozenset[str]:
    """Return the stems of the words of weight among ``tokens``, and the names."""
    names = {token.text for token in tokens if token.kind is TokenKind.NAME}
    words = {token.norm for token in tokens if token.kind is TokenKind.WORD} - STOP
    return frozenset(names | {stem(word) for word in words})


def masked_by(tokens: Sequence[Token], mentions: Sequence[Mention]) -> set[int]:
    """Return the indexes of label words in a text: a number in a label is part of the label."""
    masked: set[int] = set()
    for mention in mentions:
        part = tokens[mention.first : mention.stop]
        plain = any(token.kind is TokenKind.WORD and token.norm not in CARDINALS for token in part)
        if len(part) > 1 and plain and not _goes_on(tokens, mention):
            masked.update(range(mention.first, mention.stop))
    return masked


def _goes_on(tokens: Sequence[Token], mention: Mention) -> bool:
    """Whether the text glues more to a label than the label has ("Revenue 2024" in "Revenue 2024.5")."""
    first, last = tokens[mention.first], tokens[mention.stop - 1]
    before, after = (
        tokens[mention.first - 1 : mention.first],
        tokens[mention.stop : mention.stop + 1],
    )
    if mention.first and _is_number(first) and (_is_number(before[0]) or before[0].text in _BEFORE):
        return True
    if not _is_number(last) or not after:
        return False
    nearby = after[0]
    if _is_number(nearby) or (nearby.text == "-" and nearby.glued):
        return True
    return (nearby.glued and nearby.text not in ":,.;)]") or nearby.norm in {"%", "percent", "million",
        "billion", "thousand", "hundred", "trillion", "k", "m", "bn"}  # fmt: skip


def _is_number(token: Token) -> bool:
    return token.kind is TokenKind.NUM or token.norm in CARDINALS


def speaks_of_another(
    item: Fact, window: Window, tokens: Sequence[Token], mentions: Sequence[Mention],
    labels: Labels, snapshot: Snapshot, last: Mention | None, beside: Collection[str],
) -> str:  # fmt: skip
    """Return the label of the fact that the text names instead of ``item``, or "".

    ``last`` is the label that the memo named last before this figure's window; ``beside`` are the ids
    of the facts whose figures share the citation, and whose words stand in the same window.
    """
    here = stems_of(tokens[window.begin : window.end])
    own = labels.stems(item)
    inputs = set(item.derived_from)
    named = {name for mention in mentions for name in mention.ids}
    shows_inputs = bool(inputs) and inputs <= named
    nearest = nearest_mention(window, mentions)
    if nearest is not None and item.id not in nearest.ids:
        other = snapshot.by_id[min(nearest.ids)]
        # "failed attempts" is not "attempts"; "attempts that failed" may stand for "failed attempts"
        said = own <= here and not own < labels.stems(other)
        return "" if said or shows_inputs else other.label
    if shows_inputs:
        return ""
    before = stems_of(tokens[window.begin : window.cited])
    others = [other for other in snapshot.facts if other.id not in {item.id, *beside}]
    if longer := _longer(own, here, before, others, labels):
        return longer
    if own <= here or nearest is not None:
        return ""
    return _unsaid(item, window, tokens, own) or _carried(
        item, window, tokens, labels, snapshot, last
    )


def _longer(
    own: frozenset[str], here: frozenset[str], before: frozenset[str],
    others: Sequence[Fact], labels: Labels,
) -> str:  # fmt: skip
    """Return a label that stands there in any order of its words, and says more than the fact's own."""
    for other in others:
        wanted = labels.stems(other)
        if len(wanted) > 1 and wanted <= before and (own < wanted or not own <= here):
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
    return " ".join(sorted(counted)) if counted and not counted & own else ""


def _carried(
    item: Fact, window: Window, tokens: Sequence[Token],
    labels: Labels, snapshot: Snapshot, last: Mention | None,
) -> str:  # fmt: skip
    """Return the label that "it" stands for, if it is another fact's."""
    part = tokens[window.begin : window.figure_first]
    words = {token.norm for token in part if token.kind is TokenKind.WORD}
    said = labels.stems(item) <= stems_of(tokens[: window.end])
    of_it = last is not None and bool(last.ids & {item.id, *item.derived_from})
    if last is None or words - _BARE or of_it or said:
        return ""
    return snapshot.by_id[min(last.ids)].label


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
