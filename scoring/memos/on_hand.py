"""A memo that costs no inference: one that is kept, or else the writer's.

Guarantees: no model is asked, whatever is configured; the text passed the gate on today's facts, as all
memos do. Where a model is configured its kept memo comes first, if a judge with the prompt of today has
accepted it, of the variant of the settings, then of the other; without one the writer's is served, as
``scoring.memos.service`` does. What the writer writes is kept.

For pages and GET requests, which anybody may repeat. Source: issue 5 (item 9).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from memory.models import Tip
from memory.snapshot import one_moment
from scoring.judge.bench import configured
from scoring.memos.memo_making import Making
from scoring.memos.product_tip import tip_snapshot
from scoring.memos.products import snapshot_of, snapshot_of_run
from scoring.memos.service import MODES, memo_of, way_of_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scoring.memos.cache import Way
    from scoring.memos.facts import Snapshot
    from scoring.memos.memo_result import MemoResult


def memo_on_hand(
    product: str, identifier: str, *, skill: str | None = None, mode: str = "human"
) -> MemoResult:
    """Return the memo about a subject, see ``scoring.memos.service.memo``; asks no model.

    Raises:
        UnknownProduct, UnknownSubject: there is nothing to tell of.
        ValueError: no such mode.
    """
    return on_hand(lambda: snapshot_of(product, identifier, skill=skill), mode=mode)


def memo_of_row(product: str, key: int) -> MemoResult:
    """Return the memo about the run or the tip with this primary key; asks no model.

    Raises Run.DoesNotExist, Tip.DoesNotExist, and ValueError for another product.
    """
    match product:
        case "run":
            return on_hand(lambda: snapshot_of_run(key))
        case "tip":
            return on_hand(lambda: _of_tip(key))
        case _:
            raise ValueError(f"a row is a run or a tip, not {product!r}")


def on_hand(facts: Callable[[], Snapshot], *, mode: str = "human") -> MemoResult:
    """Return the memo about any snapshot; asks no model. Raises ValueError for an unknown mode."""
    if mode not in MODES:
        raise ValueError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
    snapshot = facts()
    for way in _kept(mode):
        ready = Making(way).ready(snapshot)
        if ready is not None:
            return ready
    return memo_of(facts, mode=mode, variant="writer")


def _of_tip(key: int) -> Snapshot:
    with one_moment():
        return tip_snapshot(Tip.objects.get(pk=key))


def _kept(mode: str) -> Iterator[Way]:
    """The ways in which a model's memo may be there."""
    if not configured() or settings.MEMO_VARIANT == "writer":
        return
    for variant in sorted(("single", "debate"), key=lambda one: one != settings.MEMO_VARIANT):
        yield way_of_model(mode, variant, settings.JUDGE_MODEL)
