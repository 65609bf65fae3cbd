"""One judge and one script: which of its rows are known already, which are asked, what is stored.

Guarantees: a pair of tip and script that is in the cache costs no call; one that several rows share is
asked about once, also when other workers have it at the same moment: one asks, the others wait for
what it brings (``scoring.judge.flights``), and ask themselves when that is nothing to be kept. The
outcome of a call is committed before the next call is made; a try is counted, and the judge's door
looked at, before a call. Rows that were not admitted stay as they are.

`Session` asks the tier of every day; ``scoring.judge.strong_session`` a stronger judge. Shaped by a
loop in which asking, storing and retrying were one thing.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import transaction

from memory.reasons import Reason
from scoring import batches
from scoring.judge import cache, pause, verdict_store
from scoring.judge.asking import Answer, Failure, Question, Step, ask_about, groups_of
from scoring.judge.cache import Served
from scoring.judge.errors import JudgeRequestRefused, JudgeUnavailable
from scoring.judge.flights import POLL_S, Flights, patience
from scoring.judge.pause import Door
from scoring.judge.retries import LONGEST_BACKOFF, retry_delay
from scoring.judge.verdict_store import Asked, Ruling, Said, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memory.models import Retrieval
    from scoring.batches import Lease
    from scoring.judge.bench import Bench
    from scoring.judge.errors import JudgeError
    from scoring.judge.works import Work
    from scoring.models import JudgeCall, Judgement, ScoreBatch

logger = logging.getLogger(__name__)

RETRIABLE: Final = {Reason.JUDGE_UNAVAILABLE.value, Reason.JUDGE_ERROR.value}
WORKER_LOST: Final = "its process died during the call, every time"

Pair = list[Asked]
"""The rows that ask about one tip; never empty."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A row that took a verdict."""

    row: Retrieval
    ruling: Ruling
    judgement: Judgement


@dataclass
class Session:
    """See the module's description. `paused`: some rows were left, because the judge is away."""

    lease: Lease
    bench: Bench
    work: Work
    labelled: list[Labelled] = field(default_factory=list)
    paused: bool = False
    source: Source = field(init=False)
    _probing: bool = False
    _flights: Flights = field(default_factory=Flights)
    _keys: dict[tuple[str, Served], str] = field(default_factory=dict)
    _elsewhere: list[Retrieval] = field(default_factory=list)
    _patient_until: float = math.inf

    def __post_init__(self) -> None:
        """Name who rules here. Raises PromptError."""
        self.source = Source(
            run_id=self.lease.batch.run_id,
            tier=self.bench.tier,
            model=self.bench.config.model,
            prompt=self.bench.prompts.for_skill(self.work.skill),
        )

    def judge(self, rows: Iterable[Retrieval]) -> None:
        """Label *rows* of the work, from the cache or by asking."""
        left = list(rows)
        while left:
            pairs = self._pairs(left)
            try:
                self._ask([pairs[at] for at in self._unknown(pairs)])
            finally:
                self._flights.end()
            left, self._elsewhere = self._elsewhere, []
            if self.paused:
                return
            if left:
                self._patient_until = min(self._patient_until, time.monotonic() + patience())
                time.sleep(POLL_S)
                batches.renew(self.lease)

    def _ask(self, open_: list[Pair]) -> None:
        if not open_:
            return
        question = Question(
            prompt=self.source.prompt,
            script=self.work.sent.text,
            tips=tuple(self._tip(pair) for pair in open_),
            budget=self.bench.config.budget,
        )
        tried = [at for at, pair in enumerate(open_) if any(one.row.llm_tries for one in pair)]
        together = settings.JUDGE_TIPS_PER_CALL if settings.JUDGE_MODE == "per_attempt" else 1
        renew = partial(batches.renew, self.lease)
        for step in ask_about(
            partial(self.bench.ask, waiting=renew),
            question,
            groups_of(len(open_), per_call=together, alone=tried),
            admit=lambda indices: self._admitted(indices, open_),
            renew=renew,
        ):
            self._take(step, open_)

    # --- Before a call ----------------------------------------------------------------------------

    def _asked(self, row: Retrieval, served: Served) -> Asked:
        return Asked(
            row=row,
            request_key=self._key(row, served),
            redactions=self.work.redactions(row),
            cross_skill=row.pk in self.work.cross_skill,
        )

    def _served(self) -> Served:
        """What the server says it is: as it told this process, or as its latest stored reply has it."""
        known = self.bench.served
        return known if known != Served() else cache.last_served(self.bench.config.model)

    def _key(self, row: Retrieval, served: Served) -> str:
        tip = self.work.tips[row.pk].text
        if (key := self._keys.get((tip, served))) is None:
            key = self._keys[tip, served] = cache.request_key(
                self.bench.config,
                served,
                prompt_sha256=self.source.prompt.sha256,
                tip=tip,
                script=self.work.sent.text,
            )
        return key

    def _tip(self, pair: Pair) -> str:
        return self.work.tips[pair[0].row.pk].text

    def _pairs(self, rows: Iterable[Retrieval]) -> list[Pair]:
        """Rows with the same tip come together, unless everything is to be asked anew."""
        served = self._served()
        if not cache.enabled():
            return [[self._asked(row, served)] for row in rows]
        pairs: dict[str, Pair] = {}
        for row in rows:
            pairs.setdefault(self.work.tips[row.pk].text, []).append(self._asked(row, served))
        return list(pairs.values())

    def _unknown(self, pairs: Sequence[Pair]) -> list[int]:
        """Publish what the cache knows; which pairs it does not know."""
        served = self._served()
        keys = [self._key(pair[0].row, served) for pair in pairs]
        kept = cache.lookup(keys)
        said = [
            Said(
                asked=replace(asked, request_key=key),
                ruling=verdict_store.ruling_from(found),
                served_model=found.served_model,
                system_fingerprint=found.system_fingerprint,
            )
            for key, pair in zip(keys, pairs, strict=True)
            if (found := kept.get(key))
            for asked in pair
        ]
        self._publish(said, call=None)
        return [at for at, key in enumerate(keys) if key not in kept]

    def _admitted(self, indices: Sequence[int], pairs: Sequence[Pair]) -> list[int]:
        """Those that may be asked about now: nobody else does, the judge's door is open, and their
        try is counted."""
        free = self._not_in_flight(indices, pairs)
        # the door is looked at last: it may let in one caller alone, who must then call
        return self._granted(free, pairs) if free and self._door_is_open() else []

    def _not_in_flight(self, indices: Sequence[int], pairs: Sequence[Pair]) -> list[int]:
        """Those that nobody else asks about, and of which no verdict has come in the meantime."""
        if not cache.enabled():
            return list(indices)
        self._flights.end()  # of the group before
        of_key = {self._key(pairs[at][0].row, Served()): at for at in indices}
        held = self._flights.begin(of_key.keys())
        if time.monotonic() < self._patient_until:
            taken = [at for key, at in of_key.items() if key not in held]
            self._elsewhere += [asked.row for at in taken for asked in pairs[at]]
        else:
            held = set(of_key)
        mine = [at for key, at in of_key.items() if key in held]
        return [mine[at] for at in self._unknown([pairs[at] for at in mine])]

    def _door_is_open(self) -> bool:
        door = pause.door(self.bench.tier)
        self.paused = self.paused or door is Door.PAUSED
        self._probing = self._probing or door is Door.PROBE
        return door is not Door.PAUSED

    def _granted(self, indices: Sequence[int], pairs: Sequence[Pair]) -> list[int]:
        """Those whose try is counted."""
        return self._counted(indices, pairs)

    def _counted(self, indices: Sequence[int], pairs: Sequence[Pair]) -> list[int]:
        wanted = {index: [one.row.pk for one in pairs[index]] for index in indices}
        counted, closed = verdict_store.count_try([pk for pks in wanted.values() for pk in pks])
        if closed:
            logger.error("judge.worker_lost", extra={"rows": sorted(closed), "cause": WORKER_LOST})
        return [index for index, pks in wanted.items() if counted.intersection(pks)]

    # --- After a call -----------------------------------------------------------------------------

    def _take(self, step: Step, pairs: Sequence[Pair]) -> None:
        """Store what a call cost and what it settled; then open or close the door."""
        said: list[Said] = []
        failed: list[tuple[Pair, JudgeError]] = []
        for index, outcome in step.outcomes.items():
            if isinstance(outcome, Failure):
                failed.append((pairs[index], outcome.error))
            else:
                said += self._said(pairs[index], outcome, step)
        with transaction.atomic():
            call = verdict_store.store_call(step.call, self.source) if step.call else None
            self._publish(said, call=call)
            verdict_store.keep(said, self.source)
            if failed:
                self._fail(failed, call=call)
        if step.call is not None:
            self._tend_door(step.call.error)

    def _said(self, pair: Pair, answer: Answer, step: Step) -> list[Said]:
        """The rows of a pair get the same verdict; all but the first as if from the cache."""
        reply = step.call.reply if step.call else None
        served = Served(
            (reply.served_model if reply else None) or "",
            (reply.system_fingerprint if reply else None) or "",
        )
        ruling = verdict_store.ruling_of(answer)
        return [
            Said(
                asked=replace(asked, request_key=self._key(asked.row, served)),
                ruling=ruling,
                position=None if number else answer.position,
                served_model=served.model,
                system_fingerprint=served.fingerprint,
            )
            for number, asked in enumerate(pair)
        ]

    def _publish(self, said: Sequence[Said], *, call: JudgeCall | None) -> None:
        rulings = {one.asked.row.pk: one for one in said}
        for judgement in verdict_store.publish(said, self.source, call=call):
            one = rulings[judgement.retrieval_id]
            self.labelled.append(Labelled(one.asked.row, one.ruling, judgement))

    def _fail(self, failed: Sequence[tuple[Pair, JudgeError]], *, call: JudgeCall | None) -> None:
        """Write the reasons, and when the rows are asked again."""
        rows = []
        for asked, error in each_row(failed):
            excused = _is_excused(error, self.lease.batch)
            delay = _time_to_next_try(asked.row, error, batch=self.lease.batch, excused=excused)
            delay = None if _is_final(error, call) else delay
            rows.append((asked, error, delay, excused))
        verdict_store.fail(rows, self.source, call=call)

    def _tend_door(self, error: JudgeError | None) -> None:
        away = self.bench.is_away(error)
        if error is not None and (away or (self._probing and isinstance(error, JudgeUnavailable))):
            pause.begin(self.bench.tier, error)
        elif self._probing:
            pause.end(self.bench.tier)
        self._probing = False


def each_row(failed: Sequence[tuple[Pair, JudgeError]]) -> list[tuple[Asked, JudgeError]]:
    """The rows of pairs that failed, each with its error."""
    return [(asked, error) for pair, error in failed for asked in pair]


def _is_excused(error: JudgeError, batch: ScoreBatch) -> bool:
    """Whether a failure is not the row's fault, so that its try does not count.

    The same few rows are asked first each time: in an outage they would be out of tries after minutes.
    """
    if not isinstance(error, JudgeUnavailable):
        return False
    return error.pauses or batch.round <= LONGEST_BACKOFF


def _is_final(error: JudgeError, call: JudgeCall | None) -> bool:
    """Whether the server refuses this very question, for ever; one about several tips may be split."""
    if not isinstance(error, JudgeRequestRefused) or call is None:
        return False
    return call.tips == 1 and call.error_class == type(error).__name__


def _time_to_next_try(
    row: Retrieval, error: JudgeError, *, batch: ScoreBatch, excused: bool
) -> float | None:
    """Seconds; None: not again. An excused failure is counted by the run's rounds, not by the row."""
    tries = row.llm_tries + 1
    out_of_tries = not excused and tries >= settings.JUDGE_MAX_TRIES
    if error.reason not in RETRIABLE or out_of_tries:
        return None
    return retry_delay(batch.round if excused else tries, of=batch, asked_for=error.retry_after_s)
