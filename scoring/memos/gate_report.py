"""What the gate says about a memo: findings, each with its place and the value that would be right.

Guarantees: `GateReport.passed` is true exactly if there are no findings. Messages are for the writer
that tries again; they repeat no text of the memo beyond the figure, and name the fact's own value.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class FindingKind(StrEnum):
    """What is wrong."""

    EMPTY_MEMO = "empty_memo"
    TOO_LONG = "too_long"
    UNREADABLE = "unreadable"
    UNKNOWN_NAME = "unknown_name"
    PHANTOM_CITATION = "phantom_citation"
    MISSING_CITATION = "missing_citation"
    UNBOUND_WORD = "unbound_word"
    VAGUE = "vague"
    UNKNOWN_VALUE = "unknown_value"
    WRONG_VALUE = "wrong_value"
    WRONG_SIGN = "wrong_sign"
    WRONG_SCALE = "wrong_scale"
    WRONG_UNIT = "wrong_unit"
    WRONG_BOUND = "wrong_bound"
    PERCENT_FOR_POINTS = "percent_for_points"
    SWAPPED = "swapped"
    SPARE_CITATION = "spare_citation"
    RANGE = "range"
    WRONG_LABEL = "wrong_label"
    WRONG_NAME = "wrong_name"
    WRONG_DIRECTION = "wrong_direction"
    UNPROVEN_DIRECTION = "unproven_direction"
    NEGATED = "negated"


CAUSES = {
    FindingKind.EMPTY_MEMO: "the memo says nothing, or cites nothing",
    FindingKind.TOO_LONG: "the memo is longer than a memo may be",
    FindingKind.UNREADABLE: "this can be read as a figure, and not as one figure only",
    FindingKind.UNKNOWN_NAME: "this name is not one of the snapshot's",
    FindingKind.PHANTOM_CITATION: "no fact has this citation",
    FindingKind.MISSING_CITATION: "this figure has no citation of its own",
    FindingKind.UNBOUND_WORD: "this number in words has no citation of its own",
    FindingKind.VAGUE: "this states a quantity that no fact can be held against",
    FindingKind.UNKNOWN_VALUE: "the value of this fact is not known",
    FindingKind.WRONG_VALUE: "the fact has another value",
    FindingKind.WRONG_SIGN: "the fact has the other sign",
    FindingKind.WRONG_SCALE: "the figure is off by a power of ten",
    FindingKind.WRONG_UNIT: "the fact has another unit",
    FindingKind.WRONG_BOUND: "the value is not within this bound, or not near it",
    FindingKind.PERCENT_FOR_POINTS: "percent and percentage points are two things",
    FindingKind.SWAPPED: "the figure belongs to another citation of the sentence",
    FindingKind.SPARE_CITATION: "a citation beside a figure that it does not belong to",
    FindingKind.RANGE: "each end of a range, and each number of a fraction, needs a citation",
    FindingKind.WRONG_LABEL: "the text names another fact than it cites",
    FindingKind.WRONG_NAME: "the text speaks of another name than the fact does",
    FindingKind.WRONG_DIRECTION: "the facts go the other way",
    FindingKind.UNPROVEN_DIRECTION: "a rise, a fall or a comparison needs a fact that shows it",
    FindingKind.NEGATED: "the text denies what the fact says",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. ``start`` and ``end`` are code points of the memo; ``text`` is what stands there.

    ``ref`` is the citation it was held against ("" if none), ``nearest`` the right value of that fact,
    or of the fact that the figure does match; "" if there is neither.
    """

    kind: FindingKind
    start: int
    end: int
    text: str
    ref: str = ""
    nearest: str = ""
    detail: str = ""

    @property
    def message(self) -> str:
        """One line for the writer."""
        cited = f" [{self.ref}]" if self.ref else ""
        right = f"; right would be {self.nearest}" if self.nearest else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f'"{self.text}"{cited}: {CAUSES[self.kind]}{detail}{right}'


@dataclass(frozen=True, slots=True)
class Sourced:
    """A figure that is what its fact says: its place in the memo and the fact's id."""

    start: int
    end: int
    fact_id: str
    ref: str


@dataclass(frozen=True, slots=True)
class GateReport:
    """The verdict. ``figures`` counts all that were found, sourced or not; ``cited`` are fact ids."""

    findings: tuple[Finding, ...]
    sourced: tuple[Sourced, ...]
    figures: int
    cited: frozenset[str]

    @property
    def passed(self) -> bool:
        """Whether the memo may be shown."""
        return not self.findings

    @property
    def coverage(self) -> Decimal:
        """Share of figures that are sourced, 0 to 1; of a memo without figures 1 if it passed."""
        if not self.figures:
            return Decimal(int(self.passed))
        return Decimal(len(self.sourced)) / self.figures

    def feedback(self) -> str:
        """Return the findings as lines for the writer, "" if there are none."""
        if self.passed:
            return ""
        lines = [f"- {finding.message}" for finding in self.findings]
        rule = (
            "Write each figure exactly as its fact has it, with its unit, and one citation right after"
            " it. Put names in backticks, use bullets instead of numbered lists, and state no other"
            " number, in digits or in words."
        )
        return "\n".join(["The memo was refused:", *lines, rule])
