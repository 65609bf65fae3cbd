"""The stages of a dream pass that need nothing but the graph: credit, evict, report.

Guarantees: each reads rows and replaces what an earlier pass made of them; run again, it gives the same.
CREDIT keeps its recount as a DreamPass unless it is, byte for byte, the last one that was kept: an outage
of days closes many rounds in which nothing was answered. A superseded revision keeps its passes, leaves
the evidence and sweeps nothing.

Does not lock: ``memory.dream`` calls them inside the transaction that holds the run's row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory import dream_report, eviction, evidence
from memory.models import DreamPass, DreamStage
from memory.summary import digest, summarise

if TYPE_CHECKING:
    from memory.credit import Policy
    from memory.models import Run


def credit(run: Run, *, policy: Policy) -> dict[str, Any]:
    """Recount the run, and have the sums of its tips follow (``memory.evidence``)."""
    summary = summarise(run, policy=policy)
    sha256 = digest(summary)
    last = DreamPass.objects.filter(run=run).order_by("-number").first()
    same = last is not None and digest(last.summary) == sha256
    if not same:
        last, _ = DreamPass.objects.update_or_create(
            run=run,
            number=run.dream_number,
            defaults={
                "policy": policy.name,
                "retrievals": summary["totals"]["retrievals"],
                "summary": summary,
                "report": {},
            },
        )
    return {
        "policy": policy.name,
        "kept_as_pass": last.number if last else None,
        "identical": same,
        "sha256": sha256,
        "evidence_rows_changed": evidence.refresh([run.pk]),
    }


def evict(run: Run) -> dict[str, Any]:
    """Sweep the skill's tips, if the run was never final and the gate says that a pass may."""
    return eviction.automatic_sweep(run)


def report(run: Run) -> dict[str, Any]:
    """Say once, on the pass it belongs to, what it changed.

    A pass that has its report keeps it; a sweep that was made after it, by a second try of the stage, is
    added to it.
    """
    last = DreamPass.objects.filter(run=run).order_by("-number").first()
    if last is None:
        return {"written": False}
    swept = DreamStage.objects.get(run=run, stage=DreamStage.Stage.EVICT)
    if not last.report:
        last.report = dream_report.changes(last, run=run, evict=swept)
    elif dream_report.misses_sweep(last.report, swept):
        last.report |= dream_report.sweep_told(swept)
    else:
        return {"written": False}
    last.save(update_fields=["report"])
    return {"written": True, "pass": last.number}
