"""Builds the messages that ask a model for a memo, for a better one, or for an audit of one.

Guarantees: facts come first, so that all questions about one snapshot share their beginning; labels,
names, sides and memos stand between fences that carry a random mark, cannot spell a fence or a chat
token (``scoring.judge.fences``), and hold no secret that ``scoring.judge.redact`` knows; nothing is
expanded as a template but the template itself.

It does not stop a model from being talked into something: figures are the gate's business, prose is
the judge's. A name in which something had to be made visible or taken out cannot be copied right, so
a text that repeats it is refused. Source: issue 5; its original fenced nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from scoring.judge.fences import fenced, neutralised
from scoring.judge.redact import redact
from scoring.memos.citations import sentences_of
from scoring.memos.render import rendered
from scoring.memos.units import Measure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scoring.judge.errors import JudgeError
    from scoring.judge.prompt import Message
    from scoring.memos.facts import Fact, Snapshot
    from scoring.memos.gate_report import GateReport
    from scoring.memos.prompt_files import MemoPrompt

Mode = Literal["human", "agent"]
MODES: Final = ("human", "agent")
MAX_FINDINGS_SHOWN: Final = 12
"""Findings of a refused text that are shown to its writer; more of them teach nothing more."""

MAX_REPLY_SHOWN: Final = 4_000
"""Characters of an unusable reply that its model is shown again."""

_DOUBLE: Final = re.compile(r"\[(?=\[)")


def shown(text: str) -> str:
    """Return hostile text as a question may hold it: redacted, visible, without a fence's brackets."""
    return _DOUBLE.sub("[ ", neutralised(redact(text).text))


def facts_block(snapshot: Snapshot, mark: str) -> str:
    """Return the facts between fences, a line each: ``[F1] label = value (how, material)``."""
    lines = []
    for ref, item in snapshot.by_citation.items():
        notes = [_derivation(item, snapshot)] if item.formula else []
        notes += ["material"] if item.is_material else []
        said = f" ({'; '.join(notes)})" if notes else ""
        lines.append(f"[{ref}] {shown(item.label)} = {_value(item)}{said}")
    return fenced("FACTS", "\n".join(lines), mark)


def _derivation(item: Fact, snapshot: Snapshot) -> str:
    inputs = ", ".join(f"[{snapshot.citations[name]}]" for name in item.derived_from)
    return f"{item.formula} of {inputs}"


def _value(item: Fact) -> str:
    if item.value is None:
        return "not known"
    # secrets stand in texts; a figure beside a label such as "token" is none
    return shown(rendered(item)) if item.measure is Measure.NAME else rendered(item)


def draft_messages(
    prompt: MemoPrompt,
    rules: MemoPrompt,
    snapshot: Snapshot,
    *,
    mark: str,
    mode: Mode,
    sides: Mapping[str, str] | None = None,
) -> list[Message]:
    """Ask for a text about ``snapshot``. ``sides``: placeholder -> text that passed the gate."""
    form = prompt.forms.get(mode, "")
    system = "\n\n".join(part for part in (prompt.system, form, rules.system) if part)
    subject = f"{snapshot.product} `{shown(snapshot.identifier).replace('`', '')[:200]}`"
    texts = {"facts": facts_block(snapshot, mark), "subject": subject}
    for name, text in (sides or {}).items():
        texts[name] = fenced(name.upper(), shown(text), mark)
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": prompt.filled(texts)},
    ]


def mended_messages(
    messages: Sequence[Message], reply: str, report: GateReport, *, mark: str
) -> list[Message]:
    """Ask once more, with what the gate found in ``reply``."""
    lines = report.feedback().split("\n")
    findings = lines[1:-1][:MAX_FINDINGS_SHOWN]
    content = "\n".join(
        [
            lines[0],
            fenced("FINDINGS", shown("\n".join(findings)), mark),
            lines[-1],
            "Write the whole text anew, in the same JSON form.",
        ]
    )
    return [
        *messages,
        {"role": "assistant", "content": neutralised(reply)},
        {"role": "user", "content": content},
    ]


def corrected_messages(messages: Sequence[Message], reply: str, error: JudgeError) -> list[Message]:
    """Ask once more, with what made ``reply`` unusable: asked the same, a model says the same again."""
    return [
        *messages,
        {"role": "assistant", "content": neutralised(reply[:MAX_REPLY_SHOWN])},
        {"role": "user", "content": f"This answer cannot be used: {error}. Answer anew."},
    ]


def statements_of(memo: str) -> list[str]:
    """Return the sentences of a memo as the gate reads them, without bullets and line ends."""
    found = []
    for sentence in sentences_of(memo):
        text = memo[sentence.tokens[0].start : sentence.tokens[-1].end]
        found.append(" ".join(text.split()))
    return found


def audit_messages(
    prompt: MemoPrompt, snapshot: Snapshot, statements: Sequence[str], *, mark: str, first: int = 1
) -> list[Message]:
    """Ask whether each of the statements, numbered from ``first`` on, is supported by the facts."""
    numbered = [f"({number}) {text}" for number, text in enumerate(statements, start=first)]
    texts = {
        "facts": facts_block(snapshot, mark),
        "memo": fenced("MEMO", shown("\n".join(numbered)), mark),
    }
    return [
        {"role": "system", "content": prompt.system},
        {"role": "user", "content": prompt.filled(texts)},
    ]
