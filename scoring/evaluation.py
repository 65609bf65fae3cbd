"""How well an attribution signal agrees with labelled pairs: AUC, accuracy, coverage, by kind.

Guarantees: pure functions of labels and scores; bad rows of a file are all named with their line
number and none is used; a figure that is not defined is None, never 0. Abstaining is counted three
ways: as 0.5 in `auc`, left out in `auc_decided` and `accuracy_decided`, as wrong in `accuracy_all`.

Where a kind holds one label only (every pair of "opposite_direction" is a not-followed one), its
AUC compares it with all pairs of the other label; `borrowed` says so.

Does not guarantee that labels are right, or that figures on one file hold for another.

Shaped by an overall AUC of 0.79 that hid chance level on the only kind that mattered.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sklearn.metrics import roc_auc_score

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ALL_KINDS: Final = "all"
ABSTAINED_SCORE: Final = 0.5
_REPORTED_ROWS: Final = 20


class PairFileError(ValueError):
    """A file of labelled pairs cannot be used; the message names every bad line and the mend."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledPair:
    """A tip, a script, and a person's answer to "was it followed?". `line` is 1-based."""

    tip: str
    script: str
    followed: bool
    kind: str
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """Figures of one signal on one kind of pairs. Rates are in [0, 1], None when not defined.

    `coverage` is the share of pairs that the signal decides; `borrowed` that the other label came
    from all other kinds.
    """

    kind: str
    n: int
    followed: int
    auc: float | None
    auc_decided: float | None
    accuracy_decided: float | None
    accuracy_all: float
    coverage: float
    borrowed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """One pair's score and decision; None where the signal abstains."""

    score: float | None
    followed: bool | None


def read_pairs(path: Path) -> list[LabelledPair]:
    """Read JSON lines with the fields tip, script, followed and kind.

    Raises PairFileError naming every bad line (the first twenty in full), and for a file without
    pairs. OSError passes through.
    """
    pairs: list[LabelledPair] = []
    problems: list[str] = []
    with path.open(encoding="utf-8", errors="replace") as rows:
        for number, row in enumerate(rows, start=1):
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
    return pairs


def _pair(row: str, number: int) -> LabelledPair | str:
    """Return the pair of one row, or what is wrong with it."""
    try:
        fields = json.loads(row)
    except json.JSONDecodeError as error:
        return f"not JSON ({error.msg} at column {error.colno})"
    except RecursionError:
        return "not JSON that can be read (nested too deeply)"
    if not isinstance(fields, dict):
        return "not a JSON object"
    missing = [name for name in ("tip", "script", "kind") if not isinstance(fields.get(name), str)]
    if missing:
        return f"`{'`, `'.join(missing)}` must be a text"
    if not isinstance(fields.get("followed"), bool):
        return "`followed` must be true or false (leave undecided pairs out)"
    return LabelledPair(
        tip=fields["tip"],
        script=fields["script"],
        followed=fields["followed"],
        kind=fields["kind"],
        line=number,
    )


def agreement(pairs: Sequence[LabelledPair], scored: Sequence[Scored]) -> tuple[Agreement, ...]:
    """Compare a signal with the labels: overall first, then every kind in alphabetical order.

    Raises ValueError when there is not exactly one score for each pair.
    """
    if len(pairs) != len(scored):
        raise ValueError(f"{len(pairs)} pairs but {len(scored)} scores")
    rows = list(zip(pairs, scored, strict=True))
    kinds = sorted({pair.kind for pair in pairs})
    overall = _measure(ALL_KINDS, rows, rows)
    return (
        overall,
        *(_measure(kind, [row for row in rows if row[0].kind == kind], rows) for kind in kinds),
    )


def _measure(
    kind: str,
    rows: Sequence[tuple[LabelledPair, Scored]],
    everything: Sequence[tuple[LabelledPair, Scored]],
) -> Agreement:
    labels = {pair.followed for pair, _ in rows}
    borrowed = len(labels) == 1 and len({pair.followed for pair, _ in everything}) == 2
    ranked = list(rows)
    if borrowed:
        ranked += [row for row in everything if row[0].followed not in labels]
    decided = [(pair, item) for pair, item in rows if item.followed is not None]
    right = sum(1 for pair, item in decided if item.followed is pair.followed)
    return Agreement(
        kind=kind,
        n=len(rows),
        followed=sum(1 for pair, _ in rows if pair.followed),
        auc=_auc(ranked),
        auc_decided=_auc([row for row in ranked if row[1].score is not None]),
        accuracy_decided=right / len(decided) if decided else None,
        accuracy_all=right / len(rows),
        coverage=len(decided) / len(rows),
        borrowed=borrowed,
    )


def _auc(rows: Sequence[tuple[LabelledPair, Scored]]) -> float | None:
    """Area under the ROC curve; abstentions rank in the middle."""
    labels = [pair.followed for pair, _ in rows]
    if len(set(labels)) < 2:
        return None
    scores = [ABSTAINED_SCORE if item.score is None else item.score for _, item in rows]
    return float(roc_auc_score(labels, scores))
