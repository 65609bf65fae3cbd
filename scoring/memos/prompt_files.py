"""Reads the prompt files of memos, strictly: what does not fit is refused with its file and line.

Guarantees: a file is read once, so that a running worker writes by one text; its sha256 is that of its
bytes; a placeholder that is missing, unknown or repeated is an error, not a silent blank. Format::

    +++                 TOML: id = "…", version = 1 (counted up with every change)
    +++
    # Title, then prose that is not sent
    ## System           the system message, as it stands
    ## Human, ## Agent  the form of the memo, where the file writes one
    ## User template    one fenced block with the placeholders of the file, once each

``<root>/memo`` is no skill: it holds neither ``skill.toml`` nor ``tip_follow_judge.md``. Source: issue 5.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from scoring.judge.prompt_file import PromptError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FOLDER: Final = "memo"
MAX_FILE_BYTES: Final = 65_536
FACTS: Final = ("facts", "subject")
PARTS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "rules": (("System",), ()),
    "synthesis": (("System", "Human", "Agent", "User template"), FACTS),
    "for": (("System", "User template"), FACTS),
    "against": (("System", "User template"), FACTS),
    "balanced": (
        ("System", "Human", "Agent", "User template"),
        ("facts", "for", "against", "subject"),
    ),
    "judge": (("System", "User template"), ("facts", "memo")),
}
"""Name of the file -> its sections, and the placeholders of its template, both in their order."""

_HEADING: Final = re.compile(r"## +(\S.*?)\s*")
_TEMPLATE: Final = re.compile(r"```\n(.*?)\n```", re.DOTALL)
_PLACEHOLDER: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True)
class MemoPrompt:
    """A prompt file, read. ``forms`` maps the modes human and agent to how the memo is to look."""

    id: str
    version: int
    sha256: str
    system: str
    template: str
    forms: Mapping[str, str] = field(default_factory=dict)

    def filled(self, texts: Mapping[str, str]) -> str:
        """Return the template with its placeholders replaced; what is put in is not expanded."""
        return _PLACEHOLDER.sub(lambda hit: texts[hit[1]], self.template)


class MemoPrompts:
    """The prompt files below ``<root>/memo``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._read: dict[str, MemoPrompt] = {}

    def named(self, name: str) -> MemoPrompt:
        """Return the prompt of a name of `PARTS`; raises `PromptError`."""
        if name not in self._read:
            self._read[name] = read_memo_prompt(self.root / FOLDER / f"{name}.md")
        return self._read[name]

    def sha256(self, *names: str) -> str:
        """Return one digest of several files, in the order given; of a single one its own."""
        digests = [self.named(name).sha256 for name in names]
        if len(digests) == 1:
            return digests[0]
        return hashlib.sha256("\n".join(digests).encode("ascii")).hexdigest()


def read_memo_prompt(path: Path) -> MemoPrompt:
    """Read and check one file, of which the name says what it must hold; raises `PromptError`."""
    wanted, placeholders = PARTS[path.stem]
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8").replace("\r\n", "\n")
    except OSError as exc:
        raise PromptError(path, 0, f"cannot be read ({exc.strerror})") from exc
    except UnicodeDecodeError as exc:
        raise PromptError(path, raw[: exc.start].count(b"\n") + 1, "not UTF-8") from None
    if len(raw) > MAX_FILE_BYTES:
        raise PromptError(path, 0, f"larger than {MAX_FILE_BYTES} bytes")
    name, version, lines, first = _front_matter(path, text.split("\n"))
    sections = _sections(path, lines, first, wanted)
    return MemoPrompt(
        id=name,
        version=version,
        sha256=hashlib.sha256(raw).hexdigest(),
        system=sections["System"],
        template=_template(path, sections, placeholders),
        forms={mode.lower(): sections[mode] for mode in ("Human", "Agent") if mode in sections},
    )


def _front_matter(path: Path, lines: list[str]) -> tuple[str, int, list[str], int]:
    """Return id, version, the lines below, and the number of the first of them."""
    marks = [at for at, line in enumerate(lines) if line.rstrip() == "+++"][:2]
    if len(marks) < 2 or marks[0] != 0:
        raise PromptError(path, 1, "the file must begin with +++, id and version, +++")
    try:
        found = tomllib.loads("\n".join(lines[1 : marks[1]]))
    except tomllib.TOMLDecodeError as exc:
        raise PromptError(path, 2, f"the front matter is not TOML: {exc}") from None
    name, version = found.get("id"), found.get("version")
    if found.keys() != {"id", "version"} or not isinstance(name, str) or not _ID.fullmatch(name):
        raise PromptError(path, 2, "the front matter needs id (a name) and version, nothing else")
    if type(version) is not int or version < 1:
        raise PromptError(path, 2, "version must be a whole number from 1 on")
    return name, version, lines[marks[1] + 1 :], marks[1] + 2


def _sections(
    path: Path, lines: Sequence[str], first: int, wanted: tuple[str, ...]
) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    line_of: dict[str, int] = {}
    title, inside = "", False
    for number, line in enumerate(lines, start=first):
        inside = inside != line.startswith("```")
        heading = None if inside else _HEADING.fullmatch(line)
        if heading is not None:
            title = heading[1]
            if title in found:
                raise PromptError(path, number, f"## {title} stands twice")
            found[title], line_of[title] = [], number
        elif title:
            found[title].append(line)
    if tuple(found) != wanted:
        expected = ", ".join(f"## {part}" for part in wanted)
        raise PromptError(path, first, f"the headings must be {expected}, in this order")
    texts = {part: "\n".join(found[part]).strip() for part in wanted}
    for part, text in texts.items():
        if not text:
            raise PromptError(path, line_of[part], f"## {part} is empty")
    return texts


def _template(path: Path, sections: Mapping[str, str], placeholders: tuple[str, ...]) -> str:
    if not placeholders:
        return ""
    block = _TEMPLATE.fullmatch(sections["User template"])
    if block is None:
        raise PromptError(path, 0, "## User template must hold exactly one fenced block")
    if tuple(_PLACEHOLDER.findall(block[1])) != placeholders:
        shown = ", ".join(f"{{{{{name}}}}}" for name in placeholders)
        raise PromptError(path, 0, f"the template needs {shown}, once each and in this order")
    return block[1]
