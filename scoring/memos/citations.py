"""Citations of a memo: where sentences end, and which figure is bound to which fact.

Guarantees: a figure is bound to the next citation of its own sentence, one figure to one reference, in
order; a figure that no reference is left for is bound to nothing. A citation that follows the full stop
belongs to the sentence before it; one on the next line to its paragraph. Abbreviations end no sentence,
and where it is in doubt sentences stay joined: that never lends a figure another's source, because a
reference is used once. It does not look at values.

Source: holes 1 and 8 of the original gate (any figure could match any citation of its segment).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_tokens import Token, TokenKind, tokens_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scoring.memos.figures_model import Figure

ABBREVIATIONS: Final = frozenset({
    "vs", "e", "g", "i", "eg", "ie", "etc", "inc", "ltd", "co", "corp", "no", "nos", "approx",
    "fig", "figs", "cf", "al", "dr", "mr", "ms", "mrs", "prof", "st", "u", "s", "resp", "est",
    "min", "max", "avg", "dept", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept",
    "oct", "nov", "dec", "ca", "incl", "excl", "sec", "vol", "jr", "sr", "llc", "plc", "pct", "tot",
})  # fmt: skip
_NEW_BLOCK: Final = re.compile(r"[ \t]*(?:[-+*\u2022][ \t]|#{1,6}[ \t]|[|>]|[0-9]+[.)][ \t])")
_OWN_LINE: Final = re.compile(r"[ \t]*(?:#{1,6}[ \t]|\|)")
_CLOSERS: Final = ")\"'\u201d\u2019\u00bb"


@dataclass(frozen=True, slots=True)
class Sentence:
    """The tokens of one sentence; ``paragraph`` counts blocks of the memo from 0.

    ``is_row``: the block is a row of a table.
    """

    tokens: tuple[Token, ...]
    paragraph: int
    is_row: bool = False


@dataclass(frozen=True, slots=True)
class Citing:
    """References that stand together, after one another; ``at`` is a token index in the sentence."""

    refs: tuple[str, ...]
    at: int
    stop: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A figure and the citation it stands with; ``ref`` is "" when there is none left for it."""

    figure: Figure
    ref: str
    citing: Citing | None


def sentences_of(text: str, tokens: Sequence[Token] | None = None) -> list[Sentence]:
    """Return the sentences of ``text``, without bullets and the numbers of numbered lists.

    ``tokens`` are those of ``text``, if the caller has them.
    """
    found: list[Sentence] = []
    for number, block in enumerate(
        _without_numbers(text, _blocks(text, tokens or tokens_of(text)))
    ):
        row = any(token.is_sym("|") for token in block)
        found += [Sentence(tuple(part), number, row) for part in _split(block) if part]
    return found


def _blocks(text: str, tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the tokens of each paragraph, bullet, heading and table row."""
    starts = _block_starts(text)
    blocks: dict[int, list[Token]] = {}
    for token in tokens:
        blocks.setdefault(bisect_right(starts, token.start), []).append(token)
    return [_without_bullet(block) for block in blocks.values()]


def _block_starts(text: str) -> list[int]:
    starts, at, fresh = [0], 0, True
    for line in text.splitlines(keepends=True):
        if fresh or _NEW_BLOCK.match(line):
            starts.append(at)
        fresh = not line.strip() or bool(_OWN_LINE.match(line))
        at += len(line)
    return starts


def _without_bullet(block: list[Token]) -> list[Token]:
    at = 0
    while at < len(block) - 1 and block[at].is_sym("-+#|>\u2022"):
        if not block[at].is_sym("|#") and block[at + 1].glued:
            break
        at += 1
    return block[at:]


def _without_numbers(text: str, blocks: list[list[Token]]) -> list[list[Token]]:
    """Take the markers 1., 2., 3.… off a numbered list of two items or more, which begins as one."""
    marks = [(at, int(block[0].text)) for at, block in enumerate(blocks) if _is_item(text, block)]
    kept = list(blocks)
    run: list[int] = []
    for at, number in [*marks, (-1, 0)]:
        if number != len(run) + 1:
            if len(run) > 1:
                for item in run:
                    kept[item] = blocks[item][2:]
            run = []
        if number == len(run) + 1 and (run or _may_begin(text, blocks, at)):
            run.append(at)
    return kept


def _is_item(text: str, block: list[Token]) -> bool:
    if len(block) < 3 or block[0].kind is not TokenKind.NUM or not block[0].text.isdigit():
        return False
    line = text[text.rfind("\n", 0, block[0].start) + 1 : block[0].start]
    return len(block[0].text) < 3 and block[1].is_sym(".)") and block[1].glued and (
        not line.strip() and not block[2].glued
    )  # fmt: skip


def _may_begin(text: str, blocks: list[list[Token]], at: int) -> bool:
    if at <= 0 or not blocks[at - 1]:
        return at == 0
    last = blocks[at - 1][-1]
    gap = text[last.end : blocks[at][0].start]
    line = text[text.rfind("\n", 0, last.start) + 1 : last.end]
    closed = last.kind is TokenKind.CITE or last.is_sym(".:!?") or bool(_OWN_LINE.match(line))
    return closed or gap.count("\n") > 1


def _split(block: Sequence[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    at = 0
    while at < len(block):
        parts[-1].append(block[at])
        if _ends(block, at):
            at += 1
            while at < len(block) and block[at].is_sym(_CLOSERS) and block[at].glued:
                parts[-1].append(block[at])
                at += 1
            while at < len(block) and block[at].kind is TokenKind.CITE and _trails(block, at):
                parts[-1].append(block[at])
                at += 1
            parts.append([])
            continue
        at += 1
    return parts


def _ends(block: Sequence[Token], at: int) -> bool:
    """Whether the sentence ends with the token at ``at``."""
    token = block[at]
    if not token.is_sym(".!?"):
        return False
    after = at + 1
    while after < len(block) and block[after].is_sym(_CLOSERS) and block[after].glued:
        after += 1
    if after >= len(block):
        return True
    if block[after].glued and block[after].kind is not TokenKind.CITE:
        return False
    before = block[at - 1] if at else None
    if token.text == "." and before is not None and before.kind is TokenKind.WORD and token.glued:
        short = before.norm in ABBREVIATIONS or len(before.norm) == 1
        if short:
            return False
    following = block[after]
    return not (following.kind is TokenKind.WORD and following.text[0].islower())


def _trails(block: Sequence[Token], at: int) -> bool:
    """Whether a citation after a full stop belongs to the sentence before."""
    following = block[at + 1] if at + 1 < len(block) else None
    if following is None or following.kind in {TokenKind.CITE, TokenKind.NAME}:
        return True
    begins = following.kind is TokenKind.WORD and following.text[0].isupper()
    return begins or following.is_sym(".|")


def citings_of(tokens: Sequence[Token]) -> list[Citing]:
    """Return the citations of a sentence; those that stand side by side are one."""
    found: list[Citing] = []
    for at, token in enumerate(tokens):
        if token.kind is not TokenKind.CITE:
            continue
        refs = tuple(part.strip() for part in token.text[1:-1].split(","))
        if found and found[-1].stop == at:
            last = found.pop()
            found.append(Citing(last.refs + refs, last.at, at + 1, last.start, token.end))
        else:
            found.append(Citing(refs, at, at + 1, token.start, token.end))
    return found


def bind(figures: Sequence[Figure], citings: Sequence[Citing]) -> list[Bound]:
    """Bind each figure of a sentence; the result is in the order of the figures.

    Of more figures than references before a citation, the last ones are bound. Figures after the last
    citation take it if no figure stands before it ("As [F1] says, 5 of them…").
    """
    bound: list[Bound] = []
    waiting = list(figures)
    unused: Citing | None = None
    for citing in citings:
        before = [figure for figure in waiting if figure.first < citing.at]
        waiting = waiting[len(before) :]
        spare = max(0, len(before) - len(citing.refs))
        bound += [Bound(figure, "", citing) for figure in before[:spare]]
        bound += [Bound(*pair, citing) for pair in zip(before[spare:], citing.refs, strict=False)]
        unused = None if before else citing
    if unused is not None and len(waiting) <= len(unused.refs):
        pairs = zip(waiting, unused.refs, strict=False)
        return bound + [Bound(*pair, unused) for pair in pairs]
    return bound + [Bound(figure, "", None) for figure in waiting]
