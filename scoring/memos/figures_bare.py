"""Words that state a zero, a total or a part by themselves: nothing, everything, always, most of it.

Guarantees: in a sentence that cites, each of these words is a figure (none or all, held against the
fact like any other) or is reported as vague; a word that stands in the label of a cited fact is part of
that label. In a sentence that cites nothing they are prose, which the gate does not judge. The
vocabulary is closed; idioms that count nothing are left alone ("in all", "no doubt", "at most").

Shaped by memos that passed with "Nothing was followed [F9]" about a fact of 47.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scoring.memos.figures_tokens import Token, TokenKind
from scoring.memos.figures_units import Shape, word_at
from scoring.memos.figures_words import CARDINALS

if TYPE_CHECKING:
    from collections.abc import Sequence

NONE_WORDS: Final = frozenset({"nothing", "nobody", "noone", "nowhere", "never", "nary"})
ALL_WORDS: Final = frozenset({
    "everything", "everybody", "everyone", "everywhere", "always", "invariably", "unanimously",
    "entirely", "fully", "wholly", "completely", "totally", "universally", "unfailingly",
})  # fmt: skip
VAGUE_WORDS: Final = frozenset({
    "mostly", "largely", "mainly", "predominantly", "overwhelmingly", "rarely", "seldom", "usually",
    "plenty", "lots", "loads",
})  # fmt: skip
_PARTS: Final = frozenset({
    "most", "many", "few", "several", "numerous", "much", "little", "fewer", "countless",
})  # fmt: skip
_VERBS: Final = frozenset({
    "of", "is", "are", "was", "were", "be", "been", "has", "have", "had", "did", "do", "does",
})  # fmt: skip
"""Words after which "most", "few" and the like stand for the things themselves."""
_BE: Final = frozenset({
    "is", "are", "was", "were", "be", "been", "being", "remained", "remains", "stayed", "became",
})  # fmt: skip
_WHOLE: Final = frozenset({"complete", "total", "universal", "unanimous"})
_DEEDS: Final = ("ation", "ption", "failure", "success")
"""What "complete" and "total" make a whole of: complete remediation, total failure."""
_OCCASIONS: Final = frozenset({
    "time", "times", "case", "cases", "occasion", "occasions", "instance", "instances", "point",
    "circumstances",
})  # fmt: skip
_ONE_OF_ALL: Final = _OCCASIONS | {"one", "single", "last", "body", "thing", "bit", "part"}
_NO_BUT: Final = frozenset({"in", "at", "on", "by", "under"})
_NO_QUANTITY: Final = frozenset({
    "doubt", "question", "wonder", "matter", "longer", "more", "less", "fewer", "other",
})  # fmt: skip
"""Words before which "no" counts nothing, or is part of a bound."""
_CLAUSE: Final = frozenset({"that", "which", "who", "whether", "because", "but"})
_ALL_BEFORE: Final = frozenset({
    "of", "across", "over", "among", "for", "in", "from", "per", "amongst", "to", "after", "above",
    "at", "and", "with",
})  # fmt: skip
_ALL_AFTER: Final = frozenset({"told", "in", "along", "around", "right", "same", "things", "too"})
_ALL_IDIOMS: Final = frozenset({("the", "more"), ("the", "same"), ("is", "well")})
_SCANTY: Final = frozenset({"hardly", "barely", "scarcely", "almost", "practically", "virtually"})
_ANY: Final = frozenset({"any", "anything", "anyone", "anybody", "ever", "anywhere"})
NEAR: Final = 10
"""Words from "no" to the citation that it stands with, at most."""


def cites(tokens: Sequence[Token]) -> bool:
    """Whether a sentence holds a citation."""
    return any(token.kind is TokenKind.CITE for token in tokens)


def bare_at(tokens: Sequence[Token], at: int) -> tuple[Shape, int] | None:
    """Return NONE or ALL, and the index behind it, if the word at ``at`` says so by itself."""
    token, word = tokens[at], tokens[at].norm
    if token.kind is not TokenKind.WORD:
        return None
    following = word_at(tokens, at + 1)
    if word_at(tokens, at - 1) == "as" and word in {"always", "never"}:
        return None
    if word in NONE_WORDS:
        return Shape.NONE, at + 1
    if word in ALL_WORDS or (word == "all" and _counts_all(tokens, at)):
        return Shape.ALL, at + 1
    if word in {"every", "each"} and following in _ONE_OF_ALL:
        return Shape.ALL, at + 2
    if word == "each" and following == "and" and word_at(tokens, at + 2) == "every":
        return Shape.ALL, at + 3
    if word == "in" and following in {"full", "entirety"}:
        return Shape.ALL, at + 2
    if word in _WHOLE and (
        (word_at(tokens, at - 1) in _BE and not following.isalpha()) or following.endswith(_DEEDS)
    ):
        return Shape.ALL, at + 1
    if word == "neither" and following in _VERBS:
        return Shape.NONE, at + 1
    return _no_at(tokens, at) if word == "no" else None


def _counts_all(tokens: Sequence[Token], at: int) -> bool:
    return (
        word_at(tokens, at - 1) not in _ALL_BEFORE
        and word_at(tokens, at + 1) not in _ALL_AFTER
        and (word_at(tokens, at + 1), word_at(tokens, at + 2)) not in _ALL_IDIOMS
    )  # fmt: skip


def _no_at(tokens: Sequence[Token], at: int) -> tuple[Shape, int] | None:
    """Read no one, "at no time", and "no harm [F7]": what stands with a citation and no figure."""
    here = at + 1 + (word_at(tokens, at + 1) == "-")
    following = word_at(tokens, here)
    if following in {"one", "body"}:
        return Shape.NONE, here + 1
    if following in _OCCASIONS and word_at(tokens, at - 1) in _NO_BUT:
        return Shape.NONE, here + 1
    if following in _NO_QUANTITY:
        return None
    for token in tokens[here : here + NEAR]:
        if token.kind is TokenKind.CITE:
            return Shape.NONE, at + 1
        figure = token.kind in {TokenKind.NUM, TokenKind.DATE} or token.norm in CARDINALS
        if figure or token.norm in _CLAUSE or token.is_sym(",;:"):
            return None
    return None


def vague_part_at(tokens: Sequence[Token], at: int) -> bool:
    """Whether the word at ``at`` states a part by itself that no fact can be held against."""
    word, following = tokens[at].norm, word_at(tokens, at + 1)
    before = word_at(tokens, at - 1)
    if tokens[at].kind is not TokenKind.WORD:
        return False
    if word in VAGUE_WORDS or (word in _SCANTY and following in _ANY):
        return True
    if word == "lot":
        return before in {"a", "the"}
    if word in _PARTS and before not in {"at", "the", "as", "how", "so", "too", "than"}:
        cited = at + 1 < len(tokens) and tokens[at + 1].kind is TokenKind.CITE
        return following in _VERBS or cited
    return (
        word == "the" and following in {"most", "few", "many"} and word_at(tokens, at + 2) in _VERBS
    )


def both_at(tokens: Sequence[Token], at: int) -> bool:
    """Whether "both" says two of something, and does not join two things that are named."""
    joins = any(token.is_word("and") for token in tokens[at + 1 : at + 1 + NEAR])
    return not joins and word_at(tokens, at - 1) not in _ALL_BEFORE
