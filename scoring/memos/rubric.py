"""One number per memo: sourcing, faithfulness, completeness and tone, with the weights in one place.

Guarantees: the composite is 0 when the gate refused the memo, whatever else is well with it; without a
judge the other weights are scaled up to one. All numbers are decimals from 0 to 1. It ranks memos of
one snapshot; it is no probability.

Impersonal means, for these products: no instruction to a person and no blame of a person, for what was
done or left undone. Tips and scripts may be blamed, and our own words are no orders and no persons
("check marks", "human review", "the user account rule"). It reads patterns, not senses: blame by a
proper name is not seen. Source: ADR-0006, whose original counted the share of sourced figures even for
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
    r"(?<!category )(?<!`)\b(?:user|operator|admin(?:istrator)?|reviewer|engineer|developer|author"
    r"|maintainer|team|staff|colleague|manager|analyst|investor|reader|customer|employee|person|people|human|buyer"
    r"|trader|shareholder|nobody|someone|anyone|whoever)s?\b"
)
_BEGIN: Final = (
    r"(?:^(?:[-+*#>]+[ \t]+)?|[.!?:;]\s+|\n\s*\n\s*|\n[ \t]*[-+*#>]+[ \t]+)"
    r"(?:(?:please|kindly|then|always|never|first|second|next|finally|lastly|now|just|simply|better|instead"
    r"|also|so|thus|and|again|only|immediately|therefore|in future|from now on),?\s+)*"
)
_VERBS: Final = (
    r"(?:abandon|add|adjust|apply|avoid|buy|change|check|consider|delete|disable|discard|do|drop|enable"
    r"|ensure|escalate|evict|examine|fix|follow|hold|ignore|inspect|investigate|keep|leave|make|merge|monitor"
    r"|move|note|pause|prefer|prioriti[sz]e|promote|reconsider|reduce|remember|remove|replace|retire|retrain"
    r"|review|rewrite|run|sell|set|skip|start|stop|switch|take|test|treat|trust|try|update|use|verify|wait"
    r"|watch)"
)
_OBJECT: Final = (
    r"(?:the|an?|this|that|these|those|it|them|its|their|all|any|every|each|no|only|both|such|more|less|here"
    r"|again|whether|how|what)\b"
)
_TELLS: Final = (
    r"(?:is|are|was|were|has|have|had|do(?:es)?|did|fell|rose|came|stood|held|grew|shows?|fails?|stays?"
    r"|remains?|counts?|helps?|misleads?|misled|\w+ed)\b"
)
_NO_ORDER: Final = (
    r"(?!(?:of|in|to|from|for|by|on|with|at|and|or)\b)"  # "use of sudo", "change in the share"
    rf"(?!(?!{_OBJECT})(?:(?!that\b|which\b|who\b)[\w'-]+\s+){{1,2}}{_TELLS})"  # "check marks are green"
    rf"(?!`_*`\s+(?:{_TELLS}|\w+s\b))"  # "run `x` counts"
    rf"(?!(?!{_OBJECT})(?:[\w'-]+\s+){{0,3}}[\w'-]+:)"  # "hold period: 5 days"
)
"""What stands behind a word that is a noun as often as an order, where it is the noun."""
_FAULTS: Final = (
    r"(?:fail(?:ed|s|ing)?|forgot|forgets?|neglect(?:ed|s)?|ignored|overlooked|misconfigured|blundered|erred"
    r"|brok(?:en?)|caused|ruined|careless(?:ly)?|negligent(?:ly)?|incompetent|lazy|sloppy|stupid|at fault"
    r"|to blame|responsible for|refused|omitted)\b"
)
_SLIPS: Final = (
    r"(?:mistakes?|errors?|faults?|failures?|negligence|carelessness|oversights?|blunders?|omissions?"
    r"|inaction)"
)
_AUX: Final = (
    r"(?:\s+(?:who|that|has|have|had|was|were|is|are|be|been|being|again|also|then|simply|just|clearly"
    r"|repeatedly|often|always|once|more|on|duty|himself|herself|themselves|may|might|seems?|to|have)){0,5}"
)
_OMITTED: Final = (
    r"(?:did|has|have|had|does|do|could|would|was|were)(?:n't|n\u2019t| not)|never|failed to|forgot to"
    r"|refused to|omitted to"
)
PATTERNS: Final = tuple(
    (reason, re.compile(pattern, re.IGNORECASE))
    for reason, pattern in (
        ("addresses a person", r"\b(?:you|your|yours|yourself|yourselves|y'all)\b"),
        ("speaks as a person", r"\b(?:(?-i:I)|we|our|ours|us|my)\b(?!\$)"),
        ("speaks as a person", r"\b(?:is|are|was|were|of) mine\b"),
        ("instructs", rf"{_BEGIN}{_VERBS}\s+{_NO_ORDER}[a-z`\[]"),
        ("instructs", rf"{_PEOPLE},\s+{_VERBS}\b"),
        ("instructs", r"\b(?:please|kindly|make sure|be sure to|let's|let us|do not|don't)\b"),
        ("advises", r"\b(?:recommend(?:s|ed|ation|ations)?|advis(?:e|es|ed|able))\b"),
        ("advises", r"\bsuggest(?:s|ed)? (?:that|\w+ing)\b"),
        ("advises", r"\b(?:should|ought to|must|needs? to|ha(?:s|ve) to|had better)\b"),
        ("advises", r"\bit(?:'s| is| was| would be| may be| might be| seems) (?:\w+ )?(?:wise|wiser|best"
                    r"|better|time|prudent|sensible|necessary|important|safer|essential|worth\w*)\b"
                    r"(?: to\b| \w+ing\b)"),
        ("advises", r"\b(?:deserves?|warrants?|merits?|calls? for) (?:to be )?(?:a |an |the )?\w*"
                    r"(?:ment|al|ion|ing|ed|review|check)\b"),
        ("advises", r"\b(?:is|are) (?:not |never )?to be (?:avoided|retired|used|removed|replaced|fixed"
                    r"|dropped|disabled|ignored|kept)\b"),
        ("blames a person", rf"{_PEOPLE}{_AUX}\s+{_FAULTS}"),
        ("blames a person", rf"{_PEOPLE}{_AUX}\s+(?:{_OMITTED})\s+\w+"),
        ("blames a person", rf"{_PEOPLE}{_AUX}\s+(?:the |a |to )?(?:cause|reason|culprit|blame)\b"),
        ("blames a person", rf"{_PEOPLE}['\u2019]s?\s+(?:\w+\s+)?{_SLIPS}\b"),
        ("blames a person",
         rf"\b{_FAULTS}[^.!?\n]{{0,20}}\bby (?:the |an? |our )?{_PEOPLE}(?!\s+reviews?\b)"),
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
    said = _evened("".join(shown))
    found = []
    for reason, pattern in PATTERNS:
        for match in pattern.finditer(said):
            phrase = " ".join(match.group().strip(" .!?:;-+*#>\n\t").split())[:60]
            if (reason, phrase) not in found and not _is_country(phrase, match):
                found.append((reason, phrase))
    return Impersonal(tuple(found))


def _evened(text: str) -> str:
    """Return ``text`` with one space for several and one empty line for several: patterns stay linear."""
    lines = [" ".join(line.split()) for line in text.split("\n")]
    kept = [line for at, line in enumerate(lines) if line or not at or lines[at - 1]]
    return "\n".join(kept)


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
