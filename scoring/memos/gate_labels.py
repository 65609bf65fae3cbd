"""The labels of a snapshot: where they stand in a text, word for word, and what words they are made of.

Guarantees: of two labels that overlap the longer is found; a number inside of a label is part of the
label, unless the text glues more to it. It compares words and stems, not senses: what a figure beside
a label says is read by `scoring.memos.gate_claims`.

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
    from collections.abc import Sequence

    from scoring.memos.facts import Fact, Snapshot

STOP: Final = frozenset({
    "the", "and", "for", "with", "from", "that", "this", "than", "was", "were", "are", "has", "had",
    "been", "its", "per", "all", "any", "not", "out", "into", "over", "under", "who", "which",
    "when", "a", "an", "of", "in", "on", "to", "by", "at", "is", "it", "as", "or", "be", "no",
})  # fmt: skip
_NO_NOUNS: Final = STOP | {
    "share", "rate", "value", "total", "number", "count", "mean", "average", "median", "first",
    "last", "only", "change", "difference", "time", "none", "more", "less", "most", "least", "before",
    "after", "since", "percent", "ratio", "score", "each", "every", "other", "between", "both", "same",
    "best", "worst", "new", "shown", "seen", "made", "done",
}  # fmt: skip
_BEFORE: Final = frozenset("-\u2212\u2013$\u20ac\u00a3+")


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

    def is_subject(self, name: str) -> bool:
        """Whether a name is what a fact, or the whole snapshot, is about."""
        return name in self.all_subjects or name == self.identifier

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

    def stems_by_id(self, name: str) -> frozenset[str]:
        """Return the same of the fact with this id."""
        return self._stems[name]

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
