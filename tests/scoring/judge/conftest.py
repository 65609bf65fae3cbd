"""Gives each test a judge stand-in of its own, and a client whose pauses cost no time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from scoring.judge.client import JudgeClient, JudgeConfig
from tests.scoring.judge.bench_rows import use_judge
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    """Serve without a key."""
    with JudgeServer() as server:
        yield server


@pytest.fixture
def strong(judge: JudgeServer, settings: Any) -> Iterator[JudgeServer]:
    """A second server for high stakes; the first one serves every day."""
    with JudgeServer(model="strong-judge") as server:
        use_judge(
            settings,
            judge,
            JUDGE_HIGH_STAKES_MODEL="strong-judge",
            JUDGE_HIGH_STAKES_BASE_URL=server.base_url,
        )
        yield server


@dataclass
class Clock:
    """A clock that moves only when somebody sleeps."""

    now: float = 1_000.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return the clock of ``client_of``."""
    return Clock()


@pytest.fixture
def client_of(clock: Clock) -> Iterator[Callable[..., JudgeClient]]:
    """Build clients on the frozen clock, with the longest jitter; closes them."""
    built: list[JudgeClient] = []

    def build(base_url: str, **config: Any) -> JudgeClient:
        client = JudgeClient(
            JudgeConfig(**({"base_url": base_url, "model": "stand-in-judge"} | config)),
            sleep=clock.sleep,
            clock=clock,
            jitter=lambda _, high: high,
        )
        built.append(client)
        return client

    yield build
    for client in built:
        client.close()
