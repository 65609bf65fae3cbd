"""A memo from a snapshot: by a model in one pass or after a debate, else by the deterministic writer.

Guarantees: `synthesise` returns a text whatever a model does: one that passed the gate, or the
writer's, with the reason; it raises no `JudgeError` and no `PromptError`. Calls go through the bench:
its pace, its pause, its accounting. It stores no memo and judges none (``scoring.memos.memo_judge``).

Source: issue 5 (item 4). Shaped by an original that ended a request in error when its model was away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from scoring.judge.fences import new_mark
from scoring.judge.prompt_file import PromptError
from scoring.memos import debate as debating
from scoring.memos.drafting import (
    MAX_REASON_CHARS,
    Draft,
    Drafting,
    Purpose,
    Side,
    Variant,
    Written,
)
from scoring.memos.writer import write

if TYPE_CHECKING:
    from scoring.judge.bench import Bench
    from scoring.memos.drafting import AskMemo
    from scoring.memos.facts import Snapshot
    from scoring.memos.prompt_files import MemoPrompts
    from scoring.memos.question import Mode

__all__ = ["Draft", "Side", "Variant", "compose", "prompt_sha", "synthesise"]

FILES: Final = {
    "single": (Purpose.SYNTHESIS,),
    "debate": (Purpose.FOR, Purpose.AGAINST, Purpose.BALANCED),
}
"""Variant -> the prompt files it uses, beside the rules."""


def synthesise(
    snapshot: Snapshot,
    *,
    mode: Mode,
    variant: Variant = "single",
    bench: Bench | None,
    run_id: int | None = None,
) -> Draft:
    """Write a memo. ``bench`` None, or variant "writer": without a model.

    ``run_id`` is the run whose account the calls go on, if the memo is about one.
    """
    if bench is None or variant == "writer":
        return Draft(write(snapshot, mode=mode), "writer", "", "", 0)
    from scoring.memos.desk import Desk, memo_prompts

    return compose(
        Desk(bench, run_id=run_id),
        memo_prompts(),
        snapshot,
        mode=mode,
        variant=variant,
        model=bench.config.model,
    )


def compose(
    ask: AskMemo,
    prompts: MemoPrompts,
    snapshot: Snapshot,
    *,
    mode: Mode,
    variant: Variant,
    model: str,
) -> Draft:
    """Write a memo by asking ``ask``; the writer takes over where no text passes the gate."""
    drafting = Drafting(ask, prompts, snapshot, new_mark())
    sides: tuple[Side, ...] = ()
    try:
        sha256 = prompt_sha(prompts, variant)
        if variant == "debate":
            written, sides = debating.debated(drafting, mode=mode)
        else:
            written = drafting.written(Purpose.SYNTHESIS, mode=mode)
    except PromptError as error:
        written, sha256 = Written("", f"prompt: {error}"[:MAX_REASON_CHARS]), ""
    draft = Draft(written.text, variant, model, sha256, drafting.spent.calls, "", sides)
    if not written.text:
        draft = replace(
            draft, text=write(snapshot, mode=mode), variant="writer", model="", prompt_sha="",
            reason=written.reason, unavailable=written.unavailable,
        )  # fmt: skip
    return replace(draft, tokens_in=drafting.spent.tokens_in, tokens_out=drafting.spent.tokens_out)


def prompt_sha(prompts: MemoPrompts, variant: Variant) -> str:
    """Return the digest of the files a variant uses, for the key of a cache; "" for the writer.

    Raises PromptError.
    """
    if variant == "writer":
        return ""
    return prompts.sha256(*FILES[variant], "rules")
