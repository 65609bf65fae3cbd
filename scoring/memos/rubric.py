"""One number per memo: sourcing, faithfulness, completeness and tone, with the weights in one place.

Guarantees: the composite is 0 when the gate refused the memo, whatever else is well with it; without a
judge the other weights are scaled up to one. All numbers are decimals from 0 to 1. It ranks memos of
one snapshot; it is no probability.

Impersonal means, for these products: no instruction to a person and no blame of a person. Tips and
scripts may be blamed. Source: ADR-0006, whose original counted the share of sourced figures even for
a memo its gate had refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_tokens import TokenKind, tokens_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scoring.memos.completeness import Completeness
    from scoring.memos.gate_report import GateReport


class Dimension(StrEnum):
    """What a memo is graded on."""

    SOURCING = "sourcing"
    FAITHFULNESS = "faithfulness"
    COMPLETENESS = "completeness"
    IMPERSONAL = "impersonal"


WEIGHTS: Final = {
    Dimension.SOURCING: Decimal("0.40"),
    Dimension.FAITHFULNESS: Decimal("0.30"),
    Dimension.COMPLETENESS: Decimal("0.20"),
    Dimension.IMPERSONAL: Decimal("0.10"),
}

_PEOPLE: Final = (
    r"(?:user|operator|admin(?:istrator)?|reviewer|engineer|developer|author|maintainer|team|staff|colleague"
    r"|manager|analyst|investor|reader|customer|employee|person|people|human|nobody|someone|anyone|whoever)s?"
)
_BEGIN: Final = r"(?:^(?:[-+*#>]+[ \t]+)?|[.!?:;]\s+|\n\s*\n\s*|\n[ \t]*[-+*#>]+[ \t]+)"
_VERBS: Final = (
    r"(?:add|adjust|avoid|buy|change|check|consider|delete|disable|do|drop|enable|ensure|fix|hold|ignore"
    r"|investigate|keep|make|monitor|note|prefer|prioriti[sz]e|promote|reconsider|remember|remove|replace"
    r"|retire|retrain|review|run|sell|set|stop|take|trust|try|update|use|verify|watch)"
)
_FAULTS: Final = (
    r"(?:fail(?:ed|s|ing)?|forgot|neglect(?:ed|s)?|ignored|overlooked|misconfigured|blundered|erred|broken?|caused|ruined"
    r"|careless(?:ly)?|negligent(?:ly)?|incompetent|lazy|sloppy|stupid|at fault|to blame|responsible for)"
)
PATTERNS: Final = tuple(
    (reason, re.compile(pattern, re.IGNORECASE))
    for reason, pattern in (
        ("addresses a person", r"\b(?:you|your|yours|yourself|yourselves|y'all)\b"),
        ("speaks as a person", r"\b(?:I|we|our|ours|us|my|mine)\b(?!\$)"),
        ("instructs", rf"{_BEGIN}(?:please\s+|then\s+)?{_VERBS}\s+(?!of\b)[a-z`\[]"),
        ("instructs", r"\b(?:please|kindly|make sure|be sure to|let's|let us|do not|don't)\b"),
        ("advises", r"\b(?:recommend(?:s|ed|ation|ations)?|advis(?:e|es|ed|able))\b"),
        ("advises", r"\bsuggest(?:s|ed)? (?:that|\w+ing)\b"),
        ("advises", r"\b(?:should|ought to|must|needs? to|ha(?:s|ve) to|had better)\b"),
        ("blames a person", rf"\b{_PEOPLE}\b[^.!?\n]{{0,40}}\b{_FAULTS}"),
        ("blames a person", rf"\b{_FAULTS}\b[^.!?\n]{{0,20}}\bby (?:the |an? |our )?{_PEOPLE}\b"),
        ("blames a person", r"\b(?:human|user|operator|pilot) error\b"),
        ("blames a person", r"\b(?:blame[sd]?|fault) (?:of |on |lies with )(?:the )?\w+"),
        ("blames a person", r"\b(?:he|she|his|her|him)\b"),
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Impersonal:
    """``faults`` are pairs of reason and phrase, each reason and phrase once."""

    faults: tuple[tuple[str, str], ...]

    @property
    def passed(self) -> bool:
        return not self.faults


def impersonal(text: str) -> Impersonal:
    """Return where ``text`` instructs or blames a person; what stands in backticks is only quoted."""
    shown = list(text)
    for token in tokens_of(text):
        if token.kind is TokenKind.NAME:
            shown[token.start + 1 : token.end - 1] = "_" * (token.end - token.start - 2)
    said = "".join(shown)
    found = []
    for reason, pattern in PATTERNS:
        for match in pattern.finditer(said):
            phrase = " ".join(match.group().strip(" .!?:;-+*#>\n\t").split())[:60]
            if (reason, phrase) not in found and not _is_country(phrase, match):
                found.append((reason, phrase))
    return Impersonal(tuple(found))


def _is_country(phrase: str, match: re.Match[str]) -> bool:
    """US is a country, and "I." a numeral of a list, when they are written so."""
    after = match.string[match.end() : match.end() + 1]
    return phrase == "US" or (phrase == "I" and after in {".", ")", "/"})


@dataclass(frozen=True, slots=True)
class Score:
    """``dimensions`` are 0 to 1; ``weights`` are those that were used and add up to one."""

    composite: Decimal
    dimensions: Mapping[Dimension, Decimal]
    weights: Mapping[Dimension, Decimal]
    notes: tuple[str, ...]


def score(
    report: GateReport, told: Completeness, tone: Impersonal, faithfulness: Decimal | None = None
) -> Score:
    """Return the score of a memo. ``faithfulness`` is the judge's, 0 to 1, or None without a judge.

    Raises ValueError on a faithfulness outside of 0 to 1.
    """
    if faithfulness is not None and not (faithfulness.is_finite() and 0 <= faithfulness <= 1):
        raise ValueError(f"faithfulness is 0 to 1, not {faithfulness}")
    dimensions = {
        Dimension.SOURCING: report.coverage,
        Dimension.COMPLETENESS: told.material_coverage,
        Dimension.IMPERSONAL: Decimal(int(tone.passed)),
    }
    if faithfulness is not None:
        dimensions[Dimension.FAITHFULNESS] = faithfulness
    total = sum((WEIGHTS[name] for name in dimensions), Decimal(0))
    weights = {name: WEIGHTS[name] / total for name in dimensions}
    composite = sum((weights[name] * value for name, value in dimensions.items()), Decimal(0))
    if not report.passed:
        composite = Decimal(0)
    return Score(min(composite, Decimal(1)), dimensions, weights, _notes(report, told, tone))


def _notes(report: GateReport, told: Completeness, tone: Impersonal) -> tuple[str, ...]:
    notes = []
    if not report.passed:
        notes.append(f"refused by the gate: {len(report.findings)} finding(s)")
    if told.material_omissions:
        labels = ", ".join(item.label for item in told.material_omissions[:4])
        notes.append(f"leaves out {labels}")
    notes += [f"{reason}: {phrase}" for reason, phrase in tone.faults[:1]]
    return tuple(notes)
