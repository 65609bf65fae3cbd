"""One question for the client tests, asked with the schema of the product.

Holds no assertions. Shaped by tests of one client that each asked something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scoring.judge.errors import JudgeError
from scoring.judge.verdict import Label, parse_reply, verdict_schema

if TYPE_CHECKING:
    from scoring.judge.client import JudgeClient
    from scoring.judge.reply import JudgeReply

QUESTION = [
    {"role": "system", "content": "You compare two texts."},
    {
        "role": "user",
        "content": "[[SCRIPT 00 BEGIN]]\nchronyc -a makestep\n[[SCRIPT 00 END]]\n"
        "[[TIP t1 00 BEGIN]]\nstep the clock with `chronyc -a makestep`\n[[TIP t1 00 END]]",
    },
]


SCHEMA = verdict_schema(["t1"])


def ask(client: JudgeClient) -> JudgeReply:
    return client.ask(QUESTION, schema=SCHEMA)


def label_of(content: str) -> Label | None:
    """The label that a reply about the one tip gives; None if it is missing or refused."""
    read = parse_reply(content, ["t1"]).verdicts.get("t1")
    return read.label if read else None


def failure_of(client: JudgeClient) -> JudgeError:
    with pytest.raises(JudgeError) as caught:
        ask(client)
    return caught.value
