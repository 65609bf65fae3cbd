"""Reads the text of a reply as JSON, strictly, and says what had to be taken off to do so.

Guarantees: `decoded` returns a JSON value without duplicate keys and without NaN or infinities, or
raises the `VerdictError` that names the defect; any string of any length ends in one of the two, in
time linear in its length. Three things are forgiven, because correct servers really send them: raw
control characters inside strings, one outer code fence, one leading closed ``<think>`` block.
Nothing is searched for and nothing is repaired; whether the value is a verdict is not asked here.

Shaped by graders that harvested the first thing that looked like JSON (so a judged text holding a
verdict won), and by one that stripped fences before trying the reply as it was, which destroyed
valid replies whose reasons held backticks.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final, NoReturn

from scoring.judge.errors import (
    VerdictDuplicateKey,
    VerdictNotJson,
    VerdictNumberInvalid,
    VerdictTooLong,
)

MAX_CONTENT_CHARS: Final = 262_144
"""A reply longer than this is a loop, whatever it decodes to."""

_BLANK = " \t\r\n"  # JSON's own white space; anything else around the object is a foreign character
_FENCES = {"```", "~~~"}
_LANGUAGES = {"", "json"}
_THINK, _THOUGHT = "<think>", "</think>"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """Return ``text`` without what Postgres text cannot hold: U+0000 and lone surrogates."""
    return _UNSTORABLE.sub(lambda hit: "\u2400" if hit[0] == "\x00" else "\ufffd", text)


def decoded(content: str) -> tuple[object, str]:
    """Return the JSON value of a reply, and what was taken off: "", "fence", "think" or both.

    Raises a `VerdictError`.
    """
    if len(content) > MAX_CONTENT_CHARS:
        raise VerdictTooLong(f"the reply has {len(content)} characters, over {MAX_CONTENT_CHARS}")
    try:
        return _loads(content), ""
    except VerdictNotJson as as_it_is:
        core, stripped = _stripped(content.strip(_BLANK))
        if not stripped:
            raise
        try:
            return _loads(core), stripped
        except VerdictNotJson as bare:
            raise bare from as_it_is


def _stripped(text: str) -> tuple[str, str]:
    """Take off one leading closed think block, then one outer fence."""
    taken: list[str] = []
    if text.startswith(_THINK) and _THOUGHT in text:
        text = text.partition(_THOUGHT)[2].strip(_BLANK)
        taken.append("think")
    opening, line_end, rest = text.partition("\n")
    fence, language = opening[:3], opening[3:].strip(_BLANK).lower()
    inside, _, last = rest.rpartition("\n")
    opens = fence in _FENCES and language in _LANGUAGES and line_end
    if opens and last.strip(" \t") == fence:
        text = inside
        taken.append("fence")
    return text, "+".join(taken)


def _loads(text: str) -> object:
    try:
        return json.loads(
            text,
            strict=False,
            object_pairs_hook=_unique,
            parse_constant=_not_a_number,
            parse_float=_finite,
            parse_int=_integer,
        )
    except json.JSONDecodeError as exc:
        raise VerdictNotJson(f"the reply is not JSON ({exc.msg} at character {exc.pos})") from None
    except RecursionError:
        raise VerdictNotJson("the reply is nested too deeply to be read") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise VerdictDuplicateKey("a key stands twice in the reply")
    return found


def _not_a_number(_: str) -> NoReturn:
    raise VerdictNumberInvalid("the reply holds NaN or an infinity")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise VerdictNumberInvalid("the reply holds a number beyond every float")
    return number


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # Python refuses integers of more than 4,300 digits
        raise VerdictNumberInvalid(f"the reply holds an integer of {len(digits)} digits") from None
