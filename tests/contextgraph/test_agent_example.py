"""The example agent: what it learns in its first run decides what it is shown in its second."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command

from contextgraph.agent import memory_store
from contextgraph.examples.agent_loop import TOLD, WANTED, advice
from memory.evidence import check
from memory.models import Retrieval, Run, Tip, TipEvidence

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = "sshd_disable_root_login"
BAD, GOOD = advice(*TOLD[ROOT]), advice(*WANTED[ROOT])


@pytest.fixture(autouse=True)
def _broker(broker: str) -> None:
    """The end of a run is announced to it; nobody listens."""


def play(*arguments: str) -> str:
    out = StringIO()
    call_command("run_agent_example", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("signals", [["trace"], ["trace", "embed"]])
def test_the_second_run_is_ranked_by_what_the_first_has_shown(
    signals: list[str], settings: Any
) -> None:
    settings.SIGNALS = signals
    said = json.loads(play("--json"))
    assert said["played"] == ["toy-run-1", "toy-run-2"]
    first, second = ({step["rule"]: step for step in said["runs"][name]} for name in said["played"])
    assert {rule for rule, step in first.items() if not step["passed"]} == {ROOT}
    assert (first[ROOT]["tip"], second[ROOT]["tip"]) == (BAD, GOOD)
    assert all(step["passed"] for step in second.values())
    for rule in WANTED.keys() - {ROOT}:
        assert first[rule]["tip"] == second[rule]["tip"]
        # born in the first run: half of prefix 1.0 + category 0.3, and nothing was known of it
        assert first[rule]["score"] == 0.65
        assert second[rule]["score"] > 1.3 + 0.5 * 0.25
    assert second[ROOT]["score"] > 1.3
    assert Run.objects.filter(skill="agent-example", status="done").count() == 2
    bad = TipEvidence.objects.get(
        tip__text=BAD, policy="adr0019", key=ROOT, level=TipEvidence.Level.RULE
    )
    assert (bad.visits, bad.visit_total) == (1, 0)
    assert Tip.objects.count() == len(WANTED) + 1
    assert check() == []


def test_a_second_call_plays_nothing_and_shows_what_is_stored(settings: Any) -> None:
    settings.SIGNALS = ["trace"]
    first = json.loads(play("--json"))
    assert json.loads(play("--json")) == first | {"played": []}
    text = play()
    assert "toy-run-1: 3 of 4 passed" in text
    assert "toy-run-2: 4 of 4 passed" in text
    assert "nothing was played" in text
    assert Run.objects.count() == 2


def test_a_run_that_was_left_half_played_is_gone_on_with(settings: Any) -> None:
    settings.SIGNALS = ["trace"]
    memory_store("agent-example").start_run("toy-run-1", environment_tag="toy")
    assert json.loads(play("--json"))["played"] == ["toy-run-1", "toy-run-2"]
    assert Run.objects.filter(skill="agent-example", status="done").count() == 2


def test_the_loop_lives_with_a_hold_out_that_withholds_every_tip(
    settings: Any, tmp_path: Path
) -> None:
    settings.SIGNALS = ["trace"]
    shutil.copytree(settings.PROMPTS_DIR, tmp_path / "prompts")
    settings.PROMPTS_DIR = tmp_path / "prompts"
    with (settings.PROMPTS_DIR / "default" / "skill.toml").open("a") as file:
        file.write("\n[holdout]\nrate = 0.99\n")
    play()
    withheld = Retrieval.objects.filter(skill="agent-example", withheld=True)
    assert withheld.exists()
    assert set(withheld.values_list("attempt__script", flat=True)) == {None}
    assert Run.objects.filter(skill="agent-example", status="done").count() == 2
