"""Reads a skill's prompt file for the judge, strictly: what does not fit is refused with its line.

`PromptLibrary` reads ``<root>/<skill>/tip_follow_judge.md`` (else ``default/``) once. Format::

    +++                 TOML: id = "…" (a name), version = 1 (counted up with every change)
    +++
    # Title, then prose that is not sent
    ## System           the system message, as it stands
    ## User template    one fenced block holding {{script}} and then {{tips}}, once each
    ## Examples         ### Name, then fenced blocks: script, one or more "tip ID", reply

The reply of each example must be one that the product itself would accept: read by `parse_reply`
without a missing or refused id, its quotes found by `verify`. At least one label must count as
followed and one as not. Shaped by few-shot examples that stood in the file and were never sent, and
by examples that taught an answer which the parser of the same product refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from contextgraph.skills import DEFAULT, folder_for
from scoring.judge.errors import VerdictError
from scoring.judge.evidence import Match, verify
from scoring.judge.fences import neutralised
from scoring.judge.verdict import Parsed, followed_of, parse_reply

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES: Final = 262_144
FILE_NAME: Final = "tip_follow_judge.md"
DEFAULT_SKILL: Final = DEFAULT

_PROMPT_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_TIP_ID = re.compile(r"[a-z0-9]{1,32}")
_FRONT = "+++"
_HEADING = re.compile(r"(#{1,3}) +(\S.*?)\s*")
_FENCE_LINE = re.compile(r"(`{3,})[ \t]*([\w-]*(?:[ \t]+[\w-]+)?)[ \t]*")
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class PromptError(ValueError):
    """A prompt file is missing or does not fit; the message names the file and the line."""

    def __init__(self, path: Path, line: int, cause: str) -> None:
        super().__init__(f"{path}:{line}: {cause}" if line else f"{path}: {cause}")
        self.path, self.line, self.cause = path, line, cause


@dataclass(frozen=True, slots=True)
class Example:
    """One worked case of a prompt file. ``tips`` maps ids to texts; ``reply`` is the JSON sent."""

    name: str
    script: str
    tips: dict[str, str]
    reply: str


@dataclass(frozen=True, slots=True)
class JudgePrompt:
    """A prompt file, read. ``skill`` is the folder it came from, ``sha256`` that of its bytes."""

    id: str
    version: int
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
        text = raw.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        raise PromptError(path, raw[: exc.start].count(b"\n") + 1, "not UTF-8") from None
    lines = text.split("\n")
    name, version, first = _front_matter(path, lines)
    sections = _sections(path, lines, first)
    system, template, heading = _parts(path, sections)
    return JudgePrompt(
        id=name,
        version=version,
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


def _front_matter(path: Path, lines: list[str]) -> tuple[str, int, int]:
    """Return id, version and the index of the first line after the front matter."""
    if lines[0].rstrip() != _FRONT:
        raise PromptError(path, 1, f"the file must begin with {_FRONT}, id and version")
    closing = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _FRONT), None)
    if closing is None:
        raise PromptError(path, 1, "the front matter is never closed")
    try:
        found = tomllib.loads("\n".join(lines[1:closing]))
    except tomllib.TOMLDecodeError as exc:
        raise PromptError(path, 2, f"the front matter is not TOML: {exc}") from None
    if found.keys() != {"id", "version"}:
        raise PromptError(path, 2, "the front matter needs id and version, and nothing else")
    name, version = found["id"], found["version"]
    if not isinstance(name, str) or not _PROMPT_ID.fullmatch(name):
        raise PromptError(path, 2, "id must be a name of lower-case letters, digits and hyphens")
    if type(version) is not int or version < 1:
        raise PromptError(path, 2, "version must be a whole number from 1 on")
    return name, version, closing + 1


def _sections(path: Path, lines: list[str], first: int) -> list[_Section]:
    """Split at headings that do not stand in a fenced block."""
    found: list[_Section] = []
    block: _Block | None = None
    closing = ""
    for number, line in enumerate(lines[first:], start=first + 1):
        fence, heading = _FENCE_LINE.fullmatch(line), _HEADING.fullmatch(line)
        if block is None and heading:
            found.append(_Section(len(heading[1]), heading[2], number, [], []))
            continue
        if not found:
            if line.strip():
                raise PromptError(path, number, "a # heading must come before any text")
            continue
        found[-1].lines.append(line)
        if block is None and fence:
            block, closing = _Block(" ".join(fence[2].split()), number, []), fence[1]
            found[-1].blocks.append(block)
        elif block is not None and line.rstrip() == closing:
            block = None
        elif block is not None:
            block.text.append(line)
    if block is not None:
        raise PromptError(path, block.line, "this fenced block is never closed")
    return found


def _parts(path: Path, sections: list[_Section]) -> tuple[_Section, _Section, _Section]:
    """Return the three sections that count, or refuse a file with other ones."""
    top = [part for part in sections if part.level < 3]
    titles = [(part.level, part.title) for part in top]
    wanted = [(2, "System"), (2, "User template"), (2, "Examples")]
    if [level for level, _ in titles[:1]] != [1] or titles[1:] != wanted:
        line = top[0].line if top else 1
        expected = "# Title, ## System, ## User template, ## Examples"
        raise PromptError(path, line, f"the headings must be {expected}, in this order")
    _, system, template, heading = top
    stray = next((part for part in sections if part.level == 3 and part.line < heading.line), None)
    if stray:
        raise PromptError(path, stray.line, "### belongs below ## Examples only")
    return system, template, heading


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
    if _PLACEHOLDER.findall(text) != ["script", "tips"]:
        cause = "needs {{script}} and then {{tips}}, once each, and no other"
        raise PromptError(path, block.line, cause)
    return text


def _examples(path: Path, heading: _Section, parts: list[_Section]) -> tuple[Example, ...]:
    read = [_example(path, part) for part in parts]
    labels = {
        followed_of(verdict.label) for _, parsed in read for verdict in parsed.verdicts.values()
    }
    if not {True, False} <= labels:
        raise PromptError(path, heading.line, "needs an example that followed and one that did not")
    return tuple(example for example, _ in read)


def _example(path: Path, part: _Section) -> tuple[Example, Parsed]:
    names = [block.name for block in part.blocks]
    tips = part.blocks[1:-1]
    ids = [block.name.partition(" ")[2] for block in tips]
    kinds = {block.name.partition(" ")[0] for block in tips}
    if names[:1] != ["script"] or names[-1:] != ["reply"] or kinds != {"tip"}:
        expected = "needs fenced blocks script, one or more tip ID, reply"
        raise PromptError(path, part.line, f"{expected}; found {names}")
    if len(set(ids)) != len(ids) or not all(map(_TIP_ID.fullmatch, ids)):
        raise PromptError(path, part.line, "each tip needs an id of its own: ```tip a1")
    script, *texts, reply = ("\n".join(block.text).strip("\n") for block in part.blocks)
    if not script.strip() or not all(text.strip() for text in texts):
        raise PromptError(path, part.line, "a tip or the script of this example is blank")
    parsed = _accepted(path, part.blocks[-1].line, reply, ids, script)
    shown = {name: neutralised(text) for name, text in zip(ids, texts, strict=True)}
    try:
        one_line = json.dumps(json.loads(reply), ensure_ascii=False)
    except ValueError as exc:  # a model is forgiven what an example must not teach
        raise PromptError(path, part.blocks[-1].line, f"not strict JSON: {exc}") from None
    return Example(part.title, neutralised(script), shown, one_line), parsed


def _accepted(path: Path, line: int, reply: str, ids: list[str], script: str) -> Parsed:
    """Refuse an example whose reply the product would refuse."""
    try:
        parsed = parse_reply(reply, ids)
    except VerdictError as exc:
        raise PromptError(path, line, f"not a reply: {exc}") from exc
    if parsed.missing:
        raise PromptError(path, line, f"no verdict about {', '.join(parsed.missing)}")
    for name, error in parsed.refused.items():
        raise PromptError(path, line, f"verdict {name}: {error}")
    for name, verdict in parsed.verdicts.items():
        for span in verify(verdict, script).spans:
            if span.match is not Match.MATCH:
                raise PromptError(path, line, f"verdict {name}: no such act: {span.quote!r}")
    return parsed
