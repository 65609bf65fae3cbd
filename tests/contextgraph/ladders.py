"""Skill files for tests of re-grading: the ladder of upstream that read substrings, and edits of ours.

A test writes one folder per version, so that no cached file stands in for another.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

PROMPTS = Path(__file__).resolve().parents[2] / "prompts"

NAIVE = """
[grading]
version = "0"
kind = "ladder"
[[grading.ladder]]
from_attempt = 1
value = 1.0
[grading.failure_modes]
health_failure = -0.2
[eviction]
automatic = false
"""
"""Believes the sender, whose evaluator found HEALTHY in UNHEALTHY and PASS in the id of a rule."""


def use_ladder(settings: Any, folder: Path, text: str, *, skill: str = "stig") -> None:
    """Serve *skill* by a skill.toml of this text, the other skills by the product's own."""
    root = folder / f"prompts-{len(list(folder.glob('prompts-*')))}"
    shutil.copytree(PROMPTS, root)
    (root / skill / "skill.toml").write_text(text, encoding="utf-8")
    settings.PROMPTS_DIR = root


def edited(*edits: tuple[str, str], skill: str = "stig") -> str:
    """The product's own file with each old text replaced by a new one."""
    text = (PROMPTS / skill / "skill.toml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text
