"""What judging cost, in lines for people: for ``show_run`` and ``judge_report``.

Guarantees: what is unknown is called unknown, never zero, and a sum that lacks a part is called
partial; names of models are made visible, because they come from servers and settings; a judge without
a calibration is marked.

Shaped by reports that showed a price of 0.00 for a model without a price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory.provenance import UNCALIBRATED, uncalibrated_sources
from memory.run_sections import Section
from memory.terminal import visible
from scoring.judge.accounting import totals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory.models import Run
    from scoring.judge.accounting import ModelCost, Totals

UNKNOWN: Final = "unknown"


def section(run: Run) -> Section:
    """What judging *run* cost, for ``show_run``."""
    found, unproved = totals(run_id=run.pk), uncalibrated_sources(run.retrievals.all())
    told = [
        f"{UNCALIBRATED}: {visible(judge.source, limit=200)} ({judge.rows} rows)"
        for judge in unproved
    ]
    data = found.as_dict() | {UNCALIBRATED: [judge.source for judge in unproved]}
    return Section(data=data, lines=(*_account(found), *told))


def lines(found: Totals) -> Iterator[str]:
    """The account, a line per fact, and whose verdicts they are: a line per judge, marked where due."""
    yield from _account(found)
    for judge in found.sources:
        marks = [] if judge.calibrated else [UNCALIBRATED]
        marks += [] if judge.in_figures else ["below one billion parameters: in no figure"]
        told = "".join(f"; {mark}" for mark in marks)
        yield f"verdicts of {visible(judge.source, limit=200)}: {judge.verdicts}{told}"


def _account(found: Totals) -> Iterator[str]:
    if not found.models and not found.cache_hits:
        yield "judge: no call was made"
        return
    yield (
        f"judge: {found.verdicts} yes or no, {found.abstained} abstained, "
        f"{found.failures} failed; {found.cache_hits} from the cache"
    )
    if found.labels:
        yield f"labels: {_counts(found.labels)}"
    for model in found.models:
        yield _model(model)
    if len(found.models) > 1:
        sums = found.sums()
        yield f"cost of all: {_money(sums['cost'])}{_partial(sums['uncounted'])}"
    if found.escalated:
        yield (
            f"escalated: {found.escalated}, of which "
            f"{found.superseded_with_other_label} got another label{_not_compared(found)}"
        )
    if found.errors:
        yield f"errors of calls: {_counts(found.errors)}"
    if found.redacted or found.cross_skill:
        yield (
            f"secrets taken out of {found.redacted} questions; "
            f"{found.cross_skill} tips of another skill"
        )


def _not_compared(found: Totals) -> str:
    if not found.not_compared:
        return ""
    return f"; {found.not_compared} not compared, with a judge below one billion parameters"


def _model(cost: ModelCost) -> str:
    return (
        f"{visible(cost.model, limit=100)} ({cost.tier}): {cost.calls} calls about {cost.tips} tips "
        f"in {cost.server_seconds:.1f} s of the server, {cost.retries} retries, "
        f"{cost.asked_again} asked again, {cost.failed} failed; tokens in {_number(cost.tokens_in)} "
        f"(cached {_number(cost.tokens_cached)}), out {_number(cost.tokens_out)}; "
        f"cost {_money(cost.cost)}{_partial(cost.uncounted)}"
    )


def _partial(uncounted: int) -> str:
    return f"; partial: {uncounted} answered without counts of tokens" if uncounted else ""


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _money(value: Any) -> str:
    return f"{UNKNOWN} (see JUDGE_PRICES)" if value is None else f"{value:.4f}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items())
