"""Puts judged text where it can be seen whole and cannot pose as anything but text.

Guarantees: between the fences that `fenced` draws, no line can close the fence or open another, no
character is invisible, and nothing reads as a turn of a chat template; `as_written` undoes what was
made visible, so that a quote of the shown text can be looked for in the original. Marks and ids are
random; a text that guesses one finds it replaced.

It does not stop a model from being talked into something inside the fences. Shaped by judged texts
that closed the quotation they stood in and went on with a verdict of their own.
"""

from __future__ import annotations

import re
import secrets
from typing import Final

MARK_CHARS: Final = 16
_MARK = re.compile(rf"[0-9a-f]{{{MARK_CHARS}}}")
# C0 and C1 controls (tab and line ends apart), zero-width, bidi, separators, tags, surrogates.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff\ud800-\udfff]|\r(?!\n)"
)
_MADE_VISIBLE = re.compile(r"<U\+([0-9A-F]{4,6})>")
# Tokenizers of chat models read these as turns of the conversation, wherever they stand.
_CHAT_SHAPE = (
    r"<{gap}(?=[|\uff5c][^|\uff5c<>\s]{{1,40}}[|\uff5c]>|(?:start|end)_of_turn>|/?s>|/?think>)"
    r"|\[{gap}(?=/?INST\])"
)
_OWN_SHAPE = r"\[{gap}(?=\[\s*(?:SCRIPT|TIP)(?:\s+\S+){{1,2}}\s+(?:BEGIN|END)\s*\]\])"
_CHAT_TOKEN = re.compile(_CHAT_SHAPE.format(gap=""), re.IGNORECASE)
_FENCE_SHAPE = re.compile(_OWN_SHAPE.format(gap=""), re.IGNORECASE)
_PARTED = re.compile(f"{_CHAT_SHAPE.format(gap=' ')}|{_OWN_SHAPE.format(gap=' ')}", re.IGNORECASE)


def new_mark() -> str:
    """Return a random mark for the fences of one question: 64 bits, 16 hex digits.

    One mark may serve all questions about one script, so that a server's prefix cache keeps it.
    """
    return secrets.token_hex(MARK_CHARS // 2)


def new_ids(count: int) -> tuple[str, ...]:
    """Return ``count`` distinct random names for the tips of one question."""
    names: dict[str, None] = {}
    while len(names) < count:
        names[f"t{secrets.token_hex(3)}"] = None
    return tuple(names)


def is_mark(text: str) -> bool:
    """Whether a text has the shape of a mark."""
    return _MARK.fullmatch(text) is not None


def neutralised(text: str) -> str:
    """Return judged text with invisible characters as ``<U+XXXX>``.

    A blank parts the first two characters of whatever looks like a fence of ours or like a token of
    a chat template.
    """
    text = _INVISIBLE.sub(lambda hit: f"<U+{ord(hit[0]):04X}>", text)
    return _FENCE_SHAPE.sub("[ ", _CHAT_TOKEN.sub(lambda hit: f"{hit[0]} ", text))


def as_written(text: str) -> str:
    """Return shown text as it was before `neutralised`; for quotes, which come back shown."""
    text = _PARTED.sub(lambda hit: hit[0][0], text)
    return _MADE_VISIBLE.sub(_raw, text)


def _raw(hit: re.Match[str]) -> str:
    number = int(hit[1], 16)
    char = chr(number) if number <= 0x10FFFF else ""
    return char if char and _INVISIBLE.fullmatch(char) else hit[0]


def fenced(name: str, text: str, mark: str) -> str:
    """Return neutralised text between the lines ``[[name mark BEGIN]]`` and ``[[name mark END]]``."""
    inside = text.replace(mark, "<mark>").rstrip("\r\n")
    return f"[[{name} {mark} BEGIN]]\n{inside}\n[[{name} {mark} END]]"
