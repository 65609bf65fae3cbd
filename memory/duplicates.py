"""Whether two tips are one piece of advice in other words, so that a prompt does not hold it five times.

Guarantees: equal texts (but for case, spaces and the last full stop) are the same advice; otherwise it
takes a cosine from the threshold on between vectors of one encoder, and in addition the same literals
(numbers, paths, options, settings) and the same direction. A sentence vector sees the topic: "set it to
0600" and "set it to 0640", "edit it" and "never edit it" are neighbours, and are never one advice here.
Does not merge tips and splits no credit: the rows of each stay its own.

Shaped by: five tips in a prompt, four of which said the same (upstream, five times the crypto policy).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from memory.tip_vectors import exact_cosines

if TYPE_CHECKING:
    from memory.encoders import FloatArray

NEGATIONS: Final = re.compile(
    r"\b(?:not|no|never|nor|without|avoid\w*|instead|rather|except|unless|only|disable\w*|remove\w*|"
    r"stop\w*|deny|denied|fail\w*|off|false|cannot)\b|n['’]t\b"
)
"""Words that turn advice round. Two texts must hold the same ones, as often, to be one advice."""
LITERAL: Final = re.compile(r"\S*[\d/=_]\S*|(?<!\S)-{1,2}\w\S*")
"""What is taken by the letter: numbers, paths, assignments, names with an underscore, options."""
_EDGES: Final = ".,;:!?\"'`()[]"


@dataclass(frozen=True, eq=False)
class Advice:
    """A tip's text, and its vector with the name of the encoder that gave it, if it has one."""

    text: str
    vector: FloatArray | None = None
    encoder: str = ""

    @cached_property
    def plain(self) -> str:
        """The text without what does not matter: case, kind and number of spaces, the last full stop."""
        folded = unicodedata.normalize("NFKC", self.text).casefold()
        return " ".join(folded.split()).rstrip(".")

    @cached_property
    def letter(self) -> tuple[frozenset[str], tuple[str, ...]]:
        """Literals, and the words that turn the advice round."""
        literals = (found.group().strip(_EDGES) for found in LITERAL.finditer(self.plain))
        return frozenset(filter(None, literals)), tuple(sorted(NEGATIONS.findall(self.plain)))


def words_sha256(text: str) -> str:
    """64 hex digits, the same for texts that are one advice by their words alone; "" if it has none."""
    plain = Advice(text).plain
    return hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest() if plain else ""


def same_advice(one: Advice, other: Advice, *, threshold: float) -> tuple[bool, float | None]:
    """Whether they say the same, and their cosine (None: equal texts, or nothing to compare).

    *threshold*: cosine in (0, 1]; 1: nothing is a duplicate.
    """
    if threshold >= 1.0:
        return False, None
    if one.plain == other.plain:
        return True, None
    if one.vector is None or other.vector is None or one.encoder != other.encoder:
        return False, None
    if one.vector.shape != other.vector.shape or one.letter != other.letter:
        return False, None
    (cosine,) = exact_cosines(one.vector[None, :], other.vector)
    return cosine >= threshold, cosine
