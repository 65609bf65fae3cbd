"""Gives each test a judge stand-in of its own, and a client whose pauses cost no time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from scoring.judge.client import JudgeClient, JudgeConfig
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    """Serve without a key."""
    with JudgeServer() as server:
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
