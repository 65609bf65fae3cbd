"""The structured judge: for each statement of a memo, which claims it makes and which facts support them.

Guarantees: a memo is accepted only if every statement has a line and every claim is supported by facts
that exist; whatever else comes back (cut, unparseable, a statement left out, a citation that no fact
has, a server that is away) rejects it, with a reason that names what was wrong. The statements are the
sentences that the gate reads, numbered here: a judge cannot pass over one. A long memo is audited in
blocks, each a call with room for its answer, and the checklists are joined; a block is read by itself, so
that "this" at its beginning may be unclear, which rejects. `judge_memo` raises no `JudgeError`.

It does not look at figures (the gate does) and does not decide what becomes of a rejected memo. Without
a model nothing is judged: None, which is no acceptance. Source: ADR-0006 and issue 5 (item 5); in the
original one number decided, and an unsupported claim did not. Shaped by long memos that were rejected for
their length after they had been paid for.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypedDict

from scoring.judge.decoding import decoded, storable
from scoring.judge.errors import (
    JudgeError,
    JudgeUnavailable,
    VerdictContradiction,
    VerdictFieldMissing,
    VerdictFieldType,
    VerdictFieldUnknown,
    VerdictIdInvalid,
    VerdictNoClaims,
    VerdictNotObject,
    VerdictTooLong,
    VerdictValueUnknown,
)
from scoring.judge.fences import new_mark
from scoring.judge.prompt_file import PromptError
from scoring.memos.drafting import MAX_REASON_CHARS, Drafting, Purpose
from scoring.memos.figures_tokens import TokenKind, tokens_of
from scoring.memos.question import audit_messages, corrected_messages, statements_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scoring.judge.bench import Bench
    from scoring.judge.reply import JudgeReply
    from scoring.memos.drafting import AskMemo
    from scoring.memos.facts import Snapshot
    from scoring.memos.prompt_files import MemoPrompts

MAX_STATEMENTS: Final = 1_000
"""A line for each of as many facts as there can be is half of it."""
BLOCK_STATEMENTS: Final = 20
"""Statements of one call at most; more of them need more room than TOKENS_AT_MOST to be asked again."""
MAX_CLAIMS_EACH: Final = 3
MAX_CLAIM_CHARS: Final = 300
MAX_WHY_CHARS: Final = 200
MAX_CITATIONS: Final = 6
TOKENS_EACH: Final = 130
"""Tokens of the answer about one statement; a second asking may have twice as many, up to the cap."""
TOKENS_AT_MOST: Final = 4_096
"""Tokens of one answer: half of a context of 8,192, so that the question has the other half."""


class Finding(StrEnum):
    """What the judge says about a claim."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"
    UNCLEAR = "unclear"
    NO_CLAIM = "no_claim"


class Item(TypedDict):
    """One line of the checklist, as it is stored. ``supported`` is None where nothing is claimed.

    ``statement`` counts from 1; ``citation`` holds the labels of facts, with commas between, or "".
    """

    statement: int
    claim: str
    finding: str
    supported: bool | None
    citation: str
    why: str


@dataclass(frozen=True, slots=True)
class MemoVerdict:
    """``accepted``: every claim is supported. ``reason`` is "" exactly then.

    ``faithfulness`` is the share of claims that are supported, 0 to 1; None where the judge gave no
    checklist that can be counted: an error is no grade. ``error`` is its class, "" if the judge answered.
    ``unavailable``: the judge could not be asked, so that asking later may help.
    """

    accepted: bool
    reason: str
    items: tuple[Item, ...]
    tier: str
    model: str
    prompt_sha: str
    faithfulness: Decimal | None = None
    error: str = ""
    unavailable: bool = False
    calls: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        share = self.faithfulness
        return asdict(self) | {"faithfulness": None if share is None else str(round(share, 4))}


def judge_memo(
    text: str, snapshot: Snapshot, *, tier: str, bench: Bench | None, run_id: int | None = None
) -> MemoVerdict | None:
    """Judge a memo that has passed the gate; None: there is no model to ask.

    Raises ValueError if ``bench`` is of another tier than ``tier``.
    """
    if bench is None:
        return None
    if bench.tier != tier:
        raise ValueError(f"a bench of tier {bench.tier!r} gives no verdict of tier {tier!r}")
    from scoring.memos.desk import Desk, memo_prompts

    return audited(
        Desk(bench, run_id=run_id), memo_prompts(), text, snapshot,
        tier=tier, model=bench.config.model,
    )  # fmt: skip


def audited(
    ask: AskMemo, prompts: MemoPrompts, text: str, snapshot: Snapshot, *, tier: str, model: str
) -> MemoVerdict:
    """Judge a memo by asking ``ask`` about each block, once more if the reply cannot be used."""
    drafting = Drafting(ask, prompts, snapshot, new_mark())
    sha256 = ""
    try:
        sha256 = prompts.sha256(Purpose.JUDGE)
        items = _checklist(drafting, text, sha256)
    except PromptError as error:
        reason, name = f"prompt: {error}"[:MAX_REASON_CHARS], type(error).__name__
        return MemoVerdict(
            accepted=False, reason=reason, items=(), tier=tier, model=model, prompt_sha=sha256,
            error=name,
        )  # fmt: skip
    except JudgeError as error:
        name = type(error).__name__
        reason = f"{name}: {error}"[:MAX_REASON_CHARS]
        return MemoVerdict(
            accepted=False, reason=reason, items=(), tier=tier, model=model, prompt_sha=sha256,
            error=name, unavailable=isinstance(error, JudgeUnavailable), calls=drafting.spent.calls,
        )  # fmt: skip
    reason = _against(items)
    return MemoVerdict(
        not reason, reason, items, tier, model, sha256, _share(items), calls=drafting.spent.calls
    )


def _checklist(drafting: Drafting, text: str, sha256: str) -> tuple[Item, ...]:
    """Ask about each block; raises a `JudgeError`."""
    statements = statements_of(text)
    if not statements:
        raise VerdictNoClaims("the memo has no statements")
    if len(statements) > MAX_STATEMENTS:
        raise VerdictTooLong(f"the memo has {len(statements)} statements, over {MAX_STATEMENTS}")
    blocks = math.ceil(len(statements) / BLOCK_STATEMENTS)
    size = math.ceil(len(statements) / blocks)  # of one size, so that none is a single sentence
    items: list[Item] = []
    for at in range(0, len(statements), size):
        items += _block(drafting, statements[at : at + size], at + 1, sha256)
    return tuple(items)


def _block(
    drafting: Drafting, statements: Sequence[str], first: int, sha256: str
) -> tuple[Item, ...]:
    """Ask about the statements from number ``first`` on, once more if it helps; raises a `JudgeError`."""
    refs = tuple(drafting.snapshot.by_citation)
    prompt = drafting.prompts.named(Purpose.JUDGE)
    messages = audit_messages(
        prompt, drafting.snapshot, statements, mark=drafting.mark, first=first
    )
    wanted = TOKENS_EACH * (len(statements) + 2)
    for again in (False, True):
        reply: JudgeReply | None = None
        try:
            reply = drafting.said(
                messages,
                schema=checklist_schema(len(statements), refs, first=first),
                max_tokens=min(wanted * (2 if again else 1), TOKENS_AT_MOST),
                purpose=Purpose.JUDGE,
                prompt_sha256=sha256,
                again=again,
            )
            return parse_checklist(reply.content, statements, refs, first=first)
        except JudgeError as error:
            if again or not error.worth_reasking:
                raise
            if reply is not None:
                messages = corrected_messages(messages, reply.content, error)
    raise AssertionError("two askings ended without result or error")


def checklist_schema(statements: int, refs: Sequence[str], *, first: int = 1) -> dict[str, Any]:
    """Return the JSON schema of a checklist about ``statements`` statements and these citations.

    ``first`` is the number of the first statement.
    """
    last = first + statements - 1
    line = {
        "statement": {"type": "integer", "minimum": first, "maximum": last},
        "claim": {"type": "string", "minLength": 1, "maxLength": MAX_CLAIM_CHARS},
        "finding": {"type": "string", "enum": [str(finding) for finding in Finding]},
        "citations": {
            "type": "array",
            "items": {"type": "string", "enum": list(refs)} if refs else {"type": "string"},
            "maxItems": MAX_CITATIONS if refs else 0,
        },
        "why": {"type": "string", "maxLength": MAX_WHY_CHARS},
    }
    item = {
        "type": "object",
        "properties": line,
        "required": list(line),
        "additionalProperties": False,
    }
    claims = {
        "type": "array",
        "items": item,
        "minItems": statements,
        "maxItems": statements * MAX_CLAIMS_EACH,
    }
    return {
        "type": "object",
        "properties": {"claims": claims},
        "required": ["claims"],
        "additionalProperties": False,
    }


def parse_checklist(
    content: str, statements: Sequence[str], refs: Sequence[str], *, first: int = 1
) -> tuple[Item, ...]:
    """Return the lines of a reply; raises the `VerdictError` that names what is wrong with it.

    ``first`` is the number of the first of ``statements``.
    """
    found, _ = decoded(content)
    if not isinstance(found, dict):
        raise VerdictNotObject("the reply is JSON, but no object")
    if found.keys() - {"claims"}:
        raise VerdictFieldUnknown("the reply has a field that the schema has not")
    lines = found.get("claims")
    if lines is None:
        raise VerdictFieldMissing("the reply has no claims")
    if not isinstance(lines, list):
        raise VerdictFieldType("claims is no list")
    if len(lines) > len(statements) * MAX_CLAIMS_EACH:
        raise VerdictTooLong(f"{len(lines)} claims about {len(statements)} statements")
    numbered = dict(enumerate(statements, start=first))
    items = tuple(_item(line, numbered, refs) for line in lines)
    counted = Counter(item["statement"] for item in items)
    missing = [number for number in numbered if not counted[number]]
    if missing:
        raise VerdictNoClaims(f"no line about statement {', '.join(map(str, missing[:10]))}")
    return items


def _item(line: object, statements: Mapping[int, str], refs: Sequence[str]) -> Item:
    if not isinstance(line, dict):
        raise VerdictNotObject("a claim is no object")
    types = {"statement": int, "claim": str, "finding": str, "citations": list, "why": str}
    if absent := types.keys() - line.keys():
        raise VerdictFieldMissing(f"a claim has no {min(absent)}")
    if line.keys() - types.keys():
        raise VerdictFieldUnknown("a claim has a field that the schema has not")
    for name, kind in types.items():
        if type(line[name]) is not kind:
            raise VerdictFieldType(f"{name} is no {kind.__name__}")
    number, cited = line["statement"], line["citations"]
    if number not in statements:
        asked = f"{min(statements)} to {max(statements)}"
        raise VerdictIdInvalid(f"a claim of statement {number}, of {asked}")
    if line["finding"] not in set(Finding):
        raise VerdictValueUnknown("a finding that is none of the words of the schema")
    if len(line["claim"]) > MAX_CLAIM_CHARS or len(line["why"]) > MAX_WHY_CHARS:
        raise VerdictTooLong("a claim or its why is longer than the schema allows")
    if len(cited) > MAX_CITATIONS:
        raise VerdictTooLong(f"{len(cited)} citations under one claim")
    if not all(isinstance(ref, str) and ref in refs for ref in cited):
        raise VerdictIdInvalid(f"statement {number}: a citation that no fact has")
    return _agreed(line, statements[number])


def _agreed(line: dict[str, Any], statement: str) -> Item:
    """Refuse a line that contradicts itself or its statement."""
    number, finding = line["statement"], Finding(line["finding"])
    if finding is Finding.SUPPORTED and not line["citations"]:
        raise VerdictContradiction(f"statement {number}: supported by no fact")
    cites = any(token.kind is TokenKind.CITE for token in tokens_of(statement))
    if finding is Finding.NO_CLAIM and cites:
        raise VerdictContradiction(f"statement {number} holds a citation, and is called no claim")
    return Item(
        statement=number,
        claim=storable(line["claim"]).strip(),
        finding=str(finding),
        supported=None if finding is Finding.NO_CLAIM else finding is Finding.SUPPORTED,
        citation=", ".join(dict.fromkeys(line["citations"])),
        why=storable(line["why"]).strip(),
    )


def _against(items: Sequence[Item]) -> str:
    """Return why a checklist rejects its memo, "" if it does not."""
    wrong = [item for item in items if item["supported"] is False]
    if wrong:
        first = wrong[0]
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return f"statement {first['statement']} is {first['finding']}: {first['claim']}{more}"[
            :MAX_REASON_CHARS
        ]
    if all(item["supported"] is None for item in items):
        return "the judge finds no claim in the whole memo"
    return ""


def _share(items: Sequence[Item]) -> Decimal:
    claims = [item for item in items if item["supported"] is not None]
    good = sum(bool(item["supported"]) for item in claims)
    return Decimal(good) / len(claims) if claims else Decimal(0)
