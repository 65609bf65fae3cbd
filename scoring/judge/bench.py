"""Who judges here: the judges of the settings, one bench per tier, built once per process.

Guarantees: every call of a process goes through the limit that all workers share
(``scoring.judge.pace``), and tells it how the server bears it; the threads of a process share client,
connections and prompts. `bench` is None for a tier that is not configured: nothing is asked then.

A bench does not decide what is asked or stored. Shaped by clients that were built per call, with a
connection and a prompt file each.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from django.conf import settings
from pydantic import SecretStr

from scoring.judge.cache import Served, last_served
from scoring.judge.client import JudgeClient
from scoring.judge.config import JudgeConfig
from scoring.judge.errors import JudgeError, JudgeOverloaded, JudgeTimeout, JudgeUnavailable
from scoring.judge.pace import Pace
from scoring.judge.prompt import PromptLibrary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scoring.judge.config import CallBudget, Dialect
    from scoring.judge.prompt import Message
    from scoring.judge.reply import JudgeReply

DEFAULT: Final = "default"
HIGH_STAKES: Final = "high_stakes"
TIERS: Final = (DEFAULT, HIGH_STAKES)
FAILURES_TO_PAUSE: Final = 5
"""Calls in a row that found the server away, after which nobody asks for a while."""


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
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object],
        budget: CallBudget,
        waiting: Callable[[], None] = lambda: None,
    ) -> JudgeReply:
        """Send one call when it is its turn; raises a `JudgeError`. ``waiting`` is called meanwhile."""
        with self.pace.slot(waiting) as slot:
            try:
                reply = self.client.ask(messages, schema=schema, budget=budget)
            except (JudgeOverloaded, JudgeTimeout):
                slot.bad()
                raise
            if reply.tries > 1:
                slot.bad()
            else:
                slot.good()
        self._served = Served(reply.served_model or "", reply.system_fingerprint or "")
        return reply

    @property
    def served(self) -> Served:
        """What the server said it was when it last answered, here or elsewhere."""
        if self._served is None:
            self._served = last_served(self.config.model)
        return self._served

    def is_away(self, error: JudgeError | None) -> bool:
        """Count the end of a call; whether the server must be taken for away now."""
        with self._lock:
            if not isinstance(error, JudgeUnavailable):
                self._failures = 0
                return False
            self._failures += 1
            return error.pauses or self._failures >= FAILURES_TO_PAUSE


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
