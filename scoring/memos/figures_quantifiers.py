"""Words that state a quantity without a number: none, every, most, several.

Guarantees: "no" and "every" before a noun of the facts are figures (nothing, all of them) and need a
source like any other; words that state a quantity nobody can check are reported as vague. Before other
nouns they are ordinary English and left alone: "no doubt", "every effort". Prepositional scope is not
a claim: "the share of all retrievals". In a sentence that cites, the same words count by themselves
too ("nothing", "all of it": `scoring.memos.figures_bare`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_bare import bare_at, vague_part_at
from scoring.memos.figures_tokens import Token, TokenKind
from scoring.memos.figures_units import Shape, word_at
from scoring.memos.figures_words import VAGUE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_SCOPE: Final = frozenset(
    {"of", "across", "over", "among", "for", "in", "from", "per", "amongst", "to"}
)
_FILLERS: Final = frozenset({"of", "the", "these", "those", "its", "their", "such", "other"})
_CLAUSE: Final = frozenset(
    {"that", "which", "who", "whether", "is", "was", "were", "are", "to", "about"}
)
"""Words that end a noun phrase: "no sign that the tips…"."""
_NO_BOUNDS: Final = frozenset({"more", "less", "fewer", "longer"})
_TOO_MANY: Final = frozenset({"most", "many", "several", "few", "numerous", "majority", "minority"})
_OWNERS: Final = frozenset(
    {"the", "its", "their", "this", "that", "a", "whose", "second", "as", "at"}
)
PRONOUNS: Final = {
    "nothing": Shape.NONE, "nobody": Shape.NONE, "everything": Shape.ALL, "everybody": Shape.ALL,
    "everyone": Shape.ALL,
}  # fmt: skip
"""Before a word of the facts ("nothing was followed") these count in any sentence."""
_BEING: Final = frozenset({"was", "were", "is", "are", "be", "been", "has", "had", "have"})
NEAR: Final = 3
"""Words between a quantifier and its noun, at most."""


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Return a noun without its plural: tips and tip, retries and retry are one."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def quantity_at(
    tokens: Sequence[Token], at: int, nouns: Collection[str], *, bare: bool = False
) -> tuple[Shape, int] | None:
    """Return NONE or ALL with the index after the word, if the word at ``at`` says so of a noun.

    ``bare``: the sentence cites, so that the word need not stand before a noun of the facts.
    """
    return (bare_at(tokens, at) if bare else None) or _before_noun(tokens, at, nouns)


def _before_noun(
    tokens: Sequence[Token], at: int, nouns: Collection[str]
) -> tuple[Shape, int] | None:
    token = tokens[at]
    following = word_at(tokens, at + 1)
    if token.is_word("none") and following not in {"the", "other", "too"}:
        return Shape.NONE, at + 1
    if token.is_word("no", "zero", "neither") and following not in _NO_BOUNDS:
        return (Shape.NONE, at + 1) if _noun_near(tokens, at, nouns) else None
    told = word_at(tokens, at - 1) in {"was", "were", "had", "has", "have", "been"}
    if token.is_word("never", "always") and told and _noun_near(tokens, at, nouns):
        return (Shape.NONE if token.norm == "never" else Shape.ALL), at + 1
    if token.norm in PRONOUNS and token.kind is TokenKind.WORD:
        verb = at + 1
        while word_at(tokens, verb) in _BEING:
            verb += 1
        said = stem(word_at(tokens, verb)) in nouns
        return (PRONOUNS[token.norm], at + 1) if said else None
    if token.is_word("all", "every", "each") and word_at(tokens, at - 1) not in _SCOPE:
        return (Shape.ALL, at + 1) if _noun_near(tokens, at, nouns) else None
    return None


def vague_at(
    tokens: Sequence[Token], at: int, nouns: Collection[str], *, bare: bool = False
) -> bool:
    """Whether the word at ``at`` states a quantity that no fact can be held against."""
    token = tokens[at]
    if token.kind is not TokenKind.WORD:
        return False
    if bare and vague_part_at(tokens, at):
        return True
    if token.norm in VAGUE or (
        token.norm in {"scores", "tens"} and word_at(tokens, at + 1) == "of"
    ):
        return True
    if token.norm not in _TOO_MANY:
        return False
    if token.norm in {"majority", "minority"}:
        return True
    owned = word_at(tokens, at - 1) in _OWNERS and not token.is_word("few")
    return not owned and _noun_near(tokens, at, nouns)


def _noun_near(tokens: Sequence[Token], at: int, nouns: Collection[str]) -> bool:
    left = NEAR
    plain = tokens[at].norm not in {"never", "always"}
    for token in tokens[at + 1 :]:
        if token.kind is not TokenKind.WORD or not left or token.norm in _CLAUSE:
            return False
        if stem(token.norm) in nouns and (plain or token.norm.endswith(("ed", "en"))):
            return True
        left -= token.norm not in _FILLERS
    return False
