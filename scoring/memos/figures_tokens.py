"""Cuts a memo into tokens, and names every character that could hide a figure.

Guarantees: each ASCII digit of the text is in exactly one token; text that a reader sees differently
from what stands there (hidden characters, look-alike letters and digits, markup, entities) is reported,
so that nothing downstream has to think of it. Emphasis (``*`` and ``_``) is transparent: ``7**2**%``
is a 7 glued to a 2. It understands no numbers.

Source: the attacks on the original gate (fullwidth digits, zero-width spaces, homoglyphs, code spans).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

SPACES: Final = "\u00a0\u202f\u2009"
"""Spaces that may group digits: no-break, narrow no-break, thin."""


class TokenKind(StrEnum):
    """What a token is. A NAME stands in backticks, a CITE is a well-formed citation."""

    NAME = "name"
    CITE = "cite"
    DATE = "date"
    NUM = "num"
    WORD = "word"
    SYM = "sym"


@dataclass(frozen=True, slots=True)
class Token:
    """``norm`` is what the token is compared by; ``glued``: no space before it."""

    kind: TokenKind
    text: str
    start: int
    end: int
    glued: bool
    norm: str

    def is_word(self, *norms: str) -> bool:
        """Whether the token is one of the words ``norms``."""
        return self.kind is TokenKind.WORD and self.norm in norms

    def is_sym(self, chars: str) -> bool:
        """Whether the token is one of the characters ``chars``."""
        return self.kind is TokenKind.SYM and self.text in chars


_LETTER = r"[^\W\d_]"
_TOKENS: Final = re.compile(
    rf"""
    (?P<name>`[^`\n]*`)
  | (?P<cite>\[F[1-9][0-9]{{0,3}}(?:,[ ]?F[1-9][0-9]{{0,3}})*\])
  | (?P<date>(?<![0-9])[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?![0-9]))
  | (?P<num>(?:[0-9]{{1,3}}(?P<sep>[,'\u2019_{SPACES}])[0-9]{{3}}(?:(?P=sep)[0-9]{{3}})*(?![0-9])
                (?:\.[0-9]+)?
            |[0-9]+(?:\.[0-9]+)?
            |(?<![0-9\w])\.[0-9]+)
        (?:[eE][+\-\u2212]?[0-9]+)?)
  | (?P<word>{_LETTER}+(?:(?:\*+|['\u2019]){_LETTER}+)*)
  | (?P<space>\s+)
  | (?P<sym>.)
    """,
    re.VERBOSE,
)
_MARKUP: Final = re.compile(
    r"</?[A-Za-z!?]"  # tags and comments
    r"|&(?:[A-Za-z][A-Za-z0-9]*|\#[0-9]+|\#[xX][0-9A-Fa-f]+);"  # entities
    r"|\]\(|\]\[(?!F[1-9])|!\[|~~|``"  # links, images, struck text, code blocks
    r"|(?m:^[ \t]*\[[^\]\n]*\]:)"  # a link's definition: a reader never sees the line
    r"|\\(?=\S)|\$\$|\\$"  # escapes, formulas
)
_ROMAN: Final = re.compile(r"(?=[IVX]{2}|[IVXL]{3})(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_OTHER_LETTERS: Final = str.maketrans(
    {"\u0131": "i", "\u0142": "l", "\u00f8": "o", "\u0111": "d", "\u0127": "h", "\u0167": "t"}
    | {"\u00f0": "d", "\u00e6": "ae", "\u0153": "oe", "\u00df": "ss", "\u014b": "n"}
)
_PLAIN_LETTERS: Final = range(0xC0, 0x180)
"""Latin-1 and Latin Extended-A: the letters beside ASCII in which English names are written."""
_HARMLESS: Final = frozenset("\u00a0\u202f\u2009\u2026\u2122\u00a7\u00b7\u2022")
_SIGNS: Final = frozenset("\u00a9\u00ae\u2713\u2714\u2717\u2718")
_NUMBER_SIGNS: Final = frozenset("%$\u20ac\u00a3\u00a5\u2030\u00b1\u2248~<>\u2264\u2265\u00d7")


@lru_cache(maxsize=4096)
def folded(word: str) -> str:
    """Return a word as it is compared: lower case, no accents, no emphasis, no possessive s."""
    shown = word.replace("*", "").replace("\u2019", "'").casefold().translate(_OTHER_LETTERS)
    if not shown.isascii():
        parts = unicodedata.normalize("NFKD", shown)
        shown = "".join(char for char in parts if not unicodedata.combining(char))
    return shown.removesuffix("'s")


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of ``text``, in order, without spaces and emphasis."""
    found: list[Token] = []
    glued = False
    for match in _TOKENS.finditer(text.replace("\r\n", " \n")):
        kind = match.lastgroup
        shown = match.group()
        if kind == "space":
            glued = False
            continue
        if kind == "sym" and shown in "*_":
            continue
        norm = folded(shown) if kind == "word" else shown
        found.append(
            Token(TokenKind(kind or "sym"), shown, match.start(), match.end(), glued, norm)
        )
        glued = True
    return found


def hidden_in(text: str, tokens: list[Token]) -> list[tuple[int, int, str]]:
    """Return spans of ``text`` that a reader may see otherwise than the gate does, with the cause.

    What stands in backticks is left out: a name is compared with a known one, character by character.
    """
    names = [(token.start, token.end) for token in tokens if token.kind is TokenKind.NAME]
    shown = list(text)
    for start, end in names:
        shown[start:end] = " " * (end - start)
    outside = "".join(shown)
    found = [
        (match.start(), match.end(), "markup that changes what is seen")
        for match in _MARKUP.finditer(outside)
    ]
    found += [(at, at + 1, cause) for at, char in enumerate(outside) if (cause := _cause(char))]
    found += [
        (token.start, token.end, "a Roman numeral")
        for token in tokens
        if token.kind is TokenKind.WORD and _is_roman(token.text.replace("*", ""))
    ]
    return found


def _is_roman(word: str) -> bool:
    """Whether a word is a numeral of two letters or more; vi and xi are an editor and a letter too."""
    cased = word.isupper() or (word.islower() and word not in {"vi", "xi"})
    return cased and bool(_ROMAN.fullmatch(word.upper()))


@lru_cache(maxsize=4096)
def _cause(char: str) -> str:
    if char.isascii():
        control = ord(char) < 32 and char not in "\n\t\r"
        return "a hidden character" if control or char == "\x7f" else ""
    category = unicodedata.category(char)
    unseen = not char.isprintable() and category != "Zs"
    if category[0] == "C" or category in {"Zl", "Zp"} or unseen:
        return "a hidden character"
    if char in _HARMLESS:
        return ""
    if category == "So" and char not in _SIGNS:
        return "a picture that can stand for a number or a word"
    if category[0] == "N":
        return "a digit or number that is not plain 0 to 9"
    if category[0] == "M":
        return "a mark that changes the character before it"
    if category[0] == "L":
        # ordinal signs, long s, ligatures and small capitals are no plain letters either
        plain = ord(char) in _PLAIN_LETTERS and unicodedata.normalize("NFKC", char) == char
        return "" if plain else "a letter that can pass for another"
    shown = unicodedata.normalize("NFKC", char)
    if (
        shown != char
        and category not in {"Zs"}
        and shown.strip()
        and (shown.isalnum() or shown.isascii())
    ):
        return "a character that can pass for another"
    if category == "Zs" and char not in SPACES:
        return "a space that is not seen as one"
    return ""


def is_number_sign(token: Token) -> bool:
    """Whether the token only makes sense beside a figure."""
    return token.kind is TokenKind.SYM and token.text in _NUMBER_SIGNS
