"""A diagnosis on a terminal: the verdict, each criterion with its figure, then what they rest on.

Guarantees: no rate without its n and interval; names of skills and categories go through
``memory.terminal``; the caveats stand beside the figures that they are about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from memory.audit.render import NOTHING, mean_text, rate_text
from memory.diagnosis import State, Verdict
from memory.diagnosis_history import FRESH_AT_MOST, LONG_AT_LEAST, STAGES
from memory.run_diff.layout import add, or_none, table, title
from memory.terminal import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memory.diagnosis import Criterion, Diagnosis
    from memory.diagnosis_rates import ClusteredRate

STYLES: Final = {
    Verdict.HEALTHY: "bold green",
    Verdict.DISEASE: "bold red",
    Verdict.UNKNOWN: "bold",
}
SIGNS: Final = {State.PRESENT: "!", State.ABSENT: "·", State.UNCLEAR: "?"}

HISTORY_NOTE: Final = (
    "history: earlier runs that retrieved tips for the category; fresh: at most "
    f"{FRESH_AT_MOST}, long: at least {LONG_AT_LEAST}, without: no tip was retrieved in that run. "
    "Success of rules in runs. Categories differ in difficulty, runs in model and agent: neither is "
    "taken out of these rates."
)
SHARES_NOTE: Final = (
    "Tips of one attempt share its outcome: intervals treat the rows of a rule as hanging together. "
    "Retries make most rows failures: compare the two shares of failures. What was followed into a "
    "failure need not have caused it."
)


def render_diagnosis(found: Diagnosis) -> list[RenderableType]:
    """One diagnosis as parts to be printed one below the other."""
    sections = (_verdict, _history, _corpus, _attribution)
    return [part for section in sections for part in section(found)]


def _verdict(found: Diagnosis) -> list[RenderableType]:
    parts: list[RenderableType] = [
        plain(f"Skill {found.skill}: {found.verdict}", STYLES[found.verdict]),
        plain(found.why),
    ]
    for criterion in found.criteria:
        parts += _criterion(criterion)
    return parts


def _criterion(found: Criterion) -> list[RenderableType]:
    return [
        plain(f"{SIGNS[found.state]} {found.role}, {found.state}: {found.question}"),
        plain(f"    {found.figure}"),
        plain(f"    {found.limit}", "dim"),
    ]


def _history(found: Diagnosis) -> list[RenderableType]:
    rows = table("category", "history", *STAGES, "latest run", numbers=2 + len(STAGES))
    for one in found.history.categories:
        rates = [rate_text(one.rates[stage]) for stage in STAGES]
        add(rows, one.category, one.runs_with_tips, *rates, rate_text(one.latest))
    left_out = found.history.uncategorised
    note = f"{left_out} rules in runs have no category and are left out." if left_out else ""
    heading = title(f"Success by history, {found.history.runs} runs")
    return [heading, or_none(rows), Text(f"{HISTORY_NOTE} {note}".rstrip())]


def _corpus(found: Diagnosis) -> list[RenderableType]:
    tips = found.corpus
    per_rule = NOTHING if tips.active_per_rule is None else f"{tips.active_per_rule:.1f}"
    growth = NOTHING if tips.growth is None else f"{tips.growth:+.1f}"
    line = (
        f"{tips.total} tips: {tips.active} active, {tips.retired} retired; {per_rule} active per rule "
        f"({tips.rules} rules); {growth} a month"
    )
    rows = table("month", "added", "retired", "active at its end", numbers=3)
    for month in tips.months:
        add(rows, month.month, month.added, month.retired, month.active)
    return [title("Corpus"), Text(line), or_none(rows)]


def _attribution(found: Diagnosis) -> list[RenderableType]:
    did = found.attribution
    rows = table("share", "rows", "95 %", "rules", "worth independent rows", numbers=4)
    for name, share in (
        ("ignored, at a success (lucky neighbours)", did.lucky),
        ("failed, when followed (misleading)", did.misleading),
        ("failed, when ignored (to compare)", did.failed_when_ignored),
    ):
        add(rows, name, *_share_cells(share))
    credit = (
        f"mean credit by {found.policy} {mean_text(did.credit)}, by outcome alone "
        f"{mean_text(did.credit_outcome_only)}; nobody knows: {rate_text(did.unknown)} of shown rows"
    )
    return [title("What tips did"), rows, plain(credit), Text(SHARES_NOTE)]


def _share_cells(share: ClusteredRate) -> tuple[object, ...]:
    if share.low is None or share.high is None:
        return NOTHING, NOTHING, share.clusters, NOTHING
    rate = share.rate
    rows = f"{rate.hits} of {rate.n} ({rate.hits / rate.n:.0%})"
    interval = f"{100 * share.low:.0f}–{100 * share.high:.0f}"
    return rows, interval, share.clusters, f"{share.effective_n:.0f}"
