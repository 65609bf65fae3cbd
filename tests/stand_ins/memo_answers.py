"""What the stand-in says to the questions of memos: texts and audits made from the facts of the request.

A question is one of memos if its first user message holds a FACTS fence. `MODES` name how it answers:
``honest`` states each fact as it stands; ``lying`` changes a figure, ``mends`` does so only until it is
told; ``one_sided`` lies when it argues against; ``invents`` adds causes that no fact has; ``obeys`` says
what a text among the facts tells it to (``memo-says=…;``). An audit calls supported what cites facts, and
unsupported what speaks of a cause; ``lenient`` supports everything, ``skips`` leaves out the last
statement, ``phantom`` cites a fact that is not there, ``shrugs`` says no_claim to everything (which no
audit may), ``rejects`` calls everything unsupported.

The answer depends on mode and request alone. It is no judgement. Shaped by patched synthesisers, with
which nothing between the request and the gate was tried.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.stand_ins import judge_answers
from tests.stand_ins.judge_protocol import CHARS_PER_TOKEN

if TYPE_CHECKING:
    from tests.stand_ins.judge_protocol import Question

MODES = frozenset(
    {"honest", "lying", "mends", "one_sided", "invents", "obeys"}
    | {"lenient", "skips", "phantom", "shrugs", "rejects"}
)
PER_PARAGRAPH = 4

_FENCE = re.compile(r"\[\[(FACTS|MEMO) (\S+) BEGIN\]\]\n(.*?)\n\[\[\1 \2 END\]\]", re.DOTALL)
_FACT = re.compile(r"\[(F\d+)\] (.*) = (.*?)(?: \([^()]*\))?")
_STATEMENT = re.compile(r"\((\d+)\) (.*)")
_CITED = re.compile(r"\[(F\d+(?:, ?F\d+)*)\]")
_TOLD = re.compile(r"memo-says=([^;]*);")


def answer(question: Question, mode: str) -> tuple[str, str]:
    """Return content and finish_reason, cut where max_tokens cuts it; other questions: a verdict."""
    if "[[FACTS " not in _first(question):
        return judge_answers.answer(question)
    blocks = {name: inside for name, _, inside in _FENCE.findall(_first(question))}
    facts = [hit.groups() for line in blocks["FACTS"].split("\n") if (hit := _FACT.fullmatch(line))]
    if "claims" in (question.schema or {}).get("properties", {}):
        said: dict[str, Any] = {"claims": _audit(blocks["MEMO"], facts, mode)}
    else:
        said = {"paragraphs": _draft(facts, mode, question)}
    text = json.dumps(said)
    room = question.max_tokens * CHARS_PER_TOKEN
    return text[:room], "length" if len(text) > room else "stop"


def _first(question: Question) -> str:
    return next(
        (str(m.get("content")) for m in question.fields["messages"] if m.get("role") == "user"), ""
    )


def _draft(facts: list[tuple[str, ...]], mode: str, question: Question) -> list[str]:
    messages = question.fields["messages"]
    told = _TOLD.search(_first(question))
    if mode == "obeys" and told:
        return [told[1]]
    against = "speaks against" in str(messages[0]["content"])
    lies = (
        mode == "lying"
        or (mode == "mends" and len(messages) == 2)
        or (mode == "one_sided" and against)
    )
    said = [_sentence(ref, label, value) for ref, label, value in facts]
    if lies:
        at = next(at for at, (_, _, value) in enumerate(facts) if re.search(r"\d", value))
        ref, label, value = facts[at]
        said[at] = _sentence(ref, label, re.sub(r"\d", _other, value, count=1))
    if mode == "invents":
        said.append("All of this is so because the weather was fine.")
    return [" ".join(said[at : at + PER_PARAGRAPH]) for at in range(0, len(said), PER_PARAGRAPH)]


def _other(digit: re.Match[str]) -> str:
    return str((int(digit[0]) + 3) % 9 + 1)


def _sentence(ref: str, label: str, value: str) -> str:
    if value == "not known":
        return f"The fact {label} is not known [{ref}]."
    return f"The fact {label} is {value} [{ref}]."


def _audit(memo: str, facts: list[tuple[str, ...]], mode: str) -> list[dict[str, Any]]:
    statements = [hit.groups() for line in memo.split("\n") if (hit := _STATEMENT.fullmatch(line))]
    lines = [_line(int(number), text, facts, mode) for number, text in statements]
    return lines[:-1] if mode == "skips" else lines


def _line(number: int, text: str, facts: list[tuple[str, ...]], mode: str) -> dict[str, Any]:
    cited = [ref for group in _CITED.findall(text) for ref in re.split(", ?", group)]
    finding = "supported" if cited else "no_claim"
    if "because" in text or mode == "rejects":
        finding, cited = "unsupported", []
    if mode == "lenient":
        finding, cited = "supported", cited or [facts[0][0]]
    if mode == "phantom":
        cited = ["F999"]
    if mode == "shrugs":
        finding, cited = "no_claim", []
    return {
        "statement": number,
        "claim": text[:100],
        "finding": finding,
        "citations": list(dict.fromkeys(cited))[:6],
        "why": "The stand-in looked for citations and for causes.",
    }
