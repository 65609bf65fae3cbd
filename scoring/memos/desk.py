"""Puts the questions of memos to a bench: its pace, its pause, and one stored row per call.

Guarantees: no call is made while the judge of the tier is paused; a call that finds the server away
counts towards a pause as a verdict's does, and an answer ends one; each call is stored with what it
cost before its reply is used, also one that failed. Prompts are read once per process and folder.

It does not retry (the HTTP client and ``scoring.memos.drafting`` do) and keeps no memo.
Source: issue 5; one path to the server for verdicts and memos.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING

from django.conf import settings

from scoring.judge import pause
from scoring.judge.config import CallBudget
from scoring.judge.decoding import storable
from scoring.judge.errors import JudgeError, JudgeUnavailable
from scoring.judge.pause import Door
from scoring.judge.verdict_store import answered_columns
from scoring.memos.prompt_files import MemoPrompts
from scoring.models import JudgeCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scoring.judge.bench import Bench
    from scoring.judge.prompt import Message
    from scoring.judge.reply import JudgeReply
    from scoring.memos.drafting import Purpose


def memo_prompts() -> MemoPrompts:
    """The prompt files of memos below PROMPTS_DIR."""
    return _prompts(settings.PROMPTS_DIR)


@lru_cache(maxsize=8)
def _prompts(root: Path) -> MemoPrompts:
    return MemoPrompts(root)


class Desk:
    """Asks one bench; `scoring.memos.drafting.AskMemo`. ``run_id``: whose account the calls go on."""

    def __init__(self, bench: Bench, *, run_id: int | None = None) -> None:
        self.bench, self.run_id = bench, run_id

    def __call__(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object],
        max_tokens: int,
        purpose: Purpose,
        prompt_sha256: str,
        again: bool,
    ) -> JudgeReply:
        """Make one call; raises a `JudgeError`, also when the judge is paused."""
        door = pause.door(self.bench.tier)
        if door is Door.PAUSED:
            raise JudgeUnavailable(
                "the judge is paused", mend="manage.py judge_resume ends it sooner"
            )
        config = self.bench.config
        budget = CallBudget(config.max_tries, config.deadline_s, max_tokens)
        reply: JudgeReply | None = None
        error: JudgeError | None = None
        started = time.monotonic()
        try:
            reply = self.bench.ask(messages, schema=schema, budget=budget)
        except JudgeError as raised:
            error = raised
        self._keep(purpose, prompt_sha256, again, time.monotonic() - started, reply, error)
        self._tend_door(error, probing=door is Door.PROBE)
        if reply is None:
            raise error or AssertionError("a call ended with neither reply nor error")
        return reply

    def _tend_door(self, error: JudgeError | None, *, probing: bool) -> None:
        away = self.bench.is_away(error)
        if error is not None and (away or (probing and isinstance(error, JudgeUnavailable))):
            pause.begin(self.bench.tier, error)
        elif probing:
            pause.end(self.bench.tier)

    def _keep(
        self,
        purpose: Purpose,
        prompt_sha256: str,
        again: bool,  # noqa: FBT001 - one of a row's columns
        seconds: float,
        reply: JudgeReply | None,
        error: JudgeError | None,
    ) -> None:
        JudgeCall.objects.create(
            run_id=self.run_id,
            tier=self.bench.tier,
            requested_model=self.bench.config.model[:200],
            prompt_sha256=prompt_sha256,
            purpose=f"memo_{purpose}",
            tips=0,
            again=again,
            http_tries=reply.tries if reply else error.tries if error else 0,
            seconds=seconds,
            error_class=type(error).__name__ if error else "",
            error=storable(str(error))[:500] if error else "",
            **answered_columns(reply, error),
        )
