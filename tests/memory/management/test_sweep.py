"""``sweep``: the steps of a sweep on the command line, safe to read and safe to try."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memory.models import EvictionSweep, SweepEntry, Tip, TipChange
from memory.retirement import retire
from tests.factories import make_tip
from tests.memory.sweep_histories import EARNED, bad_tip, columns, give_past, old_tip

pytestmark = pytest.mark.django_db

HOSTILE = "append it\x1b[2J\x07 [bold red]now[/] \u202e<script>"
BY_MEAN = "--no-interval-below"


def sweep(*args: Any) -> str:
    """What the command prints."""
    out = io.StringIO()
    call_command("sweep", *map(str, args), stdout=out)
    return out.getvalue()


def test_preview_apply_undo_in_the_words_of_the_command() -> None:
    give_past(old_tip(external_id="good"), *[EARNED] * 3)
    bad_tip(external_id="bad")
    before = columns()
    text = sweep("stig", BY_MEAN, "--by", "ann")
    stored = EvictionSweep.objects.get()
    assert f"Sweep {stored.pk} of stig: previewed; created by ann at" in text
    assert (
        "gate: mean of the credit under adr0019 below +0.300, from 3 visits and 7 days on" in text
    )
    assert "2 active tips, 2 with enough evidence, 1 caught" in text
    assert "misleading  +0.120  -0.28 to +0.52  3       0/3/0/0" in text
    assert f"No tip was changed. To retire: manage.py sweep --apply {stored.pk}" in text
    assert columns() == before

    text = sweep("--apply", stored.pk, "--by", "bob")
    assert "Tips retired: 1; left as they are: 0." in text
    assert f"To take it back: manage.py sweep --undo {stored.pk}" in text
    assert list(Tip.objects.active().values_list("external_id", flat=True)) == ["good"]
    assert "applied by bob" in sweep("--show", stored.pk)

    assert "Tips given back: 1; left as they are: 0." in sweep("--undo", stored.pk, "--by", "cleo")
    assert columns() == before
    assert "undone by cleo" in sweep("--show", stored.pk)


def test_the_author_is_the_system_user_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    bad_tip()
    monkeypatch.setenv("LOGNAME", "operator")
    sweep("stig")
    assert EvictionSweep.objects.get().created_by == "operator"


def test_a_user_without_a_name_is_asked_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bad_tip()

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", nobody)
    with pytest.raises(CommandError, match="give --by NAME"):
        sweep("stig")
    assert "1 caught" in sweep("stig", BY_MEAN, "--by", "ann")


def test_a_dry_run_stores_nothing_at_any_step() -> None:
    bad_tip()
    assert "Sweep of stig: tried, not stored" in sweep("stig", BY_MEAN, "--dry-run")
    assert not EvictionSweep.objects.exists()
    sweep("stig", BY_MEAN)
    pk = EvictionSweep.objects.get().pk
    before = columns()
    assert "Tips that would be retired: 1;" in sweep("--apply", pk, "--dry-run")
    assert (columns(), EvictionSweep.objects.get().state) == (before, "previewed")
    sweep("--apply", pk)
    before = columns()
    assert "Tips that would be given back: 1;" in sweep("--undo", pk, "--dry-run")
    assert (columns(), EvictionSweep.objects.get().state) == (before, "applied")
    assert TipChange.objects.count() == 1


def test_the_whole_gate_can_be_given() -> None:
    for number in range(4):
        bad_tip(tip_type="warning" if number else "strategy")
    wide = ("stig", BY_MEAN, "--cap-share", "1", "--json")
    over = [one["over_cap"] for one in json.loads(sweep(*wide, "--cap", "3"))["entries"]]
    assert over == [False, False, False, True]
    spared = json.loads(sweep(*wide, "--protected-types", "warning"))
    assert (len(spared["entries"]), spared["gate"]["protected_types"]) == (1, ["warning"])


def test_nothing_caught_is_said() -> None:
    old_tip()
    assert "Nothing to retire." in sweep("stig")


def test_what_was_left_and_what_is_over_the_cap_is_said() -> None:
    tips = [bad_tip(external_id=f"bad-{n}") for n in range(20)]
    text = sweep("stig", BY_MEAN, "--limit", "3")
    assert "20 caught" in text
    assert "over the cap" in text
    assert "bad-2 " in text
    assert "bad-3 " not in text
    assert "and 17 more: --limit, or --json for all" in text
    retire(tips[0].pk, reason="by hand", by="ann")
    text = sweep("--apply", EvictionSweep.objects.get().pk)
    assert "left: retired by hand" in text
    assert (
        "Tips retired: 1; left as they are: 1." in text
    )  # a tenth of twenty, of which one was gone


def test_the_json_is_complete_and_ascii() -> None:
    bad_tip(external_id="bad", text=HOSTILE)
    raw = sweep("stig", BY_MEAN, "--json", "--limit", "1")
    assert raw.isascii()
    view = json.loads(raw)
    assert (view["state"], view["active"], view["gate"]["min_retrievals"]) == ("previewed", 1, 3)
    (entry,) = view["entries"]
    assert (entry["tip"], entry["text"], entry["cause"]) == ("bad", HOSTILE, "misleading")
    applied = json.loads(sweep("--apply", view["id"], "--json"))
    assert applied["dry_run"] is False
    assert [(one["retired"], one["left"]) for one in applied["entries"]] == [(True, "")]


def test_hostile_text_is_shown_and_never_obeyed() -> None:
    bad_tip(external_id="bad\x1b[2J", text=HOSTILE, tip_type="\x1b]0;x\x07")
    text = sweep("stig", BY_MEAN)
    assert "\x1b" not in text
    assert "bad\\x1b[2J" in text
    assert "[bold red]now[/] \\u202e" in text


def test_the_list_has_the_newest_first_and_keeps_skills_apart() -> None:
    assert "There are no sweeps yet." in sweep("--list")
    bad_tip()
    make_tip(skill="cve")
    sweep("stig", BY_MEAN)
    sweep("cve")
    listed = json.loads(sweep("--list", "--json"))["sweeps"]
    assert [(one["skill"], one["caught"]) for one in listed] == [("cve", 0), ("stig", 1)]
    assert [one["skill"] for one in json.loads(sweep("stig", "--list", "--json"))["sweeps"]] == [
        "stig"
    ]
    text = sweep("--list", "--limit", "1")
    assert "cve" in text
    assert "stig" not in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["ssh"], "nothing is stored about a skill 'ssh'"),
        (["\x1b[2J"], r"there are: 'stig'"),
        (["ssh", "--list"], "nothing is stored about a skill 'ssh'"),
        (["--apply", "4711"], "there is no sweep 4711"),
        (["--undo", "4711"], "there is no sweep 4711"),
        (["--show", "4711"], "there is no sweep 4711"),
        (["--apply", "0"], "'0' is no primary key"),
        (["--apply", "9" * 40], "is no primary key"),
        ([], "name a skill to preview"),
        (["stig", "--apply", "1"], "takes the id of a sweep and no skill"),
        (["--apply", "1", "--threshold", "0.1"], "keeps the gate that it was made with"),
        (["--apply", "1", "--min-age-days", "0"], "keeps the gate that it was made with"),
        (["--apply", "1", "--cap", "0"], "keeps the gate that it was made with"),
        (["--apply", "1", "--undo", "1"], "not allowed with"),
        (["stig", "--min-retrievals", "0"], "min_retrievals: .*, not 0"),
        (["stig", "--threshold", "nan"], "threshold"),
        (["stig", "--threshold", "1.01"], "threshold"),
        (["stig", "--policy", "adr0042"], "invalid choice"),
        (["stig", "--limit", "0"], "whole number"),
        (["stig", "--by", " "], "names nobody"),
        (["stig", "--by", "x" * 151], "names nobody"),
    ],
)
def test_what_makes_no_sense_is_an_error_and_stores_nothing(args: list[str], message: str) -> None:
    bad_tip()
    with pytest.raises(CommandError, match=message):
        sweep(*args)
    assert not EvictionSweep.objects.exists()
    assert not SweepEntry.objects.exists()


def test_a_sweep_in_another_state_is_an_error() -> None:
    bad_tip()
    sweep("stig", BY_MEAN)
    pk = EvictionSweep.objects.get().pk
    with pytest.raises(CommandError, match=f"sweep {pk} of stig is previewed"):
        sweep("--undo", pk)
    sweep("--apply", pk)
    with pytest.raises(CommandError, match=f"sweep {pk} of stig is applied"):
        sweep("--apply", pk)
