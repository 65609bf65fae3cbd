"""One text from a model, held against the gate before anybody sees it; asked for twice at most.

Guarantees: `written` returns a text that has passed the gate, or none with the reason; a reply that
cannot be read, or a text that the gate refuses, is asked for once more (with the findings) and never
twice; what a model says besides is not searched. Knows no rows and no Django: who asks, and what takes
the place of a text that did not come, is the caller's business.

Source: issue 5 (item 4); the original let the texts of its debate out unchecked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from scoring.judge.decoding import decoded, storable
from scoring.judge.errors import (
    JudgeError,
    JudgeUnavailable,
    VerdictFieldMissing,
    VerdictFieldType,
    VerdictFieldUnknown,
    VerdictNotObject,
    VerdictTooLong,
)
from scoring.memos.gate import check
from scoring.memos.question import corrected_messages, draft_messages, mended_messages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scoring.judge.prompt import Message
    from scoring.judge.reply import JudgeReply
    from scoring.memos.facts import Snapshot
    from scoring.memos.gate_report import GateReport
    from scoring.memos.prompt_files import MemoPrompts
    from scoring.memos.question import Mode

Variant = Literal["writer", "single", "debate"]
MAX_PARAGRAPHS: Final = 80
"""Of a memo for an agent, which has one line a fact; prose needs five."""
MAX_PARAGRAPH_CHARS: Final = 2_000
DRAFT_TOKENS: Final = 1_500
"""Tokens of one text at most; a second asking may have twice as many."""
MAX_REASON_CHARS: Final = 500
DRAFT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "paragraphs": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_PARAGRAPH_CHARS},
            "minItems": 1,
            "maxItems": MAX_PARAGRAPHS,
        }
    },
    "required": ["paragraphs"],
    "additionalProperties": False,
}


class Purpose(StrEnum):
    """What a call is made for; the names of the prompt files."""

    SYNTHESIS = "synthesis"
    FOR = "for"
    AGAINST = "against"
    BALANCED = "balanced"
    JUDGE = "judge"


class AskMemo(Protocol):
    """One call to a model; raises a `JudgeError`. ``again``: it is the second asking."""

    def __call__(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object],
        max_tokens: int,
        purpose: Purpose,
        prompt_sha256: str,
        again: bool,
    ) -> JudgeReply: ...


@dataclass(slots=True)
class Spent:
    """What a memo has cost so far. Tokens are None once a server did not count them."""

    calls: int = 0
    tokens_in: int | None = 0
    tokens_out: int | None = 0

    def add(self, reply: JudgeReply | None) -> None:
        """Count a call; one without a reply has no tokens that anybody knows of."""
        self.calls += 1
        if reply is not None:
            self.tokens_in = _sum(self.tokens_in, reply.prompt_tokens)
            self.tokens_out = _sum(self.tokens_out, reply.completion_tokens)


def _sum(total: int | None, part: int | None) -> int | None:
    return None if total is None or part is None else total + part


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a debate: "for" or "against", and its text, which has passed the gate."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A memo before it is judged, and who wrote it.

    ``variant`` says who did: "writer" when no model was asked, or when one failed, and then ``reason``
    says how. ``model`` and ``prompt_sha`` (over all prompt files that were used) are "" for the writer.
    ``calls`` counts those that were made, also in vain; tokens are None where a server did not count.
    ``unavailable``: no model could be asked, so that asking later may help.
    """

    text: str
    variant: Variant
    model: str
    prompt_sha: str
    calls: int
    reason: str = ""
    sides: tuple[Side, ...] = ()
    tokens_in: int | None = 0
    tokens_out: int | None = 0
    unavailable: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """A text that passed the gate, or "" and why there is none; ``unavailable`` as of `Draft`."""

    text: str
    reason: str = ""
    unavailable: bool = False


@dataclass(slots=True)
class Drafting:
    """The conversation about one snapshot: who is asked, with which prompts, between which fences."""

    ask: AskMemo
    prompts: MemoPrompts
    snapshot: Snapshot
    mark: str
    spent: Spent = field(default_factory=Spent)

    def written(
        self, purpose: Purpose, *, mode: Mode, sides: Mapping[str, str] | None = None
    ) -> Written:
        """Ask for one text, and once more if it cannot be used; raises PromptError."""
        prompt, rules = self.prompts.named(purpose), self.prompts.named("rules")
        sha256 = self.prompts.sha256(purpose, "rules")
        messages = draft_messages(
            prompt, rules, self.snapshot, mark=self.mark, mode=mode, sides=sides
        )
        refused = Written("")
        for again in (False, True):
            reply: JudgeReply | None = None
            try:
                reply = self.said(
                    messages,
                    schema=DRAFT_SCHEMA,
                    max_tokens=DRAFT_TOKENS * (2 if again else 1),
                    purpose=purpose,
                    prompt_sha256=sha256,
                    again=again,
                )
                text = text_of(reply.content, mode=mode if prompt.forms else "human")
            except JudgeError as error:
                away = isinstance(error, JudgeUnavailable)
                refused = Written("", failure(purpose, error), away)
                if not error.worth_reasking:
                    break
                if reply is not None:
                    messages = corrected_messages(messages, reply.content, error)
                continue
            report = check(text, self.snapshot)
            if report.passed:
                return Written(text)
            refused = Written("", refusal(purpose, report))
            messages = mended_messages(messages, reply.content, report, mark=self.mark)
        return refused

    def said(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object],
        max_tokens: int,
        purpose: Purpose,
        prompt_sha256: str,
        again: bool,
    ) -> JudgeReply:
        """Make one call and count it; raises a `JudgeError`."""
        reply: JudgeReply | None = None
        try:
            reply = self.ask(
                messages,
                schema=schema,
                max_tokens=max_tokens,
                purpose=purpose,
                prompt_sha256=prompt_sha256,
                again=again,
            )
            return reply
        finally:
            self.spent.add(reply)


def text_of(content: str, *, mode: Mode) -> str:
    """Return the text of a reply: paragraphs of prose, or a bullet per line; raises a `VerdictError`."""
    found, _ = decoded(content)
    if not isinstance(found, dict):
        raise VerdictNotObject("the reply is JSON, but no object")
    if unknown := found.keys() - {"paragraphs"}:
        raise VerdictFieldUnknown(f"the reply has {len(unknown)} field(s) that the schema has not")
    parts = found.get("paragraphs")
    if parts is None:
        raise VerdictFieldMissing("the reply has no paragraphs")
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise VerdictFieldType("paragraphs is no list of texts")
    if len(parts) > MAX_PARAGRAPHS or any(len(part) > MAX_PARAGRAPH_CHARS for part in parts):
        raise VerdictTooLong("more, or longer, paragraphs than the schema allows")
    texts = [storable(part).strip() for part in parts]
    texts = [text for text in texts if text]
    if mode == "human":
        return "\n\n".join(texts)
    return "\n".join("- " + text.removeprefix("- ") for text in texts)


def failure(purpose: Purpose, error: JudgeError) -> str:
    """Return why a call brought nothing, in a line; errors hold no judged text."""
    return f"{purpose}: {type(error).__name__}: {error}"[:MAX_REASON_CHARS]


def refusal(purpose: Purpose, report: GateReport) -> str:
    """Return what the gate refused, by the kinds of its findings."""
    kinds = ", ".join(dict.fromkeys(str(finding.kind) for finding in report.findings))
    return f"{purpose}: refused by the gate: {kinds}"[:MAX_REASON_CHARS]
