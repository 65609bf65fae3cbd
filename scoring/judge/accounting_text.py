"""What judging cost, in lines for people: for ``show_run`` and ``judge_report``.

Guarantees: what is unknown is called unknown, never zero; names of models are made visible, because
they come from servers and settings.

Shaped by reports that showed a price of 0.00 for a model without a price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory.run_sections import Section
from memory.terminal import visible
from scoring.calibrated import source_is_calibrated
from scoring.judge.accounting import totals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory.models import Run
    from scoring.judge.accounting import ModelCost, Totals

UNKNOWN: Final = "unknown"


def section(run: Run) -> Section:
    """What judging *run* cost, for ``show_run``."""
    found, unproved = totals(run_id=run.pk), uncalibrated(run)
    told = [f"uncalibrated: {visible(name, limit=200)}" for name in unproved]
    data = found.as_dict() | {"uncalibrated": unproved}
    return Section(data=data, lines=(*lines(found), *told))


def uncalibrated(run: Run) -> list[str]:
    """The judges (model @ prompt sha256) whose labels *run* holds and which no calibration covers."""
    labelled = run.retrievals.exclude(llm_source="").order_by("llm_source")
    names = labelled.values_list("llm_source", flat=True).distinct()
    return [name for name in names if not source_is_calibrated(name)]


def lines(found: Totals) -> Iterator[str]:
    """The account, a line per fact."""
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
        yield f"cost of all: {_money(found.sums()['cost'])}"
    if found.escalated:
        yield (
            f"escalated: {found.escalated}, of which "
            f"{found.superseded_with_other_label} got another label"
        )
    if found.errors:
        yield f"errors of calls: {_counts(found.errors)}"
    if found.redacted or found.cross_skill:
        yield (
            f"secrets taken out of {found.redacted} questions; "
            f"{found.cross_skill} tips of another skill"
        )


def _model(cost: ModelCost) -> str:
    return (
        f"{visible(cost.model, limit=100)} ({cost.tier}): {cost.calls} calls about {cost.tips} tips "
        f"in {cost.server_seconds:.1f} s of the server, {cost.retries} retries, "
        f"{cost.asked_again} asked again, {cost.failed} failed; tokens in {_number(cost.tokens_in)} "
        f"(cached {_number(cost.tokens_cached)}), out {_number(cost.tokens_out)}; "
        f"cost {_money(cost.cost)}"
    )


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _money(value: Any) -> str:
    return f"{UNKNOWN} (see JUDGE_PRICES)" if value is None else f"{value:.4f}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items())
