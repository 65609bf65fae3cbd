"""Pairs of tip and script that a person labelled: what one is, and how a file of them is read.

Guarantees: bad rows of a file are all named with their line number and none is used; an undecided
pair is refused, not guessed; the sha256 is that of the very bytes that were read. Pure.

Does not guarantee that the labels are right, or that two files share no rule.

Shaped by a calibration whose dataset existed on no machine any more: figures name their file.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_REPORTED_ROWS: Final = 20


class PairFileError(ValueError):
    """A file of labelled pairs cannot be used; the message names every bad line and the mend."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledPair:
    """A tip, a script, and a person's answer to "was it followed?". `line` is 1-based.

    `rule`: what the script was written for. Pairs of one rule resemble each other, so they are
    resampled and held out together; a file that names no rules is grouped by the text of the tip.
    """

    tip: str
    script: str
    followed: bool
    kind: str
    rule: str
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PairFile:
    """The pairs of one file, and the sha256 (hex) of its bytes."""

    pairs: tuple[LabelledPair, ...]
    sha256: str


def read_pairs(path: Path) -> PairFile:
    """Read JSON lines with the fields tip, script, followed, kind and, if it is known, rule_id.

    Raises PairFileError naming every bad line (the first twenty in full), and for a file without
    pairs. OSError passes through.
    """
    raw = path.read_bytes()
    pairs: list[LabelledPair] = []
    problems: list[str] = []
    for number, row in enumerate(raw.decode("utf-8", errors="replace").split("\n"), start=1):
        if not row.strip():
            continue
        pair = _pair(row, number)
        if isinstance(pair, str):
            problems.append(f"line {number}: {pair}")
        else:
            pairs.append(pair)
    if problems:
        shown = "\n".join(f"  {problem}" for problem in problems[:_REPORTED_ROWS])
        more = len(problems) - _REPORTED_ROWS
        rest = f"\n  and {more} more" if more > 0 else ""
        raise PairFileError(
            f"{path}: {len(problems)} bad rows; correct or remove them:\n{shown}{rest}"
        )
    if not pairs:
        raise PairFileError(f"{path}: no labelled pairs; expected one JSON object a line")
    return PairFile(pairs=tuple(pairs), sha256=hashlib.sha256(raw).hexdigest())


def _pair(row: str, number: int) -> LabelledPair | str:
    """Return the pair of one row, or what is wrong with it."""
    try:
        fields = json.loads(row)
    except json.JSONDecodeError as error:
        return f"not JSON ({error.msg} at column {error.colno})"
    except (RecursionError, ValueError):
        return "not JSON that can be read (nested too deeply, or a number too long)"
    if not isinstance(fields, dict):
        return "not a JSON object"
    missing = [name for name in ("tip", "script", "kind") if not isinstance(fields.get(name), str)]
    if missing:
        return f"`{'`, `'.join(missing)}` must be a text"
    if not isinstance(fields.get("followed"), bool):
        return "`followed` must be true or false (leave undecided pairs out)"
    rule = fields.get("rule_id")
    if rule is not None and not isinstance(rule, str):
        return "`rule_id` must be a text where it is given"
    return LabelledPair(
        tip=fields["tip"],
        script=fields["script"],
        followed=fields["followed"],
        kind=fields["kind"],
        rule=rule or fields["tip"],
        line=number,
    )
