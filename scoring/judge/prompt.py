"""Builds the messages of one question: a script, and one or more tips to compare it with.

Guarantees: the transcript comes first and the tips last, so that all questions about one script
share their beginning and a server's prefix cache keeps it; system message and examples are the same
in every call. Judged text is data: it stands between fences that carry a random mark, is never
expanded as a template and cannot spell a fence, a chat token or an invisible character
(``scoring.judge.fences``). Nothing is cut: what is over a limit is refused before a call is made.

It does not read the prompt files (``scoring.judge.prompt_file`` does) and does not redact. Shaped by
``str.format`` on prompts: one stray brace lost a whole run's verdicts.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypedDict

from scoring.judge.errors import JudgeError
from scoring.judge.fences import fenced, is_mark, neutralised, new_ids, new_mark
from scoring.judge.prompt_file import (
    DEFAULT_SKILL,
    FILE_NAME,
    Example,
    JudgePrompt,
    PromptError,
    PromptLibrary,
    read_prompt,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "DEFAULT_SKILL",
    "FILE_NAME",
    "Example",
    "JudgePrompt",
    "Message",
    "PromptError",
    "PromptLibrary",
    "QuestionRefused",
    "ScriptMissing",
    "ScriptTooLong",
    "TipMissing",
    "TipQuestion",
    "TipUnusable",
    "TipsTooMany",
    "build_question",
    "neutralised",
    "new_ids",
    "new_mark",
    "read_prompt",
]

MAX_SCRIPT_CHARS: Final = 24_000
"""Characters of a script as sent, about 8,000 tokens of shell."""
MAX_TIP_CHARS: Final = 8_000
MAX_TIPS: Final = 20
"""Tips of one question at most; more dilute each other, and the caller asks in parts."""

_TIP_ID = re.compile(r"[a-z0-9]{1,32}")
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class QuestionRefused(JudgeError):
    """This question cannot be asked as it is; nothing was sent."""


class ScriptMissing(QuestionRefused):
    """The script is blank: there is nothing that could have followed a tip."""

    reason: ClassVar[str] = "no_script"


class ScriptTooLong(QuestionRefused):
    """The script is over the limit; a cut script would be judged wrongly, so it is not cut."""

    reason: ClassVar[str] = "too_long"


class TipUnusable(QuestionRefused):
    """The text of the tip ``tip_id`` is longer than any advice; it is not cut either."""

    reason: ClassVar[str] = "too_long"
    tip_id: str = ""


class TipMissing(TipUnusable):
    """The text of the tip ``tip_id`` is blank: there is nothing that a script could have followed."""

    reason: ClassVar[str] = "tip_text_unknown"


class TipsTooMany(QuestionRefused):
    """More tips than one question may hold: ask in parts."""


class Message(TypedDict):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class TipQuestion:
    """One tip of a question. ``id`` is an opaque name (`new_ids`): letters and digits, 32 at most."""

    id: str
    text: str


def build_question(
    prompt: JudgePrompt,
    *,
    script: str,
    tips: Sequence[TipQuestion],
    mark: str,
    max_script_chars: int = MAX_SCRIPT_CHARS,
) -> list[Message]:
    """Return system message, examples and question; raises a `QuestionRefused`.

    ``mark`` (16 random hex digits, `new_mark`) may be the same for all questions about one script.
    Raises ValueError on a mark or ids that the caller made wrongly.
    """
    if not is_mark(mark):
        raise ValueError("mark must be 16 lower-case hex digits")
    ids = [tip.id for tip in tips]
    if not ids or len(set(ids)) != len(ids) or not all(map(_TIP_ID.fullmatch, ids)):
        raise ValueError("tips must be at least one, with distinct ids of letters and digits")
    if len(ids) > MAX_TIPS:
        raise TipsTooMany(f"{len(ids)} tips in one question, over {MAX_TIPS}")
    shown = _shown_script(script, max_script_chars)
    texts = {tip.id: _shown_tip(tip) for tip in tips}
    asked = _filled(prompt.template, script=shown, tips=texts, mark=mark)
    return [*_opening(prompt), {"role": "user", "content": asked}]


def _opening(prompt: JudgePrompt) -> list[Message]:
    messages: list[Message] = [{"role": "system", "content": prompt.system}]
    for number, case in enumerate(prompt.examples):
        mark = hashlib.sha256(f"{prompt.sha256}:{number}".encode()).hexdigest()[:16]
        shown = _filled(prompt.template, script=case.script, tips=case.tips, mark=mark)
        messages.append({"role": "user", "content": shown})
        messages.append({"role": "assistant", "content": case.reply})
    return messages


def _shown_script(script: str, limit: int) -> str:
    if not script.strip():
        raise ScriptMissing("the script is blank")
    shown = neutralised(script)
    if len(shown) > limit:
        raise ScriptTooLong(f"the script has {len(shown)} characters, over {limit}")
    return shown


def _shown_tip(tip: TipQuestion) -> str:
    shown = neutralised(tip.text)
    if not tip.text.strip():
        error: TipUnusable = TipMissing("the text of the tip is blank")
    elif len(shown) > MAX_TIP_CHARS:
        error = TipUnusable(f"the tip has {len(shown)} characters, over {MAX_TIP_CHARS}")
    else:
        return shown
    error.tip_id = tip.id
    raise error


def _filled(template: str, *, script: str, tips: dict[str, str], mark: str) -> str:
    """Fill the template in one pass, so that no text put in is looked at again."""
    shown = "\n\n".join(fenced(f"TIP {name}", text, mark) for name, text in tips.items())
    blocks = {"script": fenced("SCRIPT", script, mark), "tips": shown}
    return _PLACEHOLDER.sub(lambda hit: blocks[hit[1]], template)
