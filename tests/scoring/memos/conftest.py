"""Servers that write and judge memos: one for every day, and a stronger one beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.scoring.judge.bench_rows import use_judge
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def model(settings: Any) -> Iterator[JudgeServer]:
    """The model, which is the everyday judge too; no stronger one."""
    with JudgeServer() as server:
        use_judge(settings, server)
        settings.JUDGE_HIGH_STAKES_MODEL = settings.JUDGE_HIGH_STAKES_BASE_URL = ""
        yield server


@pytest.fixture
def strong(settings: Any, model: JudgeServer) -> Iterator[JudgeServer]:
    """A stronger judge beside the model."""
    with JudgeServer() as server:
        settings.JUDGE_HIGH_STAKES_BASE_URL = server.base_url
        settings.JUDGE_HIGH_STAKES_MODEL = "stand-in-judge"
        yield server
