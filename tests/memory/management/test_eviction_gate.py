"""``eviction_gate``: who flips is seen before anything is saved."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from contextgraph.skills import load_skill
from memory.models import EvictionSweep
from tests.memory.sweep_histories import EARNED, MISLEADING, bad_tip, columns, give_past, old_tip

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db

TEXT = """\
[grading]
version = "1"
kind = "binary"
[eviction]
min_retrievals = 3
threshold = 0.2  # looked at twice
interval_below = false
"""


def eviction_gate(*args: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    call_command("eviction_gate", *args, stdout=out)
    return out.getvalue()


@pytest.fixture(autouse=True)
def file(settings: Any, tmp_path: Path) -> Any:
    """Stig's own file, in a prompts' folder of the test; and two tips, one of which is caught."""
    for name in ("stig", "default"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "skill.toml").write_text(TEXT)
    settings.PROMPTS_DIR = tmp_path
    load_skill.cache_clear()
    bad_tip(external_id="bad")
    middling = old_tip(external_id="middling", text="x\x1b[2J")
    give_past(middling, EARNED, MISLEADING, MISLEADING, MISLEADING)
    yield tmp_path / "stig" / "skill.toml"
    load_skill.cache_clear()


def test_flips_are_shown_and_nothing_is_saved(file: Path) -> None:
    before = columns()
    text = eviction_gate("stig", "--threshold", "0.3")
    assert "old gate: mean of the credit under adr0019 below +0.200" in text
    assert "new gate: mean of the credit under adr0019 below +0.300" in text
    assert "Caught by the new gate only: 1\n" in text
    assert "middling  misleading" in text
    assert "Caught by the old gate only: 0\n" in text
    assert "Caught by both: 1\n" in text
    assert "Nothing was saved: add --save to keep this gate." in text
    assert "\x1b" not in text
    assert file.read_text() == TEXT
    assert columns() == before
    assert not EvictionSweep.objects.exists()


def test_saved_settings_are_those_that_were_given(file: Path) -> None:
    text = eviction_gate("stig", "--threshold", "0.3", "--min-age-days", "2", "--save")
    assert f"Saved to {file}. Workers that are running keep the old gate" in text
    assert file.read_text() == TEXT.replace("0.2 ", "0.3 ") + "min_age_days = 2\n"
    assert "old gate: mean of the credit under adr0019 below +0.300" in eviction_gate("stig")


def test_the_json_has_both_gates_and_all_tips(file: Path) -> None:
    raw = eviction_gate(
        "stig", "--threshold", "0.3", "--interval-below", "--json", "--limit", "1", "--save"
    )
    assert raw.isascii()
    view = json.loads(raw)
    assert (view["old"]["gate"]["threshold"], view["new"]["gate"]["threshold"]) == (0.2, 0.3)
    assert (view["old"]["caught"], view["new"]["caught"]) == (1, 0)
    (free,) = view["set_free"]
    assert (free["tip"], free["new"], free["old"]["cause"]) == ("bad", None, "misleading")
    assert view["newly_caught"] == view["caught_by_both"] == []
    assert view["saved_to"] == str(file)


def test_the_caps_and_the_protected_types_are_tried_and_saved_like_the_rest(file: Path) -> None:
    for number in range(3):
        bad_tip(external_id=f"also bad {number}", tip_type="warning")
    wide = ("--cap", "9", "--cap-share", "1")
    view = json.loads(eviction_gate("stig", *wide, "--json"))
    assert (view["old"]["over_cap"], view["new"]["over_cap"]) == (3, 0)
    assert len(view["caught_by_both"]) == 4
    assert [one["tip"] for one in view["within_the_cap"]] == [f"also bad {n}" for n in range(3)]
    assert view["over_the_cap"] == []
    assert "Of these, over the cap of the old gate only: 3\n" in eviction_gate("stig", *wide)
    eviction_gate("stig", *wide, "--save")
    view = json.loads(eviction_gate("stig", "--cap", "0", "--json"))
    assert (len(view["over_the_cap"]), view["within_the_cap"]) == (4, [])

    view = json.loads(eviction_gate("stig", "--protected-types", "warning, other", "--json"))
    assert len(view["set_free"]) == 3
    eviction_gate("stig", "--protected-types", "warning,other", "--save")
    assert load_skill(file.parents[1], "stig").eviction.protected_types == ("warning", "other")
    assert "not of type warning, other, at most 9 tips" in eviction_gate("stig")
    eviction_gate("stig", "--protected-types", "", "--save")
    assert load_skill(file.parents[1], "stig").eviction.protected_types == ()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["ssh", "--threshold", "0.1"], "nothing is stored about a skill 'ssh'"),
        (["stig", "--save"], "nothing to save"),
        (["stig", "--min-retrievals", "0"], "min_retrievals: .*, not 0"),
        (["stig", "--threshold", "-2"], "threshold"),
        (["stig", "--cap", "-1"], "cap: .*, not -1"),
        (["stig", "--cap-share", "1.5"], "cap_share: .*, not 1.5"),
        (["stig", "--cap-share", "nan"], "cap_share"),
        (["stig", "--policy", "none"], "invalid choice"),
        (["cve", "--threshold", "0.1", "--save"], r"make .*/cve/skill\.toml first"),
    ],
)
def test_what_makes_no_sense_is_an_error_and_saves_nothing(
    file: Path, args: list[str], message: str
) -> None:
    old_tip(skill="cve")
    with pytest.raises(CommandError, match=message):
        eviction_gate(*args)
    assert file.read_text() == TEXT
    assert sorted(path.name for path in file.parents[1].iterdir()) == ["default", "stig"]
