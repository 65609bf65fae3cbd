"""Skill files: one folder each, checked as a whole, refused with path, key and cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextgraph.skills import SkillError, load_skill

PROMPTS = Path(__file__).parents[2] / "prompts"

LADDER = """
[grading]
version = "7"
kind = "ladder"
[[grading.ladder]]
from_attempt = 1
value = 1.0
"""


def skill_file(root: Path, name: str, text: str) -> Path:
    """Write ``<root>/<name>/skill.toml``."""
    folder = root / name
    folder.mkdir()
    path = folder / "skill.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("folder", sorted(path.name for path in PROMPTS.iterdir() if path.is_dir()))
def test_every_skill_that_ships_can_be_used(folder: str) -> None:
    if not (PROMPTS / folder / "skill.toml").exists():
        pytest.skip(f"prompts/{folder} holds prompts that belong to no skill")
    skill = load_skill(PROMPTS, folder)
    assert skill.name == folder
    assert skill.grading.version


@pytest.mark.parametrize(
    "name",
    [
        "unheard-of",
        "",
        "../stig",
        "/etc",
        ".hidden",
        "a/b",
        "stig\n",
        "stig\0",
        "x" * 500,
        "..",
        ".",
    ],
)
def test_a_skill_without_a_folder_of_its_own_gets_the_default(name: str) -> None:
    assert load_skill(PROMPTS, name).name == "default"


def test_a_new_skill_is_a_new_folder(tmp_path: Path) -> None:
    skill_file(tmp_path, "cooking", LADDER)
    skill = load_skill(tmp_path, "cooking")
    assert (skill.name, skill.grading.version) == ("cooking", "7")
    assert (skill.eviction.min_retrievals, skill.eviction.threshold) == (10, 0.5)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (LADDER.replace("kind", "kimd"), "grading.kind"),
        (LADDER + "surprise = 1\n", "grading.ladder.0.surprise"),
        (LADDER.replace("from_attempt = 1", "from_attempt = 2"), "starts at attempt 1"),
        (LADDER + "[[grading.ladder]]\nfrom_attempt = 1\nvalue = 0.5\n", "increase"),
        (LADDER.replace("value = 1.0", "value = 1.5"), "grading.ladder.0.value"),
        (LADDER + "[grading.failure_modes]\nbroken = -2\n", "grading.failure_modes.broken"),
        ("[grading\n", "is not TOML"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_its_path_and_key(
    tmp_path: Path, text: str, named: str
) -> None:
    path = skill_file(tmp_path, "broken", text)
    with pytest.raises(SkillError, match=named) as caught:
        load_skill(tmp_path, "broken")
    assert str(path) in str(caught.value)


def test_a_folder_without_a_skill_file_is_graded_by_the_default(tmp_path: Path) -> None:
    skill_file(tmp_path, "default", LADDER)
    (tmp_path / "memo").mkdir()
    (tmp_path / "memo" / "gate.md").write_text("a prompt of another kind", encoding="utf-8")
    assert load_skill(tmp_path, "memo").name == "default"


def test_a_default_that_is_missing_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=r"default/skill\.toml is missing"):
        load_skill(tmp_path, "stig")


def test_a_file_that_is_not_utf_8_is_refused_with_its_path(tmp_path: Path) -> None:
    path = skill_file(tmp_path, "latin", LADDER)
    path.write_bytes(path.read_bytes() + b"# caf\xe9\n")
    with pytest.raises(SkillError, match=r"latin/skill\.toml is not UTF-8"):
        load_skill(tmp_path, "latin")
