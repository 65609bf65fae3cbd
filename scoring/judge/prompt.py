"""Turns a skill's prompt file, one tip and one script into the messages of one question.

`PromptLibrary` reads ``<root>/<skill>/tip_follow_judge.md`` (else ``default/``) once, strictly: a
file that does not fit is refused with its line. Format, in this order::

    # Title, then prose that is not sent
    ## System          the system message, as it stands
    ## User template   one fenced block holding {{script}} and {{tip}} once each
    ## Examples        ### Name, then three fenced blocks named tip, script and verdict; both
                       verdicts must occur; each is sent as a user and an assistant message

Judged text is data: it stands between fences that carry a random mark, is never expanded as a
template, and cannot spell a fence, a chat-template token or an invisible character. Nothing is
cut: a script over the limit is refused. It does not stop a model from being talked into
something inside the fences. Shaped by ``str.format`` on prompts (one stray brace lost a whole
run's verdicts) and by few-shot examples that stood in the file and were never sent.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypedDict

from contextgraph.skills import folder_for
from scoring.judge.errors import JudgeError
from scoring.judge.verdict import VerdictError, parse_verdict

if TYPE_CHECKING:
    from pathlib import Path

MAX_SCRIPT_CHARS: Final = 24_000
"""Characters of a script as sent, about 8,000 tokens of shell."""
MAX_TIP_CHARS: Final = 8_000
MAX_FILE_BYTES: Final = 262_144
FILE_NAME: Final = "tip_follow_judge.md"

_HEADING = re.compile(r"(#{1,3}) +(\S.*?)\s*")
_FENCE_LINE = re.compile(r"(`{3,})[ \t]*([\w-]*)[ \t]*")
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_MARK = re.compile(r"[0-9a-f]{16}")
# C0 and C1 controls (tab and line ends apart), zero-width, bidi, separators, tags, surrogates.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]|\r(?!\n)"
)
# Tokenizers of chat models read these as turns of the conversation, wherever they stand.
_CHAT_TOKEN = re.compile(
    r"<(?=[|\uff5c][^|\uff5c<>\s]{1,40}[|\uff5c]>|(?:start|end)_of_turn>|/?s>|/?think>)"
    r"|\[(?=/?INST\])",
    re.IGNORECASE,
)
_FENCE_SHAPE = re.compile(r"\[(?=\[\s*(?:SCRIPT|TIP)\s+\S+\s+(?:BEGIN|END)\s*\]\])", re.I)


class PromptError(ValueError):
    """A prompt file is missing or does not fit; the message names the file and the line."""

    def __init__(self, path: Path, line: int, cause: str) -> None:
        super().__init__(f"{path}:{line}: {cause}" if line else f"{path}: {cause}")
        self.path, self.line, self.cause = path, line, cause


class QuestionRefused(JudgeError):
    """This pair cannot be asked about as it is; nothing was sent."""


class ScriptMissing(QuestionRefused):
    """The script is blank: there is nothing that could have followed a tip."""

    reason: ClassVar[str] = "no_script"


class ScriptTooLong(QuestionRefused):
    """The script is over the limit; a cut script would be judged wrongly, so it is not cut."""

    reason: ClassVar[str] = "too_long"


class TipUnusable(QuestionRefused):
    """The tip's text is longer than any advice; it is not cut either."""

    reason: ClassVar[str] = "too_long"


class TipMissing(TipUnusable):
    """The tip's text is blank: there is nothing that a script could have followed."""

    reason: ClassVar[str] = "tip_text_unknown"


class Message(TypedDict):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Example:
    """One worked case of a prompt file; ``verdict`` is the JSON text that is sent."""

    name: str
    tip: str
    script: str
    verdict: str


@dataclass(frozen=True, slots=True)
class JudgePrompt:
    """A prompt file, read. ``skill`` is the folder it came from, ``sha256`` that of its bytes."""

    skill: str
    path: Path
    sha256: str
    system: str
    template: str
    examples: tuple[Example, ...]


class PromptLibrary:
    """The prompt files below ``root``. A file is read once: a running worker judges by one text."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._read: dict[str, JudgePrompt] = {}

    def for_skill(self, skill: str) -> JudgePrompt:
        """Return the skill's prompt, or the default one; raises `PromptError`.

        Only a missing file falls back: one that does not fit is an error, never a silent default.
        """
        folder = folder_for(self.root, skill, FILE_NAME)
        if folder not in self._read:
            self._read[folder] = read_prompt(self.root / folder / FILE_NAME)
        return self._read[folder]


def build_messages(
    prompt: JudgePrompt,
    *,
    tip: str,
    script: str,
    mark: str | None = None,
    max_script_chars: int = MAX_SCRIPT_CHARS,
) -> list[Message]:
    """Return system message, examples and question; raises a `QuestionRefused`.

    ``mark`` (16 hex digits) is random unless given. System message and examples are the same in
    every call, so that a server's prefix cache keeps them.
    """
    if not script.strip():
        raise ScriptMissing("the script is blank")
    if not tip.strip():
        raise TipMissing("the text of the tip is blank")
    mark = secrets.token_hex(8) if mark is None else mark
    if not _MARK.fullmatch(mark):
        raise ValueError("mark must be 16 lower-case hex digits")
    tip, script = neutralised(tip), neutralised(script)
    if len(script) > max_script_chars:
        raise ScriptTooLong(f"the script has {len(script)} characters, over {max_script_chars}")
    if len(tip) > MAX_TIP_CHARS:
        raise TipUnusable(f"the tip has {len(tip)} characters, over {MAX_TIP_CHARS}")
    messages: list[Message] = [{"role": "system", "content": prompt.system}]
    for number, case in enumerate(prompt.examples):
        own = hashlib.sha256(f"{prompt.sha256}:{number}".encode()).hexdigest()[:16]
        shown = _question(prompt.template, tip=case.tip, script=case.script, mark=own)
        messages.append({"role": "user", "content": shown})
        messages.append({"role": "assistant", "content": case.verdict})
    asked = _question(prompt.template, tip=tip, script=script, mark=mark)
    messages.append({"role": "user", "content": asked})
    return messages


def neutralised(text: str) -> str:
    """Return judged text that can be seen whole and cannot pose as anything but text.

    Invisible characters become ``<U+XXXX>``; a blank parts the first two characters of whatever
    looks like a fence of ours or like a token of a chat template.
    """
    text = _INVISIBLE.sub(lambda hit: f"<U+{ord(hit[0]):04X}>", text)
    return _FENCE_SHAPE.sub("[ ", _CHAT_TOKEN.sub(lambda hit: f"{hit[0]} ", text))


def _question(template: str, *, tip: str, script: str, mark: str) -> str:
    """Fill the template in one pass, so that no text put in is looked at again."""
    blocks = {"tip": _fenced("TIP", tip, mark), "script": _fenced("SCRIPT", script, mark)}
    return _PLACEHOLDER.sub(lambda hit: blocks[hit[1]], template)


def _fenced(name: str, text: str, mark: str) -> str:
    inside = text.replace(mark, "<mark>").rstrip("\r\n")
    return f"[[{name} {mark} BEGIN]]\n{inside}\n[[{name} {mark} END]]"


# --- reading a prompt file -------------------------------------------------------------------


@dataclass(slots=True)
class _Block:
    name: str
    line: int
    text: list[str]


@dataclass(slots=True)
class _Section:
    level: int
    title: str
    line: int
    lines: list[str]
    blocks: list[_Block]


def read_prompt(path: Path) -> JudgePrompt:
    """Read and check one prompt file; raises `PromptError`."""
    raw = _bytes_of(path)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise PromptError(path, raw[: exc.start].count(b"\n") + 1, "not UTF-8") from None
    sections = _sections(path, text)
    top = [part for part in sections if part.level < 3]
    titles = [(part.level, part.title) for part in top]
    if [level for level, _ in titles[:1]] != [1] or titles[1:] != [
        (2, "System"),
        (2, "User template"),
        (2, "Examples"),
    ]:
        line = top[0].line if top else 1
        expected = "# Title, ## System, ## User template, ## Examples"
        raise PromptError(path, line, f"the headings must be {expected}, in this order")
    _, system, template, heading = top
    stray = next((part for part in sections if part.level == 3 and part.line < heading.line), None)
    if stray:
        raise PromptError(path, stray.line, "### belongs below ## Examples only")
    return JudgePrompt(
        skill=path.parent.name,
        path=path,
        sha256=hashlib.sha256(raw).hexdigest(),
        system=_filled(path, system),
        template=_template(path, template),
        examples=_examples(path, heading, [part for part in sections if part.level == 3]),
    )


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise PromptError(path, 0, f"cannot be read ({exc.strerror})") from exc
    if len(raw) > MAX_FILE_BYTES:
        raise PromptError(path, 0, f"larger than {MAX_FILE_BYTES} bytes")
    return raw


def _sections(path: Path, text: str) -> list[_Section]:
    """Split at headings that do not stand in a fenced block."""
    found: list[_Section] = []
    block: _Block | None = None
    closing = ""
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        fence, heading = _FENCE_LINE.fullmatch(line), _HEADING.fullmatch(line)
        if block is None and heading:
            found.append(_Section(len(heading[1]), heading[2], number, [], []))
            continue
        if not found:
            if line.strip():
                raise PromptError(path, number, "the file must begin with a # heading")
            continue
        found[-1].lines.append(line)
        if block is None and fence:
            block, closing = _Block(fence[2], number, []), fence[1]
            found[-1].blocks.append(block)
        elif block is not None and line.rstrip() == closing:
            block = None
        elif block is not None:
            block.text.append(line)
    if block is not None:
        raise PromptError(path, block.line, "this fenced block is never closed")
    return found


def _filled(path: Path, section: _Section) -> str:
    text = "\n".join(section.lines).strip()
    if not text:
        raise PromptError(path, section.line, f"## {section.title} is empty")
    return text


def _template(path: Path, section: _Section) -> str:
    if len(section.blocks) != 1:
        raise PromptError(path, section.line, "## User template must hold exactly one fenced block")
    block = section.blocks[0]
    text = "\n".join(block.text).strip()
    names = _PLACEHOLDER.findall(text)
    if sorted(names) != ["script", "tip"]:
        raise PromptError(path, block.line, "needs {{script}} and {{tip}} once each, and no other")
    return text


def _examples(path: Path, heading: _Section, parts: list[_Section]) -> tuple[Example, ...]:
    found = tuple(_example(path, part) for part in parts)
    labels = {parse_verdict(case.verdict).followed for case in found}
    if labels != {True, False}:
        raise PromptError(path, heading.line, "needs an example that followed and one that did not")
    return found


def _example(path: Path, part: _Section) -> Example:
    names = [block.name for block in part.blocks]
    if names != ["tip", "script", "verdict"]:
        raise PromptError(
            path, part.line, f"needs fenced blocks named tip, script, verdict; found {names}"
        )
    tip, script, verdict = ("\n".join(block.text).strip("\n") for block in part.blocks)
    if not tip.strip() or not script.strip():
        raise PromptError(path, part.line, "the tip or the script of this example is blank")
    try:
        parse_verdict(verdict)
    except VerdictError as exc:
        raise PromptError(path, part.blocks[2].line, f"not a verdict: {exc}") from exc
    one_line = json.dumps(json.loads(verdict), ensure_ascii=False)
    return Example(part.title, neutralised(tip), neutralised(script), one_line)
