"""Passes of maintenance retire nobody: re-grading, late verdicts, scoring again, a forced dream pass.

Whom the gate would catch then is told, and by a dry run as well; a person decides with ``sweep``.
"""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command

from contextgraph.regrading import regrade, undo
from contextgraph.skills import load_skill
from memory import eviction
from memory.models import EvictionSweep, Run, Tip, TipChange
from tests.contextgraph.ladders import NAIVE, edited, use_ladder
from tests.contextgraph.regraded_runs import broken_app, everything, finished, stored
from tests.contextgraph.run_documents import retrieval, tip

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.django_db(transaction=True)

RUNS, TIPS, CAP = 3, 3, 2
GATE = f"""min_retrievals = 1
threshold = 0.3
min_age_days = 0
interval_below = false
cap = {CAP}
cap_share = 1.0
"""


@pytest.fixture(autouse=True)
def _without_a_model(broker: str, settings: Any) -> None:
    settings.SIGNALS = ["trace", "judge"]


@pytest.fixture
def world(settings: Any, tmp_path: Path) -> Callable[..., None]:
    """Final runs whose tips all look good, so that their passes caught nothing; then the truth.

    Call it to serve the mended ladder, under which every tip lies below the gate, the gate's threshold
    being raised so far that each pass would find some. ``threshold``: another one.
    """
    naive = NAIVE.replace("automatic = false\n", GATE)
    use_ladder(settings, tmp_path, naive)
    load_skill.cache_clear()
    for night in range(1, RUNS + 1):
        names = [f"tip {night}.{number}" for number in range(TIPS)]
        stored(
            *(tip(name, f"Write {name} to /etc/app.conf") for name in names),
            *(broken_app(f"rule_{name[4:]}", retrievals=(retrieval(name),)) for name in names),
            external_id=f"night-{night}",
        )
    assert_nobody_left()

    def mend(threshold: str = "0.9") -> None:
        mended = edited(("min_retrievals = 3\nthreshold = 0.3\n", GATE))
        use_ladder(
            settings, tmp_path, mended.replace("threshold = 0.3", f"threshold = {threshold}")
        )

    return mend


def assert_nobody_left() -> None:
    assert not EvictionSweep.objects.exists()
    assert not TipChange.objects.exists()
    assert Tip.objects.active().count() == RUNS * TIPS
    assert set(Run.objects.values_list("status", flat=True)) == {"done"}


def called(*argv: str) -> str:
    out = StringIO()
    call_command(*argv, stdout=out)
    return out.getvalue()


def late_file(folder: Path) -> str:
    path = folder / "late.jsonl"
    lines = [
        {"skill": "stig", "run": f"night-{night}", "rule_id": f"rule_{night}.{number}",
         "number": 1, "passed": False, "failure_mode": "clean_failure"}
        for night in range(1, RUNS + 1) for number in range(TIPS)
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


SAID = (
    f"{RUNS * TIPS} tips of stig would be caught ({RUNS * TIPS - CAP} over the cap): "
    "tip 1.0, tip 1.1"
)


@pytest.mark.parametrize("door", ["regrade", "late_outcomes", "rescore", "dream"])
def test_no_door_of_maintenance_retires_a_tip(
    door: str, world: Callable[..., None], tmp_path: Path
) -> None:
    world()
    if door == "regrade":
        text = called("regrade", "--skill", "stig", "--by", "ada")
    elif door == "late_outcomes":
        text = called("late_outcomes", late_file(tmp_path), "--by", "ada")
    elif door == "rescore":
        text = called("rescore", "--all", "--signal", "trace")
        for run in Run.objects.all():
            finished(run.pk)
    else:
        text = "".join(called("dream", f"night-{night}", "--force") for night in (1, 2, 3))
    assert_nobody_left()
    assert set(Run.objects.values_list("dream_number", flat=True)) == {2}
    if door == "rescore":
        assert "manage.py sweep stig" in text
        assert len(eviction.preview("stig", by="ada").entries.all()) == RUNS * TIPS
    else:
        assert SAID in " ".join(text.split())
        assert "manage.py sweep stig" in text


def test_undo_of_a_regrade_has_no_tip_to_give_back(world: Callable[..., None]) -> None:
    world()
    assert regrade(skill="stig", by="ada").revised == RUNS * TIPS
    world("0.3")
    report = undo(skill="stig", by="ada").as_dict()
    assert report["revised"] == RUNS * TIPS
    assert report["gate"]["caught"] == 0
    assert_nobody_left()


@pytest.mark.parametrize("door", ["regrade", "late_outcomes", "dream"])
def test_a_dry_run_says_who_would_be_caught(
    door: str, world: Callable[..., None], tmp_path: Path
) -> None:
    world("0.3" if door != "dream" else "0.9")
    argv = {
        "regrade": ("regrade", "--skill", "stig"),
        "late_outcomes": ("late_outcomes", late_file(tmp_path)),
        "dream": ("dream", "night-1", "--force"),
    }[door]
    before = everything()
    told = json.loads(called(*argv, "--dry-run", "--json"))["gate"]
    text = called(*argv, "--dry-run")
    assert everything() == before
    [one] = told if door == "late_outcomes" else [told]
    names = [f"tip {night}.{number}" for night in range(1, RUNS + 1) for number in range(TIPS)]
    assert sorted(found["tip"] for found in one["tips"]) == names
    assert (one["caught"], one["over_cap"]) == (RUNS * TIPS, RUNS * TIPS - CAP)
    assert SAID in " ".join(text.split())
    done = json.loads(called(*argv, "--json"))["gate"]
    assert done == told


def test_a_gate_that_cannot_be_used_is_told_and_stops_nothing(
    world: Callable[..., None], settings: Any, tmp_path: Path
) -> None:
    world()
    broken = edited(("min_retrievals = 3\nthreshold = 0.3\n", GATE + 'policy = "none"\n'))
    use_ladder(settings, tmp_path, broken)
    assert "the gate of stig cannot be used" in called("regrade", "--skill", "stig", "--dry-run")
    report = regrade(skill="stig", by="ada").as_dict()
    assert report["revised"] == RUNS * TIPS
    assert "none" in report["gate"]["error"]
    assert_nobody_left()


def test_what_the_gate_says_is_left_out_where_nothing_could_move(
    world: Callable[..., None],
) -> None:
    assert "caught" not in called("regrade", "--skill", "stig")
