"""A debate about one snapshot: what speaks for it, what against it, and the memo that weighs both.

Guarantees: each of the three texts passes the gate before it is put anywhere, also before the one who
balances; only the balanced text is the memo, the sides are kept beside it. A side that does not pass
ends the debate: a memo that weighed one side alone would be worse than none.

It does not say that a debate is worth its three calls: ``eval_memos --live`` measures that.
Source: ADR-0006, whose original showed both sides to its customers unchecked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scoring.memos.drafting import Drafting, Purpose, Side, Written

if TYPE_CHECKING:
    from scoring.memos.question import Mode


def debated(drafting: Drafting, *, mode: Mode) -> tuple[Written, tuple[Side, ...]]:
    """Hold the debate; returns the memo, or the reason for none, and the sides that passed.

    Raises PromptError.
    """
    sides: list[Side] = []
    for purpose in (Purpose.FOR, Purpose.AGAINST):
        written = drafting.written(purpose, mode="human")
        if not written.text:
            return written, tuple(sides)
        sides.append(Side(str(purpose), written.text))
    texts = {side.name: side.text for side in sides}
    return drafting.written(Purpose.BALANCED, mode=mode, sides=texts), tuple(sides)
