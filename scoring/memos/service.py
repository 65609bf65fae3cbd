"""The door to memos: facts, cache, synthesis, judge, in this order, and the writer when all else fails.

Guarantees: `memo` returns a text that passed the gate on today's facts, or raises for an unknown
subject; what a model or the cache does wrong ends in the deterministic writer's text with the reason
beside it, never in an error. A memo of unchanged facts costs no inference; a high-stakes request for
one that today's judge of that tier has not seen is judged again and not written again, and a result
says why such a request was not met. Requests at once for one memo cost one synthesis. `run_memo` never
raises.

A rejected text is not served: it is kept beside the memo for review. Without a model nothing is judged.
Source: issue 5 (items 4 to 6, 9), ADR-0006.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import connection, transaction

from memory.models import Run
from scoring.judge.bench import DEFAULT, bench
from scoring.judge.prompt_file import PromptError
from scoring.memos import cache
from scoring.memos.cache import Way
from scoring.memos.desk import memo_prompts
from scoring.memos.memo_making import Making
from scoring.memos.products import run_named, snapshot_of, snapshot_of_run
from scoring.memos.synthesis import prompt_sha

if TYPE_CHECKING:
    from collections.abc import Callable

    from scoring.memos.facts import Snapshot
    from scoring.memos.memo_result import MemoResult

logger = logging.getLogger(__name__)

MODES: Final = ("human", "agent")
VARIANTS: Final = ("writer", "single", "debate")
RUN_MEMOS: Final = ("writer", "model", "off")
"""What CONTEXTGRAPH_MEMOS may say: who writes the memo of a run that has become final."""


def memo(
    product: str, identifier: str, *, skill: str | None = None, mode: str = "human",
    high_stakes: bool = False, use_cache: bool = True, variant: str | None = None,
) -> MemoResult:  # fmt: skip
    """Return the memo about a run, a tip or a category.

    Args:
        product, identifier, skill: see ``scoring.memos.products.snapshot_of``.
        mode: human (prose) or agent (lines).
        high_stakes: have it judged by the stronger judge, if one is configured.
        use_cache: False serves no stored memo; what is written is kept all the same, unless a model did
            not come up with a text and one of its texts is kept.
        variant: writer, single or debate; None takes MEMO_VARIANT. Without a model all are the writer's.

    Raises:
        UnknownProduct, UnknownSubject: there is nothing to write about.
        ValueError: no such mode or variant.
    """
    run_id = run_named(identifier, skill=skill).pk if product == "run" else None

    def facts() -> Snapshot:
        if run_id is not None:
            return snapshot_of_run(run_id)
        return snapshot_of(product, identifier, skill=skill)

    return memo_of(
        facts,
        mode=mode,
        high_stakes=high_stakes,
        use_cache=use_cache,
        variant=variant,
        run_id=run_id,
    )


def memo_of(
    facts: Callable[[], Snapshot], *, mode: str = "human", high_stakes: bool = False,
    use_cache: bool = True, variant: str | None = None, run_id: int | None = None,
) -> MemoResult:  # fmt: skip
    """Return the memo about any snapshot, as `memo`. ``facts`` is called again after a wait for the lock.

    ``run_id``: on whose account the calls to a model go.
    """
    wanted = Making(_way(mode, variant), high_stakes, run_id)
    snapshot = facts()
    if not use_cache:
        return wanted.written(snapshot)
    ready = wanted.ready(snapshot)
    if ready is not None:
        return ready
    with cache.single_flight(wanted.way.key(snapshot)):
        snapshot = facts()
        found = cache.lookup(wanted.way, snapshot)
        return wanted.written(snapshot) if found is None else wanted.served(found, snapshot)


def run_memo(run_id: int) -> None:
    """Write the memo of a run that became final, as CONTEXTGRAPH_MEMOS has it; never raises.

    An older revision of a run gets none.
    """
    try:
        if settings.MEMOS not in RUN_MEMOS:
            raise ValueError(f"CONTEXTGRAPH_MEMOS is one of {', '.join(RUN_MEMOS)}")
        if settings.MEMOS == "off":
            return
        variant = "writer" if settings.MEMOS == "writer" else None
        # a savepoint in a transaction of the caller's; none of our own, as a model may take minutes
        with transaction.atomic() if connection.in_atomic_block else contextlib.nullcontext():
            if not Run.objects.current().filter(pk=run_id).exists():
                return
            made = memo_of(lambda: snapshot_of_run(run_id), variant=variant, run_id=run_id)
    except Exception:
        logger.exception("memo.run_failed", extra={"run_id": run_id})
    else:
        logger.info("memo.run_written", extra={"run_id": run_id, "cached": made.cached})


def _way(mode: str, variant: str | None) -> Way:
    """The way to write that can be had here: without a model it is the writer's."""
    wanted = variant or settings.MEMO_VARIANT
    for name, value, known in (("mode", mode, MODES), ("variant", wanted, VARIANTS)):
        if value not in known:
            raise ValueError(f"{name} is one of {', '.join(known)}, not {value!r}")
    asked = bench(DEFAULT) if wanted != "writer" else None
    if asked is None:
        return Way(mode, "writer")
    return way_of_model(mode, wanted, asked.config.model)


def way_of_model(mode: str, variant: str, model: str) -> Way:
    """The way in which *model* writes, with the prompts as they are now; asks nobody."""
    try:
        sha256 = prompt_sha(memo_prompts(), variant)  # type: ignore[arg-type]
    except PromptError:
        sha256 = ""  # the synthesis says what is wrong with the file; the writer takes over
    return Way(mode, variant, model, sha256)
