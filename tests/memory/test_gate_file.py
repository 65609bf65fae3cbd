"""The gate in a skill's own file: only what was asked for changes, or nothing at all."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import pytest

from contextgraph.skills import SkillError, load_skill
from memory import gate_file
from memory.gate_file import save_gate

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
# What this skill is about.

[grading]
version = "1"   # of the ladder
kind = "binary"

[eviction]
# counted in visits
min_retrievals = 3
threshold = 0.3  # on the scale of adr0019
protected_types = [
    "strategy", # people wrote these
]

# The end.
[ranking]
k = 7
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Prompts with a default and with stig's own file."""
    for name, text in {
        "default": '[grading]\nversion = "1"\nkind = "sender"\n',
        "stig": TEXT,
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "skill.toml").write_text(text)
    load_skill.cache_clear()
    return tmp_path


def files(root: Path) -> dict[str, bytes]:
    """All that is below *root*."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.*")}


def test_only_the_settings_given_change_and_comments_stay(root: Path) -> None:
    assert load_skill(root, "stig").eviction.threshold == 0.3
    path = save_gate(
        root, "stig", {"threshold": -0.25, "interval_below": False, "policy": "quadrant"}
    )
    assert path == root / "stig" / "skill.toml"
    assert path.read_text() == TEXT.replace("threshold = 0.3 ", "threshold = -0.25 ").replace(
        "]\n\n# The end.", ']\ninterval_below = false\npolicy = "quadrant"\n\n# The end.'
    )
    # read anew, by everyone in this process
    assert load_skill(root, "stig").eviction.threshold == -0.25
    assert sorted(files(root)) == ["default/skill.toml", "stig/skill.toml"]


def test_a_file_without_a_gate_gets_one(root: Path) -> None:
    save_gate(root, "default", {"threshold": 0.1})
    gate = load_skill(root, "default").eviction
    assert (gate.threshold, gate.min_retrievals) == (0.1, 10)


@pytest.mark.parametrize(
    ("gate", "saved"),
    [
        ("[eviction]\nthreshold = 0.3", "[eviction]\nthreshold = 0.3\ncap = 9\n"),
        ("[eviction]\n", "[eviction]\ncap = 9\n"),
        ("[eviction]\n# none yet\n\n[ranking]\n", "[eviction]\ncap = 9\n# none yet\n\n[ranking]\n"),
        ("[eviction]\n\n[ranking]\nk = 7\n", "[eviction]\ncap = 9\n\n[ranking]\nk = 7\n"),
    ],
)
def test_new_settings_stand_below_the_old_ones(root: Path, gate: str, saved: str) -> None:
    head = '[grading]\nversion = "1"\nkind = "binary"\n'
    path = root / "stig" / "skill.toml"
    path.write_text(head + gate)
    save_gate(root, "stig", {"cap": 9})
    assert path.read_text() == head + saved


def test_an_inline_or_dotted_gate_is_kept_in_its_form(root: Path) -> None:
    path = root / "stig" / "skill.toml"
    for gate in ("eviction = {threshold = 0.3}\n", "eviction.threshold = 0.3\n"):
        path.write_text(gate + '[grading]\nversion = "1"\nkind = "binary"\n')
        load_skill.cache_clear()
        save_gate(root, "stig", {"threshold": 0.1, "cap": 9})
        found = load_skill(root, "stig").eviction
        assert (found.threshold, found.cap) == (0.1, 9)
        assert "[eviction]" not in path.read_text()


def test_line_ends_mode_and_link_stay(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    real = tmp_path_factory.mktemp("mounted") / "the-file"
    real.write_bytes(TEXT.replace("\n", "\r\n").encode())
    real.chmod(0o640)
    path = root / "stig" / "skill.toml"
    path.unlink()
    path.symlink_to(real)
    save_gate(root, "stig", {"min_retrievals": 9})
    assert path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    expected = TEXT.replace("min_retrievals = 3", "min_retrievals = 9").replace("\n", "\r\n")
    assert real.read_bytes() == expected.encode()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 7.0}, "skill.toml: eviction.threshold"),
        ({"min_retrievals": 0}, "skill.toml: eviction.min_retrievals"),
        ({"treshold": 0.1}, "skill.toml: eviction.treshold"),
    ],
)
def test_a_gate_that_does_not_fit_leaves_the_file_as_it_was(
    root: Path, settings: dict[str, Any], message: str
) -> None:
    before = files(root)
    with pytest.raises(SkillError, match=message) as caught:
        save_gate(root, "stig", settings)
    assert str(caught.value).startswith(str(root / "stig" / "skill.toml"))
    assert files(root) == before


@pytest.mark.parametrize("read_before", [True, False])
@pytest.mark.parametrize("text", ["[grading", "x = 1", "\udcff"])
def test_a_file_that_cannot_be_used_is_not_mended_here(
    root: Path, text: str, read_before: bool
) -> None:
    path = root / "stig" / "skill.toml"
    if read_before:  # and remembered, though it is another one by now
        load_skill(root, "stig")
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = files(root)
    with pytest.raises(SkillError, match=r"skill\.toml"):
        save_gate(root, "stig", {"threshold": 0.1})
    assert files(root) == before


def test_a_skill_without_a_file_of_its_own_is_told_which_to_make(root: Path) -> None:
    before = files(root)
    with pytest.raises(SkillError, match=r"make .*/cve/skill\.toml first"):
        save_gate(root, "cve", {"threshold": 0.1})
    with pytest.raises(SkillError, match="its name is none that a folder may have"):
        save_gate(root, "../stig", {"threshold": 0.1})
    assert files(root) == before


def test_an_edit_by_someone_else_meanwhile_wins(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "stig" / "skill.toml"
    read = load_skill.__wrapped__

    def slow_reader(*args: Any) -> Any:
        path.write_text(TEXT + "# theirs\n")
        return read(*args)

    monkeypatch.setattr(gate_file, "_checked", lambda draft, **_: slow_reader(root, "stig"))
    with pytest.raises(SkillError, match="changed by someone else meanwhile"):
        save_gate(root, "stig", {"threshold": 0.1})
    assert path.read_text() == TEXT + "# theirs\n"
    assert sorted(files(root)) == ["default/skill.toml", "stig/skill.toml"]


def test_a_full_disk_leaves_the_file_as_it_was(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(root)

    def full(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SkillError, match=r"skill\.toml cannot be written: No space left"):
        save_gate(root, "stig", {"threshold": 0.1})
    assert files(root) == before
