"""The rules of a comparison on a terminal: a block per rule, a line per tip, scripts side by side.

Guarantees: a verdict is a word with the signal that gave it and, where the judge spoke, its label, marked
when no calibration covers that judge; what is retired says why; scripts keep their lines and their order,
with control characters made visible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from memory.provenance import UNCALIBRATED
from memory.run_diff.layout import NOTHING, add, cut, grade, table, title
from memory.run_diff.rules import RuleChange
from memory.run_diff.scripts import LineChange
from memory.terminal import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memory.run_diff import RunDiff
    from memory.run_diff.rules import AttemptInRun, AttemptPair, RuleDiff, TipInRun, TipPair
    from memory.run_diff.scripts import Scripts

HEADINGS: Final = {
    RuleChange.LOST: "lost: A succeeded, B did not",
    RuleChange.WORSE: "worse grade in B",
    RuleChange.WON: "won: B succeeded, A did not",
    RuleChange.BETTER: "better grade in B",
    RuleChange.SAME: "same grade",
    RuleChange.UNGRADED: "not graded in both",
    RuleChange.ONLY_A: "only in A",
    RuleChange.ONLY_B: "only in B",
}
MARKS: Final = {
    LineChange.SAME: " ",
    LineChange.CHANGED: "|",
    LineChange.GONE: "<",
    LineChange.NEW: ">",
}
STYLES: Final = {LineChange.CHANGED: "yellow", LineChange.GONE: "red", LineChange.NEW: "green"}
TEXT: Final = 160
"""Characters of a line about a tip on a terminal."""


def render_rules(report: RunDiff) -> list[RenderableType]:
    """The listed rules, most telling first."""
    parts: list[RenderableType] = []
    if report.rule is None:
        what = f"Rules that differ in outcome or tips{cut(len(report.rules), report.n_telling)}"
        parts.append(title(f"{what}; tips and scripts of the first attempt, retries repeat them"))
    for rule in report.rules:
        parts += _rule(rule, whole=report.rule is not None)
    return parts if report.rules else [*parts, Text("none")]


def _rule(rule: RuleDiff, *, whole: bool) -> list[RenderableType]:
    spent = f"attempts {rule.a_attempts} and {rule.b_attempts}"
    best = f"best {grade(rule.a_best)} and {grade(rule.b_best)}"
    head = f"{rule.rule_id} [{rule.category or 'no category'}] {HEADINGS[rule.change]}; {best}, {spent}"
    parts: list[RenderableType] = [Text(""), plain(head, "bold")]
    for pair in rule.pairs:
        parts += _pair(pair, whole=whole)
    left_off = max(rule.a_attempts, rule.b_attempts) - len(rule.pairs)
    if whole and left_off:
        parts.append(Text(f"  … {left_off} more attempts (--limit)"))
    return parts


def _pair(pair: AttemptPair, *, whole: bool) -> list[RenderableType]:
    parts: list[RenderableType] = [
        plain(f"  A {_attempt(pair.a)}"),
        plain(f"  B {_attempt(pair.b)}"),
    ]
    if pair.tips:
        found = table("  tip", "change", "A: rank, followed?", "B: rank, followed?")
        for tip in pair.tips:
            name = f"  {tip.tip} [{tip.tip_type or 'no type'}]"
            add(found, name, tip.change, _in_run(tip.a), _in_run(tip.b))
        parts.append(found)
        parts += [line for tip in pair.tips for line in _text(tip)]
    else:
        parts.append(Text("  no tip was retrieved"))
    parts.append(plain(f"  scripts: {_sizes(pair.scripts)}"))
    return [*parts, *_script_lines(pair.scripts)] if whole else parts


def _attempt(attempt: AttemptInRun | None) -> str:
    if attempt is None:
        return "has no such attempt"
    if attempt.outcome_value is None:
        return f"#{attempt.number}: no outcome ({attempt.outcome_reason})"
    sure = f" × {attempt.outcome_confidence:.2f}" if attempt.outcome_confidence is not None else ""
    marks = [attempt.failure_mode] if attempt.failure_mode else []
    marks += ["script exited non-zero"] if attempt.apply_failed else []
    return ", ".join([f"#{attempt.number}: outcome {grade(attempt.outcome_value)}{sure}", *marks])


def _text(tip: TipPair) -> list[RenderableType]:
    lines: list[RenderableType] = [
        plain(f"  · {tip.tip}: {tip.text or '(text never sent)'}", limit=TEXT)
    ]
    if tip.retired:
        lines.append(plain(f"    retired now: {tip.retired_reason}", limit=TEXT))
    return lines


def _in_run(tip: TipInRun | None) -> str:
    if tip is None:
        return NOTHING
    if not tip.shown:
        return f"{tip.rank}, {'withheld' if tip.withheld else 'not shown'}"
    answer = {True: "followed", False: "ignored", None: "nobody knows"}[tip.followed]
    said = f" ({tip.followed_source})" if tip.followed_source else ""
    label = tip.llm_label or tip.llm_reason
    mark = f" ({UNCALIBRATED})" if tip.llm_uncalibrated else ""
    judge = f", judge: {label.replace('_', ' ')}{mark}" if label else ""
    worth = f", credit {tip.credit:+.2f}" if tip.credit is not None else ""
    return f"{tip.rank}, {answer}{said}{judge}{worth}"


def _sizes(scripts: Scripts) -> str:
    equal = {True: "equal", False: "different", None: "not to be compared"}[scripts.equal]
    sizes = [
        "none" if chars is None else f"{chars} characters{' (truncated)' if truncated else ''}"
        for chars, truncated in (
            (scripts.a_chars, scripts.a_truncated),
            (scripts.b_chars, scripts.b_truncated),
        )
    ]
    return f"{equal}, {sizes[0]} in A, {sizes[1]} in B"


def _script_lines(scripts: Scripts) -> list[RenderableType]:
    if not scripts.lines:
        return []
    found = Table(box=None, pad_edge=False, show_header=False, expand=True)
    found.add_column(ratio=1, overflow="fold")
    found.add_column(width=1)
    found.add_column(ratio=1, overflow="fold")
    for line in scripts.lines:
        style = STYLES.get(line.change, "")
        one, two = ((text or "").expandtabs(4) for text in (line.a, line.b))
        found.add_row(plain(one, style), MARKS[line.change], plain(two, style))
    left_off = f"  … {scripts.left_off} more lines" if scripts.left_off else ""
    return [found, Text(left_off)] if left_off else [found]
