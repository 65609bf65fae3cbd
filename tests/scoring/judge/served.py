"""The judge server that the contract is tested against: the stand-in, or a real one.

Without settings the stand-in is started, and none of its tests is skipped. CONTEXTGRAPH_TEST_JUDGE_URL
and CONTEXTGRAPH_TEST_JUDGE_MODEL (and _API_KEY if it asks for one) name a real vLLM instead; it must
enforce schemas and leave out white space, as README says. Holds no assertions about answers. Shaped
by contract tests that ran against the stub alone.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import requests
from pydantic import SecretStr

from scoring.judge.client import JudgeClient, JudgeConfig
from tests.scoring.judge.questions import QUESTION
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Iterator

URL: Final = os.environ.get("CONTEXTGRAPH_TEST_JUDGE_URL", "")
MODEL: Final = os.environ.get("CONTEXTGRAPH_TEST_JUDGE_MODEL", "")
KEY: Final = os.environ.get("CONTEXTGRAPH_TEST_JUDGE_API_KEY", "")
PATIENCE_S: Final = 60
"""The first request with a schema waits for the compiler of grammars: 11 seconds were seen."""

SMALL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["followed", "not_followed", "unclear"]},
        "score": {"type": "integer", "minimum": 0, "maximum": 9},
        "sure": {"type": "boolean"},
    },
    "required": ["label", "score", "sure"],
    "additionalProperties": False,
}
"""Every instance is short, so that any model comes to its end."""


def schema_format(schema: object) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "v", "schema": schema, "strict": True}}


@dataclass(frozen=True)
class Served:
    """The server under test."""

    root: str
    model: str
    key: str
    stand_in: bool
    max_model_len: int

    def send(self, body: object, *, to: str = "") -> requests.Response:
        """POST ``body``, verbatim if it is a text; ``to`` is another address than that of questions."""
        data = body if isinstance(body, str) else json.dumps(body)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        url = to or f"{self.root}/chat/completions"
        return requests.post(url, data=data, headers=headers, timeout=PATIENCE_S)

    def ask(self, **change: Any) -> requests.Response:
        """Send a small valid question with ``change``; a field that is None is left out."""
        fields = {"model": self.model, "messages": QUESTION, "temperature": 0, "max_tokens": 60}
        sent = {name: value for name, value in (fields | change).items() if value is not None}
        return self.send(sent)

    def client(self, **change: Any) -> JudgeClient:
        """Build the client of the product for this server."""
        key = SecretStr(self.key) if self.key else None
        wanted = {"model": self.model, "api_key": key, "max_tries": 1} | change
        return JudgeClient(JudgeConfig(self.root, **wanted))


@contextlib.contextmanager
def serving() -> Iterator[Served]:
    """Yield the real server of the settings, else a stand-in with the names of the recordings."""
    if URL:
        assert MODEL, "CONTEXTGRAPH_TEST_JUDGE_URL needs CONTEXTGRAPH_TEST_JUDGE_MODEL beside it"
        root = JudgeConfig(URL, MODEL).api_root
        yield Served(root, MODEL, KEY, stand_in=False, max_model_len=context_of(root))
        return
    with JudgeServer(model="tiny-judge", api_key="testkey", max_model_len=1_024) as running:
        yield Served(running.base_url, "tiny-judge", "testkey", True, 1_024)


def context_of(root: str) -> int:
    """Tokens of the context, from the card of the model."""
    headers = {"Authorization": f"Bearer {KEY}"}
    cards = requests.get(f"{root}/models", headers=headers, timeout=PATIENCE_S).json()["data"]
    return int(next(card["max_model_len"] for card in cards if card["id"] == MODEL))
