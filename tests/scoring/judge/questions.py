"""One question for the client tests, asked with the schema of the product.

Holds no assertions. Shaped by tests of one client that each asked something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scoring.judge.errors import JudgeError
from scoring.judge.verdict import VERDICT_SCHEMA

if TYPE_CHECKING:
    from scoring.judge.client import JudgeClient
    from scoring.judge.reply import JudgeReply

QUESTION = [
    {"role": "system", "content": "You compare two texts."},
    {
        "role": "user",
        "content": "[[SCRIPT 00 BEGIN]]\nchronyc -a makestep\n[[SCRIPT 00 END]]\n"
        "[[TIP 00 BEGIN]]\nstep the clock with `chronyc -a makestep`\n[[TIP 00 END]]",
    },
]


def ask(client: JudgeClient) -> JudgeReply:
    return client.ask(QUESTION, schema=VERDICT_SCHEMA)


def failure_of(client: JudgeClient) -> JudgeError:
    with pytest.raises(JudgeError) as caught:
        ask(client)
    return caught.value
