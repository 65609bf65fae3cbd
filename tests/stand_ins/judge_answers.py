"""What the stand-in says: a verdict per tip, or whatever instance another schema asks for.

A tip counts as followed when the script holds a command-like word of it, quoted from the script; a
marker in the tip or else in the script overrides that: ``judge-says=true``, ``false`` or any label.
The answer depends on tips, script and schema alone, and is cut where max_tokens cuts it.
Shaped by stand-ins whose verdicts held no evidence, so that nothing behind the parser was tried.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.stand_ins.judge_protocol import CHARS_PER_TOKEN

if TYPE_CHECKING:
    from tests.stand_ins.judge_protocol import Question

LABELS = ("followed", "contradicted", "not_followed", "not_applicable", "unclear")
FINDINGS = dict(zip(LABELS, ("done", "opposite", "absent", "absent", "unclear"), strict=True))
QUOTE_CHARS = 300

_SAYS = re.compile(r"judge-says=(true|false|followed|contradicted|not_\w+|unclear)")
_WORD = re.compile(r"[A-Za-z0-9_./@%+-]*[A-Za-z0-9]")


def answer(question: Question) -> tuple[str, str]:
    """Return content and finish_reason: the schema's answer, cut where max_tokens cuts it."""
    if question.schema is not None:
        text = json.dumps(_instance(question.schema, question))
    elif question.choices:
        text = question.choices[int(question.digest, 16) % len(question.choices)]
    else:
        said = _label(next(iter(question.tips.values())), question) == "followed"
        text = f"{json.dumps(said)}, says the stand-in for {question.digest[:12]}"
    room = question.max_tokens * CHARS_PER_TOKEN
    return text[:room], "length" if len(text) > room else "stop"


def _label(tip: str, question: Question) -> str:
    said = _SAYS.search(tip) or _SAYS.search(question.script)
    if said:
        return {"true": "followed", "false": "not_followed"}.get(said[1], said[1])
    return "followed" if _shared_words(tip, question.script) else "not_followed"


def _shared_words(tip: str, script: str) -> set[str]:
    quoted = {word for part in re.findall(r"`([^`]+)`", tip) for word in _WORD.findall(part)}
    shaped = {
        word for word in _WORD.findall(tip) if re.search(r"[-_./=]", word[1:]) or word[:1] == "/"
    }
    return (quoted | shaped) & set(_WORD.findall(script))


def _quote(tip: str, script: str) -> str:
    """The longest line that does something, of those that share a word with the tip if any do."""
    lines = [line.strip() for line in script.splitlines() if not line.lstrip().startswith("#")]
    words = _shared_words(tip, script)
    sharing = [line for line in lines if words & set(_WORD.findall(line))]
    return max(sharing or lines or [""], key=len)[:QUOTE_CHARS]


def _verdicts(ids: list[str], question: Question) -> dict[str, dict[str, Any]]:
    alone = next(iter(question.tips.values()))
    return {name: _verdict(question.tips.get(name, alone), question) for name in ids}


def _verdict(tip: str, question: Question) -> dict[str, Any]:
    label = _label(tip, question)
    finding = FINDINGS[label]
    claim = {
        "claim": tip.strip()[:80],
        "finding": finding,
        "quote": _quote(tip, question.script) if finding in {"done", "opposite"} else "",
        "why": "The stand-in looked for words of the tip.",
    }
    reasoning = f"The stand-in looked for words of the tip in the script ({question.digest[:12]})."
    return {"claims": [claim], "reasoning": reasoning, "label": label}


def _instance(schema: dict[str, Any], question: Question) -> Any:
    if "enum" in schema:
        return schema["enum"][int(question.digest, 16) % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "object":
        parts = schema.get("properties", {})
        if "verdicts" in parts:
            return {"verdicts": _verdicts(parts["verdicts"]["required"], question)}
        return {name: _instance(part, question) for name, part in parts.items()}
    if kind == "array":
        return [_instance(schema.get("items", {}), question)] * schema.get("minItems", 0)
    if kind == "string":
        reason = f"The stand-in looked for words of the tip in the script ({question.digest[:12]})."
        return reason[: schema.get("maxLength", 400)]
    if kind in {"integer", "number"}:
        return schema.get("minimum", 0)
    said = _label(next(iter(question.tips.values())), question)
    return said == "followed" if kind == "boolean" else None
