"""Who judges here: the judges of the settings, one bench per tier, built once per process.

Guarantees: every request of a process goes through the limit that all workers share
(``scoring.judge.pace``), and tells it at once how the server bears it; none keeps its place there while
it waits for its next try. The threads of a process share client, connections and prompts. `bench` is
None for a tier that is not configured: nothing is asked then.

A bench does not decide what is asked or stored. Shaped by clients that were built per call, with a
connection and a prompt file each, and by an overload that the others heard of when the call that had
met it gave up.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, cast

from django.conf import settings
from pydantic import SecretStr

from scoring.judge.cache import Served, last_served
from scoring.judge.client import JudgeClient
from scoring.judge.config import JudgeConfig
from scoring.judge.errors import (
    JudgeError,
    JudgeOverloaded,
    JudgeReplyUnusable,
    JudgeRequestRefused,
    JudgeTimeout,
    JudgeUnavailable,
)
from scoring.judge.pace import Pace
from scoring.judge.prompt import PromptLibrary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scoring.judge.config import CallBudget, Dialect
    from scoring.judge.prompt import Message
    from scoring.judge.reply import JudgeReply

DEFAULT: Final = "default"
HIGH_STAKES: Final = "high_stakes"
TIERS: Final = (DEFAULT, HIGH_STAKES)
FAILURES_TO_PAUSE: Final = 5
"""Calls in a row that found the server away, after which nobody asks for a while."""
REFUSALS_TO_PAUSE: Final = 5
"""Scripts (or memos) refused, none read in between, after which it is not they that are at fault."""
TIP_FENCE: Final = "[[TIP "


def configured(tier: str = DEFAULT) -> bool:
    """Whether a judge is configured; without one of every day the signal is skipped."""
    if tier == HIGH_STAKES:
        return bool(settings.JUDGE_HIGH_STAKES_BASE_URL and settings.JUDGE_HIGH_STAKES_MODEL)
    return bool(settings.JUDGE_BASE_URL and settings.JUDGE_MODEL)


def config(tier: str = DEFAULT) -> JudgeConfig:
    """The judge of the settings. Raises ValueError on what can never work."""
    strong = tier == HIGH_STAKES
    key = settings.JUDGE_HIGH_STAKES_API_KEY if strong else settings.JUDGE_API_KEY
    return JudgeConfig(
        base_url=settings.JUDGE_HIGH_STAKES_BASE_URL if strong else settings.JUDGE_BASE_URL,
        model=settings.JUDGE_HIGH_STAKES_MODEL if strong else settings.JUDGE_MODEL,
        api_key=SecretStr(key) if key else None,
        connect_timeout_s=settings.JUDGE_CONNECT_TIMEOUT_S,
        read_timeout_s=settings.JUDGE_READ_TIMEOUT_S,
        deadline_s=settings.JUDGE_DEADLINE_S,
        max_tries=settings.JUDGE_HTTP_TRIES,
        max_tokens=settings.JUDGE_MAX_TOKENS,
        dialect=cast("Dialect", settings.JUDGE_DIALECT),  # JudgeConfig refuses any other word
        thinking=settings.JUDGE_THINKING,
    )


@dataclass(slots=True)
class Bench:
    """What a process needs to ask one judge; shared by its threads."""

    tier: str
    config: JudgeConfig
    client: JudgeClient
    prompts: PromptLibrary
    pace: Pace
    _served: Served | None = None
    _failures: int = 0
    _refused: set[bytes] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object],
        budget: CallBudget,
        waiting: Callable[[], None] = lambda: None,
    ) -> JudgeReply:
        """Send one call, each try when it is its turn; raises a `JudgeError`.

        ``waiting`` is called while it waits for one.
        """
        try:
            reply = self.client.ask(
                messages, schema=schema, budget=budget, turn=partial(self._turn, waiting)
            )
        except JudgeRequestRefused:
            with self._lock:
                self._refused.add(_subject(messages))
            raise
        except JudgeReplyUnusable:  # which is no refusal
            self._refused.clear()
            raise
        self._refused.clear()
        self._served = Served(reply.served_model or "", reply.system_fingerprint or "")
        return reply

    @contextlib.contextmanager
    def _turn(self, waiting: Callable[[], None]) -> Iterator[None]:
        with self.pace.slot(waiting) as slot:
            try:
                yield
            except (JudgeOverloaded, JudgeTimeout):
                slot.bad()
                raise
            slot.good()

    @property
    def served(self) -> Served:
        """What the server said it was when it last answered, here or elsewhere."""
        if self._served is None:
            self._served = last_served(self.config.model)
        return self._served

    def is_away(self, error: JudgeError | None) -> bool:
        """Count the end of a call; whether the judge must not be asked for a while.

        It is away, or an operator must act, or it refuses whatever it is asked.
        """
        with self._lock:
            if isinstance(error, JudgeUnavailable):
                self._failures += 1
                return error.pauses or self._failures >= FAILURES_TO_PAUSE
            self._failures = 0
            refused = isinstance(error, JudgeRequestRefused)
            return refused and len(self._refused) >= REFUSALS_TO_PAUSE


def _subject(messages: Sequence[Message]) -> bytes:
    """What a question is about: all of it before the tips, which are asked one by one when refused."""
    opening, _, _ = messages[-1]["content"].partition(TIP_FENCE)
    return hashlib.sha256(opening.encode("utf-8", "surrogatepass")).digest()


def bench(tier: str = DEFAULT) -> Bench | None:
    """The bench of a tier, None if it is not configured. Raises ValueError as `config` does."""
    if not configured(tier):
        return None
    return _bench(tier, config(tier), settings.JUDGE_CONCURRENCY)


def bench_for_model(model: str | None) -> Bench:
    """The bench that serves ``model``: a tier's own, or another model at the default address.

    Raises ValueError without an address or a model.
    """
    wanted = model or settings.JUDGE_MODEL
    tier = HIGH_STAKES if wanted == settings.JUDGE_HIGH_STAKES_MODEL else DEFAULT
    return _bench(tier, replace(config(tier), model=wanted), settings.JUDGE_CONCURRENCY)


@lru_cache(maxsize=8)
def _bench(tier: str, chosen: JudgeConfig, ceiling: int) -> Bench:
    return Bench(
        tier=tier,
        config=chosen,
        client=JudgeClient(chosen),
        prompts=PromptLibrary(settings.PROMPTS_DIR),
        pace=Pace(
            backend_url=settings.CELERY_RESULT_BACKEND,
            server=chosen.api_root,
            ceiling=ceiling,
            lease_s=chosen.deadline_s + chosen.read_timeout_s,
        ),
    )
