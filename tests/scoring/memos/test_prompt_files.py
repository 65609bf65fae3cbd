"""The prompt files of memos fit, are no skill, and a file that does not fit is refused with its line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from contextgraph.skills import DEFAULT, folder_for
from scoring.judge.prompt_file import FILE_NAME, PromptError
from scoring.memos.prompt_files import FOLDER, PARTS, MemoPrompts, read_memo_prompt

PROMPTS = Path(__file__).resolve().parents[3] / "prompts"
GOOD = """+++
id = "memo-for"
version = 1
+++

# Title

Not sent.

## System

Say what speaks for it.

## User template

```
{{facts}}

About {{subject}}.
```
"""


@pytest.mark.parametrize("name", sorted(PARTS))
def test_every_file_fits_and_says_which_it_is(name: str) -> None:
    prompt = MemoPrompts(PROMPTS).named(name)
    assert prompt.id == f"memo-{name}"
    assert (
        prompt.sha256 == hashlib.sha256((PROMPTS / FOLDER / f"{name}.md").read_bytes()).hexdigest()
    )
    assert "Not sent" not in prompt.system and not prompt.system.startswith("#")


def test_no_file_lies_about_unread() -> None:
    assert {path.stem for path in (PROMPTS / FOLDER).iterdir()} == set(PARTS)


@pytest.mark.parametrize("file", ["skill.toml", FILE_NAME])
def test_the_folder_is_no_skill(file: str) -> None:
    assert folder_for(PROMPTS, FOLDER, file) == DEFAULT


def test_a_debate_has_one_digest_over_its_files() -> None:
    prompts = MemoPrompts(PROMPTS)
    both = prompts.sha256("for", "against")
    assert both not in {
        prompts.sha256("for"),
        prompts.sha256("against"),
        prompts.sha256("against", "for"),
    }
    assert len(both) == 64


def test_what_is_put_into_a_template_is_not_expanded() -> None:
    prompt = MemoPrompts(PROMPTS).named("for")
    filled = prompt.filled({"facts": "a {{subject}} b", "subject": "run {{facts}}"})
    assert filled.startswith("a {{subject}} b") and "run {{facts}}" in filled


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("+++\nid", "id", "must begin"),
        ("version = 1", "version = 0", "from 1 on"),
        ("version = 1", "version = true", "from 1 on"),
        ('id = "memo-for"', 'id = "Memo For"', "id (a name)"),
        ("version = 1", "version = 1\nextra = 2", "nothing else"),
        ("version = 1", "version = = 1", "not TOML"),
        ("## System", "## Sytem", "headings must be"),
        ("Say what speaks for it.", " ", "## System is empty"),
        ("## User template", "## System", "stands twice"),
        ("{{facts}}\n", "\n", "the template needs"),
        ("{{subject}}", "{{subject}} {{subject}}", "once each"),
        ("{{subject}}", "{{subject}} {{secrets}}", "once each"),
        ("```\n{{facts}}", "{{facts}}", "one fenced block"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, old: str, new: str, cause: str) -> None:
    assert old in GOOD
    path = tmp_path / "for.md"
    path.write_text(GOOD, encoding="utf-8")
    read_memo_prompt(path)
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PromptError, match=cause.replace("(", r"\(").replace(")", r"\)")) as caught:
        read_memo_prompt(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_one_that_is_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "for.md"
    with pytest.raises(PromptError, match="cannot be read"):
        read_memo_prompt(path)
    path.write_bytes(GOOD.encode() + b"\n\xff")
    with pytest.raises(PromptError, match=r"for.md:\d+: not UTF-8"):
        read_memo_prompt(path)
    path.write_bytes(GOOD.encode() + b" " * 70_000)
    with pytest.raises(PromptError, match="larger than"):
        read_memo_prompt(path)
