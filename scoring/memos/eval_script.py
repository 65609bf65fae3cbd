"""A model that says what a case has it say, in order: the scenarios of the offline suite ask it.

Guarantees: it answers through the same door as a server (`scoring.memos.drafting.AskMemo`), with replies
or with the errors that the HTTP client raises; a scenario that asks more, or less, than its script has
is seen. It is no test of HTTP: that is done against a server that speaks it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from scoring.judge.errors import JudgeUnreachable, ReplyTruncated
from scoring.judge.reply import JudgeReply
from scoring.memos.eval_data import EvalDataError, cited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scoring.judge.prompt import Message
    from scoring.memos.drafting import Purpose
    from scoring.memos.facts import Snapshot

MODEL: Final = "script"
ERRORS: Final = {"ReplyTruncated": ReplyTruncated, "JudgeUnreachable": JudgeUnreachable}


@dataclass(slots=True)
class Script:
    """The replies of one scenario.

    ``draft``: paragraphs; ``raw``: a reply as it stands; ``error``: the name of one; ``audit``: one
    finding for all statements, "half": supported, about the first half alone, or "last": the last one
    is unsupported.
    """

    snapshot: Snapshot
    replies: Sequence[Mapping[str, Any]]
    said: int = field(default=0)

    def __call__(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object],
        max_tokens: int,
        purpose: Purpose,
        prompt_sha256: str,
        again: bool,
    ) -> JudgeReply:
        """Say the next reply; raises EvalDataError when the script is over."""
        if self.said >= len(self.replies):
            raise EvalDataError(f"the script is over, and {purpose} asks once more")
        reply = self.replies[self.said]
        self.said += 1
        if name := reply.get("error"):
            raise ERRORS[name]("said by the script")
        return _reply(self._content(reply, schema))

    @property
    def left(self) -> int:
        """Replies that nobody asked for."""
        return len(self.replies) - self.said

    def _content(self, reply: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
        if "raw" in reply:
            return str(reply["raw"])
        if "draft" in reply:
            return json.dumps(
                {"paragraphs": [cited(part, self.snapshot) for part in reply["draft"]]}
            )
        return json.dumps({"claims": _audit(reply["audit"], schema)})


def _audit(finding: str, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    claims = schema["properties"]["claims"]
    refs = claims["items"]["properties"]["citations"]["items"]["enum"]
    count = claims["minItems"] // 2 if finding == "half" else claims["minItems"]
    said = ["supported" if finding in {"half", "last"} else finding] * count
    if finding == "last":
        said[-1] = "unsupported"
    return [
        {
            "statement": number,
            "claim": "as the script has it",
            "finding": one,
            "citations": refs[:1] if one == "supported" else [],
            "why": "",
        }
        for number, one in enumerate(said, start=1)
    ]


def _reply(content: str) -> JudgeReply:
    return JudgeReply(
        content=content, requested_model=MODEL, served_model=MODEL, system_fingerprint=None,
        prompt_tokens=None, completion_tokens=None, cached_tokens=None, reasoning_tokens=None,
        latency_s=0.0, raw="", status=200, tries=1,
    )  # fmt: skip
