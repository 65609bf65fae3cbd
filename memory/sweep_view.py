"""Sweeps and flips as plain data, for JSON and for the tables of ``memory.sweep_render``.

Guarantees: complete, in the order of the sweep (worst first), with each tip's key and text fetched in
one query; texts are as they are stored. Does not change or judge anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Count, Q

from memory.eviction import LEFT
from memory.eviction_gate import gate_as_dict
from memory.models import EvictionSweep, Tip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from memory.eviction_gate import Caught, Flip, Flips, Verdict
    from memory.models import SweepEntry


def sweep_head(sweep: EvictionSweep) -> dict[str, Any]:
    """The sweep's own columns; ``id`` is None for one that is not stored."""
    return {
        "id": sweep.pk,
        "skill": sweep.skill,
        "state": str(sweep.state),
        "policy": sweep.policy,
        "gate": sweep.gate,
        "run": sweep.run_id,
        "active": sweep.active,
        "with_evidence": sweep.with_evidence,
        "created_at": _moment(sweep.created_at),
        "created_by": sweep.created_by,
        "applied_at": _moment(sweep.applied_at),
        "applied_by": sweep.applied_by,
        "undone_at": _moment(sweep.undone_at),
        "undone_by": sweep.undone_by,
    }


def sweep_view(sweep: EvictionSweep, entries: Sequence[SweepEntry]) -> dict[str, Any]:
    """The sweep and all of its entries, stored or not."""
    tips = _tips(entry.tip_id for entry in entries)
    return sweep_head(sweep) | {
        "entries": [tips[entry.tip_id] | _entry(entry) for entry in entries]
    }


def latest_sweeps(skill: str | None, limit: int) -> list[dict[str, Any]]:
    """Heads of the latest sweeps, newest first, with counts of their entries; one query."""
    sweeps = EvictionSweep.objects.order_by("-pk").annotate(
        caught=Count("entries"),
        retired=Count("entries", filter=Q(entries__retired=True)),
        given_back=Count("entries", filter=Q(entries__given_back=True)),
    )
    if skill is not None:
        sweeps = sweeps.filter(skill=skill)
    return [
        sweep_head(sweep)
        | {"caught": sweep.caught, "retired": sweep.retired, "given_back": sweep.given_back}
        for sweep in sweeps[:limit]
    ]


def flips_view(flips: Flips) -> dict[str, Any]:
    """Both gates with their counts, the three lists, and who of the third moves over the cap or back."""
    lists = {
        "newly_caught": flips.newly_caught,
        "set_free": flips.set_free,
        "caught_by_both": flips.caught_by_both,
        "over_the_cap": flips.over_the_cap,
        "within_the_cap": flips.within_the_cap,
    }
    tips = _tips(flip.tip_id for found in lists.values() for flip in found)
    heads = {
        "skill": flips.new.skill,
        "old": _verdict(flips.old),
        "new": _verdict(flips.new),
    }
    return heads | {name: [_flip(flip, tips) for flip in found] for name, found in lists.items()}


def _moment(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _tips(ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    wanted = Tip.objects.only("external_id", "tip_type", "text").in_bulk(list(ids))
    return {
        tip.pk: {
            "tip_id": tip.pk,
            "tip": tip.external_id,
            "type": tip.tip_type,
            "text": tip.text,
        }
        for tip in wanted.values()
    }


def _entry(entry: SweepEntry) -> dict[str, Any]:
    return {
        "cause": str(entry.cause),
        "mean": entry.mean,
        "low": entry.low,
        "high": entry.high,
        "visits": entry.visits,
        "figures": {name: value for name, value in entry.figures.items() if name != LEFT},
        "over_cap": entry.over_cap,
        "retired": entry.retired,
        "given_back": entry.given_back,
        "left": entry.figures.get(LEFT, ""),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "gate": gate_as_dict(verdict.gate),
        "active": verdict.active,
        "with_evidence": verdict.with_evidence,
        "caught": len(verdict.caught),
        "over_cap": sum(one.over_cap for one in verdict.caught),
    }


def _flip(flip: Flip, tips: dict[int, dict[str, Any]]) -> dict[str, Any]:
    return tips[flip.tip_id] | {"old": _caught(flip.old), "new": _caught(flip.new)}


def _caught(one: Caught | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "cause": one.cause,
        "mean": one.mean,
        "low": one.low,
        "high": one.high,
        "visits": one.visits,
        "figures": one.figures,
        "over_cap": one.over_cap,
    }
