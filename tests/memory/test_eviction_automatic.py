"""The sweep of a dream pass: before a run is final, by the skill's own gate, never against a person."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from contextgraph.skills import load_skill
from memory import eviction
from memory.eviction import automatic_sweep, preview, undo
from memory.models import EvictionSweep, Run, Tip
from tests.factories import MOMENT, make_run
from tests.memory.sweep_histories import EARNED, MISLEADING, bad_tip, give_past, old_tip

pytestmark = pytest.mark.django_db


@pytest.fixture
def gate(settings: Any, tmp_path: Any) -> Any:
    """Write the gate of stig's own file, in a prompts' folder of the test."""
    (tmp_path / "stig").mkdir()

    def write(text: str = "") -> None:
        path = tmp_path / "stig" / "skill.toml"
        path.write_text(
            '[grading]\nversion = "1"\nkind = "binary"\n[eviction]\nmin_retrievals = 3\n'
            f"threshold = 0.3\ninterval_below = false\ncap_share = 1.0\n{text}"
        )
        load_skill.cache_clear()

    settings.PROMPTS_DIR = tmp_path
    write()
    yield write
    load_skill.cache_clear()


@pytest.mark.usefixtures("gate")
def test_the_dream_pass_previews_and_applies_in_one_go() -> None:
    tip = old_tip()
    run = give_past(tip, *[MISLEADING] * 3)
    told = automatic_sweep(run)
    sweep = EvictionSweep.objects.get()
    assert told == {
        "sweep": sweep.pk, "state": "applied", "active": 1, "with_evidence": 1, "caught": 1,
        "over_cap": 0, "retired": 1, "given_back": 0, "note": "",
    }  # fmt: skip
    assert (sweep.run, sweep.applied_by) == (run, "dream pass")
    assert not Tip.objects.active().exists()


def test_a_forced_pass_retires_nothing_more_and_does_not_take_back_an_undo(gate: Any) -> None:
    gate("cap = 1")
    first, second = old_tip(), old_tip()
    run = give_past(first, *[MISLEADING] * 3)
    give_past(second, *[MISLEADING] * 3, run=run)
    told = automatic_sweep(run)
    assert (told["retired"], told["over_cap"]) == (1, 1)
    assert automatic_sweep(run) == told
    undo(told["sweep"], by="ann")
    assert automatic_sweep(run) == told | {"state": "undone", "given_back": 1}
    assert Tip.objects.active().count() == 2


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize("number", [1, 2])
def test_a_run_that_was_final_retires_nobody_even_if_it_had_caught_nobody(number: int) -> None:
    run = give_past(old_tip(), EARNED)
    assert automatic_sweep(run)["note"] == "nothing was caught"
    bad_tip()
    Run.objects.filter(pk=run.pk).update(dream_number=number, done_at=MOMENT)
    run.refresh_from_db()
    told = automatic_sweep(run)
    assert (told["sweep"], told["caught"], told["note"]) == (None, 0, eviction.FINAL_BEFORE)
    assert not EvictionSweep.objects.exists()
    assert automatic_sweep(make_run())["retired"] == 1, "the next run does"


@pytest.mark.usefixtures("gate")
def test_the_next_pass_leaves_alone_what_came_back_until_it_is_tested_again() -> None:
    tip = old_tip()
    undo(automatic_sweep(give_past(tip, *[MISLEADING] * 3))["sweep"], by="ann")
    other_run = give_past(old_tip(), EARNED)
    assert automatic_sweep(other_run)["note"] == "nothing was caught"
    # a person's sweep spares nobody
    assert [entry.tip for entry in preview("stig", by="ann").entries.all()] == [tip]
    later = timezone.now() + timedelta(minutes=1)
    assert automatic_sweep(give_past(tip, *[MISLEADING] * 2, retrieved_at=later))["sweep"] is None
    told = automatic_sweep(give_past(tip, MISLEADING, retrieved_at=later))
    assert told["retired"] == 1
    assert EvictionSweep.objects.get(pk=told["sweep"]).gate["spares_returned"] is True


@pytest.mark.parametrize(
    ("setting", "note", "caught"),
    [
        ("automatic = false", "automatic sweeps are off for this skill", 0),
        ("cap = 0", "the cap is 0", 1),
        ("min_age_days = 3000", "nothing was caught", 0),
    ],
)
def test_a_pass_with_nothing_to_retire_leaves_no_row(
    gate: Any, setting: str, note: str, caught: int
) -> None:
    gate(setting)
    tip = old_tip()
    told = automatic_sweep(give_past(tip, *[MISLEADING] * 3))
    assert (told["sweep"], told["note"], told["caught"]) == (None, note, caught)
    assert not EvictionSweep.objects.exists()
    assert list(Tip.objects.active()) == [tip]


@pytest.mark.usefixtures("gate")
def test_a_superseded_run_sweeps_nothing() -> None:
    bad_tip()
    told = automatic_sweep(make_run(superseded_at=timezone.now()))
    assert (told["sweep"], told["note"]) == (None, "the run was superseded")


@pytest.mark.usefixtures("gate")
def test_a_sweep_that_fails_half_way_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = give_past(old_tip(), *[MISLEADING] * 3)

    def broken(*_args: Any, **_fields: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(eviction, "retire_all", broken)
    with pytest.raises(OSError, match="the disk is full"):
        automatic_sweep(run)
    assert not EvictionSweep.objects.exists()
    assert Tip.objects.active().count() == 1
