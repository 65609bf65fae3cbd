"""The example agent: what it learns in its first run decides what it is shown in its second."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command

from contextgraph.agent import memory_store
from contextgraph.examples import agent_loop
from contextgraph.examples.agent_loop import TOLD, WANTED, advice
from memory.evidence import check
from memory.models import Attempt, Retrieval, Run, Tip, TipEvidence
from memory.store import MemoryStore

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


class Crash(BaseException):
    """What no loop catches."""


def die(monkeypatch: pytest.MonkeyPatch, where: object, name: str, *, at: int) -> None:
    """Play the first run with a process that dies at the ``at``-th call of ``where.name``."""
    real, calls = getattr(where, name), count(1)

    def dying(*arguments: Any, **named: Any) -> Any:
        if next(calls) == at:
            raise Crash
        return real(*arguments, **named)

    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(where, name, dying)
        agent_loop.play(memory_store("agent-example"), "toy-run-1")


LOST_NOTE = len(TOLD) + 1
"""The tips that it is told come first."""


@pytest.mark.parametrize(
    ("where", "name", "at", "saved", "begun"),
    [
        (MemoryStore, "save_tip", 1, 0, 0),
        (agent_loop, "act", 3, 2, 3),  # an attempt is open
        (MemoryStore, "save_attempt", 1, 0, 1),
        (MemoryStore, "save_tip", LOST_NOTE, 4, 4),  # all is tried, and nothing noted
        (MemoryStore, "end_run", 1, 4, 4),
    ],
)
def test_a_run_that_was_left_half_way_is_gone_on_with_where_it_stopped(
    where: object, name: str, at: int, saved: int, begun: int,
    settings: Any, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings.SIGNALS = ["trace"]
    die(monkeypatch, where, name, at=at)
    before = {one.pk: one.ended_at for one in Attempt.objects.all()}
    assert (sum(ended is not None for ended in before.values()), len(before)) == (saved, begun)
    said = json.loads(play("--json"))
    assert said["played"] == ["toy-run-1", "toy-run-2"]
    for run in Run.objects.filter(skill="agent-example"):
        tried = run.attempts.values_list("rule_id", "number")
        assert (run.status, run.hazards) == ("done", {})
        assert sorted(tried) == sorted((rule, 1) for rule in WANTED)
    after = dict(Attempt.objects.filter(pk__in=before).values_list("pk", "ended_at"))
    assert after.keys() == before.keys()
    assert all(after[key] == ended for key, ended in before.items() if ended is not None)
    assert [step["passed"] for step in said["runs"]["toy-run-1"]] == [False, True, True, True]
    assert all(step["passed"] for step in said["runs"]["toy-run-2"]), "what it noted was lost"


def test_an_attempt_without_a_verdict_is_not_called_failed(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SIGNALS = ["trace"]
    die(monkeypatch, agent_loop, "act", at=3)
    store = memory_store("agent-example")
    store.end_run(store.open_run("toy-run-1"))
    steps = json.loads(play("--json"))["runs"]["toy-run-1"]
    assert [step["passed"] for step in steps] == [False, True, None]
    text = play()
    assert "toy-run-1: 1 of 3 passed" in text
    assert text.count("no verdict") == 1


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
