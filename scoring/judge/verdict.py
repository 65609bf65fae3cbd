"""What the judge must answer, and the one way in which an answer is read.

`parse_verdict` is pure: a string goes in, a `Verdict` or a typed `VerdictError` comes out. The
text must BE the object of `VERDICT_SCHEMA`. Three things are forgiven, because correct servers
really send them: raw control characters inside strings, one leading closed ``<think>`` block, one
outer code fence. Nothing is searched for, nothing is repaired, nothing is assumed.

It does not say whether the verdict is right. Shaped by graders that harvested the first thing
that looked like JSON (so a judged text holding a verdict won), read a missing field as a pass,
or destroyed a valid reply by stripping fences before trying it as it is (ADR-0006, ADR-0019).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Final, NoReturn

from scoring.judge.errors import JudgeError

MAX_REASONING_CHARS: Final = 400
MAX_CONTENT_CHARS: Final = 65_536
"""A reply longer than this is a loop, whatever it decodes to."""

VERDICT_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        "followed": {"type": "boolean"},
        "reasoning": {"type": "string", "maxLength": MAX_REASONING_CHARS},
    },
    "required": ["followed", "reasoning"],
    "additionalProperties": False,
}
"""Sent with every question, and checked again here: servers exist that ignore it silently."""

_BLANK = " \t\r\n"  # JSON's own white space; anything else around the object is a foreign character
_FENCE = re.compile(r"\A(```|~~~)[ \t]*(?:json)?[ \t]*\r?\n(.*)\n[ \t]*\1\Z", re.DOTALL | re.I)
_THINK = re.compile(r"\A<think>.*?</think>", re.DOTALL)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class VerdictError(JudgeError):
    """The reply is not a verdict. The class names what is wrong with it."""


class VerdictNotJson(VerdictError):
    """The reply, after the permitted stripping, is not JSON."""


class VerdictTooLong(VerdictError):
    """The reply or its reasoning is longer than the schema or `MAX_CONTENT_CHARS` allows."""


class VerdictDuplicateKey(VerdictError):
    """A key stands twice in one object, so that two readers could see two verdicts."""


class VerdictNumberInvalid(VerdictError):
    """NaN, an infinity, or a number too large to be read."""


class VerdictNotObject(VerdictError):
    """JSON, but a list, string, number, boolean or null."""


class VerdictFieldMissing(VerdictError):
    """A required field is absent."""


class VerdictFieldUnknown(VerdictError):
    """A field is there that the schema does not have."""


class VerdictFieldType(VerdictError):
    """``followed`` is not a JSON boolean, or ``reasoning`` is not a string."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer. ``reasoning`` has at most 400 characters and can be stored as text."""

    followed: bool
    reasoning: str


def storable(text: str) -> str:
    """Return ``text`` without what Postgres text cannot hold: U+0000 and lone surrogates."""
    return _UNSTORABLE.sub(lambda hit: "\u2400" if hit[0] == "\x00" else "\ufffd", text)


def parse_verdict(content: str) -> Verdict:
    """Read the content of a judge's reply, or raise the `VerdictError` that names its defect."""
    if len(content) > MAX_CONTENT_CHARS:
        raise VerdictTooLong(f"the reply has {len(content)} characters, over {MAX_CONTENT_CHARS}")
    return _checked(_decoded(content))


def _decoded(content: str) -> object:
    """Decode the text as it is; only if that fails, decode it without think block and fence."""
    try:
        return _loads(content)
    except VerdictNotJson as as_it_is:
        bare = _THINK.sub("", content.strip(_BLANK), count=1).strip(_BLANK)
        fenced = _FENCE.match(bare)
        core = fenced[2] if fenced else bare
        if core == content.strip(_BLANK):
            raise
        try:
            return _loads(core)
        except VerdictNotJson as stripped:
            raise stripped from as_it_is


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


def _checked(value: object) -> Verdict:
    if not isinstance(value, dict):
        raise VerdictNotObject(f"the reply is a JSON {type(value).__name__}, not an object")
    fields = {"followed", "reasoning"}
    if missing := fields - value.keys():
        raise VerdictFieldMissing(f"the reply lacks {', '.join(sorted(missing))}")
    if extra := value.keys() - fields:
        raise VerdictFieldUnknown(f"the reply has {len(extra)} field(s) beyond the schema")
    followed, reasoning = value["followed"], value["reasoning"]
    if not isinstance(followed, bool):
        raise VerdictFieldType(f"followed is a {type(followed).__name__}, not a boolean")
    if not isinstance(reasoning, str):
        raise VerdictFieldType(f"reasoning is a {type(reasoning).__name__}, not a string")
    if len(reasoning) > MAX_REASONING_CHARS:
        raise VerdictTooLong(
            f"reasoning has {len(reasoning)} characters, over {MAX_REASONING_CHARS}"
        )
    return Verdict(followed=followed, reasoning=storable(reasoning))
