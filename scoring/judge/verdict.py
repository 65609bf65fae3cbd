"""What the judge must answer, and the one way in which an answer is read.

`parse_reply` is pure: the content of a reply and the ids that were asked about go in; every id comes
out as a `Verdict`, as missing or as refused with a class, or the whole reply is refused by raising a
`VerdictError`. No id gets a label that the reply does not state, and a label that its own checklist
contradicts is refused. No field of a reply can change how the reply is checked.

Verdicts are keyed by id: what a schema enforces then includes that each id is answered once. As a
list they let a guided model name one id twice and another never, and call it valid.

It does not say whether a quote is really in the script (`scoring.judge.evidence` does), nor whether
the verdict is right. Shaped by graders that read a missing field as a pass, matched verdicts to
items by position, or rated a tip as followed without one line of evidence (ADR-0006, ADR-0019).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from scoring.judge.decoding import decoded, storable
from scoring.judge.errors import (
    VerdictContradiction,
    VerdictError,
    VerdictFieldMissing,
    VerdictFieldType,
    VerdictFieldUnknown,
    VerdictIdInvalid,
    VerdictNoClaims,
    VerdictNotObject,
    VerdictTooLong,
    VerdictValueUnknown,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Claim",
    "Finding",
    "Label",
    "Parsed",
    "Verdict",
    "VerdictError",
    "followed_of",
    "parse_reply",
    "storable",
    "verdict_schema",
]

MAX_CLAIMS: Final = 6
MAX_ID_CHARS: Final = 32
MAX_IDS: Final = 64
"""Tips in one question at most; an attempt retrieves about five."""
MAX_CHARS: Final = {"claim": 200, "quote": 300, "why": 200, "reasoning": 400}
"""Code points of each text of a verdict, as ``maxLength`` counts them."""


class Label(StrEnum):
    """What the script did about a tip."""

    FOLLOWED = "followed"
    CONTRADICTED = "contradicted"
    NOT_FOLLOWED = "not_followed"
    NOT_APPLICABLE = "not_applicable"
    UNCLEAR = "unclear"


class Finding(StrEnum):
    """What the script did about one claim of a tip."""

    DONE = "done"
    OPPOSITE = "opposite"
    ABSENT = "absent"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of the checklist. ``quote`` is script text as the judge gave it, not yet verified."""

    claim: str
    finding: Finding
    quote: str
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer about one tip; all its texts can be stored."""

    id: str
    label: Label
    claims: tuple[Claim, ...]
    reasoning: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A reply, read: each id that was asked about is in exactly one of the three.

    ``stripped`` says what had to be taken off the reply to read it ("", "fence", "think", both).
    """

    verdicts: dict[str, Verdict]
    missing: tuple[str, ...]
    refused: dict[str, VerdictError]
    stripped: str = ""


_Word = TypeVar("_Word", bound=StrEnum)
_NEEDS: Final = {
    Label.FOLLOWED: Finding.DONE,
    Label.CONTRADICTED: Finding.OPPOSITE,
    Label.NOT_FOLLOWED: Finding.ABSENT,
}
_CLAIM_FIELDS: Final = ("claim", "finding", "quote", "why")
_VERDICT_FIELDS: Final = ("claims", "reasoning", "label")
"""In the order in which a model must write them: the checklist first, the label last."""


def followed_of(label: Label) -> bool | None:
    """Return ``tip_followed_llm``: None for not_applicable and unclear, which are no judgement."""
    match label:
        case Label.FOLLOWED:
            return True
        case Label.CONTRADICTED | Label.NOT_FOLLOWED:
            return False
        case _:
            return None


def verdict_schema(ids: Sequence[str]) -> dict[str, object]:
    """Return the JSON schema of a reply about ``ids``: every field required, every size capped.

    ``{"verdicts": {id: {"claims": [...], "reasoning": ..., "label": ...}, ...}}``: a key for each id,
    in the order of ``ids``, and no other. It is sent with every question and checked again here:
    servers exist that ignore it silently. The schema of a verdict is written out at each key, since
    some servers do not resolve a ``$ref``.
    Raises ValueError on ids that are none, too many, too long or not distinct.
    """
    asked = _checked_ids(ids)
    claim = _object(
        claim=_text("claim"),
        finding={"type": "string", "enum": [finding.value for finding in Finding]},
        quote=_text("quote"),
        why=_text("why"),
    )
    verdict = _object(
        claims={"type": "array", "items": claim, "minItems": 1, "maxItems": MAX_CLAIMS},
        reasoning=_text("reasoning"),
        label={"type": "string", "enum": [label.value for label in Label]},
    )
    return _object(verdicts=_object(**dict.fromkeys(asked, verdict)))


def parse_reply(content: str, ids: Sequence[str]) -> Parsed:
    """Read the content of a reply about ``ids``.

    Raises a `VerdictError` when the whole reply is unusable: not the JSON object of the schema, an id
    twice (`VerdictDuplicateKey`) or one that was not asked about (`VerdictIdInvalid`). Raises
    ValueError on ``ids`` that could not have been asked about.
    """
    asked = _checked_ids(ids)
    value, stripped = decoded(content)
    body = _fields(value, ("verdicts",), where="the reply")
    by_id = _by_id(body["verdicts"], asked)
    verdicts: dict[str, Verdict] = {}
    refused: dict[str, VerdictError] = {}
    for name, item in by_id.items():
        try:
            verdicts[name] = _verdict(name, item)
        except VerdictError as error:
            refused[name] = error
    missing = tuple(name for name in asked if name not in by_id)
    return Parsed(verdicts=verdicts, missing=missing, refused=refused, stripped=stripped)


def _by_id(value: object, asked: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(value, dict):
        raise VerdictFieldType(f"verdicts is a {type(value).__name__}, not an object")
    if value.keys() - set(asked):
        raise VerdictIdInvalid("a verdict stands under an id that was not asked about")
    return value


def _verdict(name: str, item: object) -> Verdict:
    fields = _fields(item, _VERDICT_FIELDS, where="a verdict")
    lines = _list(fields["claims"], "claims")
    if not lines:
        raise VerdictNoClaims("the checklist of a verdict is empty")
    if len(lines) > MAX_CLAIMS:
        raise VerdictTooLong(f"the checklist has {len(lines)} claims, over {MAX_CLAIMS}")
    claims = tuple(_claim(line) for line in lines)
    label = _member(Label, fields["label"], "label")
    _check_agreement(label, {claim.finding for claim in claims})
    reasoning = _checked_text(fields["reasoning"], "reasoning")
    return Verdict(id=name, label=label, claims=claims, reasoning=reasoning)


def _claim(line: object) -> Claim:
    fields = _fields(line, _CLAIM_FIELDS, where="a claim")
    return Claim(
        claim=_checked_text(fields["claim"], "claim"),
        finding=_member(Finding, fields["finding"], "finding"),
        quote=_checked_text(fields["quote"], "quote"),
        why=_checked_text(fields["why"], "why"),
    )


def _check_agreement(label: Label, findings: set[Finding]) -> None:
    """A label stands on its checklist; mixed findings are the judge's to weigh, none are not.

    not_followed may stand beside a done claim (the smaller part of a tip), not on done ones alone.
    """
    needed = _NEEDS.get(label)
    if needed is not None and needed not in findings:
        raise VerdictContradiction(f"the label is {label}, and no claim of it is {needed}")
    acts = findings & {Finding.DONE, Finding.OPPOSITE}
    if label is Label.NOT_APPLICABLE and acts:
        raise VerdictContradiction(f"the label is {label}, and a claim is {min(acts)}")


def _fields(value: object, names: tuple[str, ...], *, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise VerdictNotObject(f"{where} is a JSON {type(value).__name__}, not an object")
    if missing := set(names) - value.keys():
        raise VerdictFieldMissing(f"{where} lacks {', '.join(sorted(missing))}")
    if extra := value.keys() - set(names):
        raise VerdictFieldUnknown(f"{where} has {len(extra)} field(s) beyond the schema")
    return value


def _list(value: object, name: str) -> list[object]:
    if not isinstance(value, list):
        raise VerdictFieldType(f"{name} is a {type(value).__name__}, not a list")
    return value


def _member(words: type[_Word], value: object, name: str) -> _Word:
    if not isinstance(value, str):
        raise VerdictFieldType(f"{name} is a {type(value).__name__}, not a string")
    try:
        return words(value)
    except ValueError:
        raise VerdictValueUnknown(f"{name} is none of {', '.join(words)}") from None


def _checked_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise VerdictFieldType(f"{name} is a {type(value).__name__}, not a string")
    if len(value) > MAX_CHARS[name]:
        raise VerdictTooLong(f"{name} has {len(value)} characters, over {MAX_CHARS[name]}")
    return storable(value)


def _checked_ids(ids: Sequence[str]) -> tuple[str, ...]:
    asked = tuple(ids)
    if not 1 <= len(asked) <= MAX_IDS or len(set(asked)) != len(asked):
        raise ValueError(f"ids must be 1 to {MAX_IDS} distinct names, not {len(asked)}")
    if not all(name and len(name) <= MAX_ID_CHARS for name in asked):
        raise ValueError(f"an id has 1 to {MAX_ID_CHARS} characters")
    return asked


def _object(**properties: dict[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _text(name: str) -> dict[str, object]:
    return {"type": "string", "maxLength": MAX_CHARS[name]}
