"""Puts the tips of one script to a judge, and turns what comes back into one outcome per tip.

Guarantees: every tip that was admitted comes out exactly once, as an answer whose quotes were looked
up or as a failure with its class; a reply, or a verdict of it, that cannot be used is asked for once
more and never twice; what a call cost is reported also when it brought nothing. Ids are random and
the order is shuffled, anew for each call, so that no verdict is matched by its place.

Knows no rows and no Django: when a tip may be asked about, and what becomes of an outcome, is the
caller's business. Shaped by batches of twenty verdicts of which eighteen came back, and a run that
went on with eighteen.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from scoring.judge.config import CallBudget
from scoring.judge.errors import (
    JudgeContextExceeded,
    JudgeError,
    JudgeUnavailable,
    ReplyEmpty,
    ReplyTruncated,
    VerdictError,
    VerdictIdInvalid,
)
from scoring.judge.evidence import Verified, verify
from scoring.judge.fences import new_ids, new_mark
from scoring.judge.prompt import QuestionRefused, TipQuestion, TipUnusable, build_question
from scoring.judge.verdict import Verdict, parse_reply, verdict_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from scoring.judge.prompt import JudgePrompt, Message
    from scoring.judge.reply import JudgeReply

MAX_REPLY_TOKENS: Final = 4_096
"""Tokens of one reply at most, however many tips: small contexts refuse a larger cap outright."""

_dice = random.SystemRandom()


class Ask(Protocol):
    """One call to a judge; raises a `JudgeError`."""

    def __call__(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object],
        budget: CallBudget,
    ) -> JudgeReply: ...


@dataclass(frozen=True, slots=True)
class Call:
    """What was sent once and what came of it; one of ``reply`` and ``error`` may be missing.

    A reply with an error is one that came and could not be read. ``seconds`` is wall time with
    waiting, tries and pauses, ``tips`` the number asked about, ``again`` whether it was a second asking.
    """

    tips: int
    again: bool
    seconds: float
    http_tries: int
    reply: JudgeReply | None
    error: JudgeError | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict with its quotes looked up. ``position``: place among the tips of its call, from 1."""

    verdict: Verdict
    verified: Verified
    position: int


@dataclass(frozen=True, slots=True)
class Failure:
    """No verdict about this tip, and why."""

    error: JudgeError


Outcome = Answer | Failure


@dataclass(frozen=True, slots=True)
class Step:
    """One call (None: nothing was sent) and what it settled: index of the tip -> outcome."""

    call: Call | None
    outcomes: dict[int, Outcome]


@dataclass(frozen=True, slots=True)
class Question:
    """A script and the tips to compare it with, both as they may leave (redacted).

    ``budget`` is that of a call about one tip; a call about more may have more tokens.
    """

    prompt: JudgePrompt
    script: str
    tips: tuple[str, ...]
    budget: CallBudget


def groups_of(count: int, *, per_call: int, alone: Collection[int] = ()) -> list[list[int]]:
    """Cut 0..count-1 into calls of at most ``per_call``; those in ``alone`` get one each, last."""
    together = [index for index in range(count) if index not in alone]
    cut = [together[at : at + per_call] for at in range(0, len(together), per_call)]
    return cut + [[index] for index in range(count) if index in alone]


def ask_about(
    ask: Ask,
    question: Question,
    groups: Sequence[Sequence[int]],
    *,
    admit: Callable[[Sequence[int]], Sequence[int]] = lambda indices: indices,
    renew: Callable[[], None] = lambda: None,
) -> Iterator[Step]:
    """Ask about each group in one call; yields after every call, so that no answer waits for another.

    Args:
        ask: sends one call.
        question: what is asked.
        groups: indices of ``question.tips``, as `groups_of` cuts them.
        admit: called before a group is asked for the first time; returns those that may be asked.
            The others get no outcome.
        renew: called before every call; may raise to stop.
    """
    asking = _Asking(ask, question, renew)
    for group in groups:
        yield from asking.settle(list(admit(group)))


class _Asking:
    """One script's conversation; the mark of its fences is the same in every call."""

    def __init__(self, ask: Ask, question: Question, renew: Callable[[], None]) -> None:
        self._ask, self._question, self._renew = ask, question, renew
        self._mark = new_mark()

    def settle(self, group: list[int]) -> Iterator[Step]:
        """Ask about a group, and once more about what is still open."""
        if not group:
            return
        step, still_open, error = self._once(group, again=False)
        yield step
        if not still_open:
            return
        alone = error is None or _says_more_alone(error)
        open_groups = [[index] for index in still_open] if alone else [list(still_open)]
        while open_groups:
            part = open_groups.pop(0)
            step, unsettled, _ = self._once(part, again=True)
            failed: dict[int, Outcome] = {index: Failure(unsettled[index]) for index in unsettled}
            away = step.call is not None and isinstance(step.call.error, JudgeUnavailable)
            if away:  # what was left keeps its first failure
                rest = [index for part in open_groups for index in part]
                failed |= {index: Failure(still_open[index]) for index in rest}
                open_groups.clear()
            yield Step(step.call, step.outcomes | failed)

    def _once(
        self, group: list[int], *, again: bool
    ) -> tuple[Step, dict[int, JudgeError], JudgeError | None]:
        """One call: what it settled, what is open and why, and what was wrong with the whole reply."""
        self._renew()
        ids = dict(zip(new_ids(len(group)), _dice.sample(group, len(group)), strict=True))
        outcomes: dict[int, Outcome] = {}
        try:
            messages = self._messages(ids, outcomes)
        except QuestionRefused as refusal:
            failed: dict[int, Outcome] = {index: Failure(refusal) for index in ids.values()}
            return Step(None, outcomes | failed), {}, refusal
        if not ids:
            return Step(None, outcomes), {}, None
        call, open_, error = self._sent(messages, ids, outcomes, again=again)
        lasting = error is not None and not _worth_asking_again(error, tips=len(ids))
        if lasting:
            outcomes |= {index: Failure(open_[index]) for index in open_}
            open_ = {}
        return Step(call, outcomes), open_, error

    def _messages(self, ids: dict[str, int], outcomes: dict[int, Outcome]) -> list[Message]:
        """Build the question; a tip that cannot be shown is settled and left out."""
        while ids:
            tips = [TipQuestion(name, self._question.tips[index]) for name, index in ids.items()]
            try:
                return build_question(
                    self._question.prompt, script=self._question.script, tips=tips, mark=self._mark
                )
            except TipUnusable as error:
                outcomes[ids.pop(error.tip_id)] = Failure(error)
        return []

    def _sent(
        self,
        messages: list[Message],
        ids: dict[str, int],
        outcomes: dict[int, Outcome],
        *,
        again: bool,
    ) -> tuple[Call, dict[int, JudgeError], JudgeError | None]:
        names = tuple(ids)
        reply: JudgeReply | None = None
        whole: JudgeError | None = None
        open_: dict[int, JudgeError] = {}
        started = time.monotonic()
        try:
            reply = self._ask(
                messages, schema=verdict_schema(names), budget=self._budget(len(ids), again=again)
            )
            seconds = time.monotonic() - started
            open_ = self._read(reply, ids, outcomes)
        except JudgeError as error:
            whole = error
            open_ = dict.fromkeys(ids.values(), error)
        call = Call(
            tips=len(ids),
            again=again,
            seconds=seconds if reply else time.monotonic() - started,
            http_tries=reply.tries if reply else whole.tries if whole else 0,
            reply=reply,
            error=whole,
        )
        return call, open_, whole

    def _read(
        self, reply: JudgeReply, ids: dict[str, int], outcomes: dict[int, Outcome]
    ) -> dict[int, JudgeError]:
        """Settle what the reply answers; returns what it leaves open. Raises a `VerdictError`."""
        parsed = parse_reply(reply.content, tuple(ids))
        position = {name: number for number, name in enumerate(ids, start=1)}
        for name, verdict in parsed.verdicts.items():
            found = verify(verdict, self._question.script)
            outcomes[ids[name]] = Answer(verdict, found, position[name])
        missing = VerdictIdInvalid("the reply holds no verdict about this tip")
        open_: dict[int, JudgeError] = {ids[name]: missing for name in parsed.missing}
        return open_ | {ids[name]: error for name, error in parsed.refused.items()}

    def _budget(self, tips: int, *, again: bool) -> CallBudget:
        """A second asking may say twice as much: the first may have been cut."""
        single = self._question.budget
        wanted = single.max_tokens * tips * (2 if again else 1)
        # an operator who allows one tip more than the cap means it
        cap = max(MAX_REPLY_TOKENS, single.max_tokens)
        return CallBudget(single.tries, single.deadline_s, min(wanted, cap))


def _worth_asking_again(error: JudgeError, *, tips: int) -> bool:
    if isinstance(error, JudgeContextExceeded):
        return tips > 1
    return error.worth_reasking


def _says_more_alone(error: JudgeError) -> bool:
    """Whether one tip a call helps; a body that is no reply at all has nothing to do with the tips."""
    return isinstance(error, ReplyTruncated | ReplyEmpty | VerdictError | JudgeContextExceeded)
