"""Part of bench_memory.py: an eviction sweep over all tips of a skill: preview, apply, undo.

Guarantees: through the product's own functions, each in its transaction. ``as configured`` is the gate of
the skill's file, with its cap; ``no cap`` takes everything that the gate catches, the most that a sweep
can have to do. Each sweep is undone before the next, and the ranking is compared with the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import history
from benchmarks.memory_retrieve import Agent
from benchmarks.scratch import Processor, Statements, few, load, timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from contextgraph.skills import Eviction

NO_CAP = {"cap": history.TIPS, "cap_share": 1.0}
COMPARED = 20


def measure(gate: Eviction, repeats: int) -> dict[str, Any]:
    """Seconds of each step over *repeats* sweeps."""
    from memory import eviction

    times: dict[str, list[float]] = {"preview": [], "apply": [], "undo": [], "flips": []}
    began, processor = load(), Processor()
    for _ in range(repeats):
        seconds, sweep = timed(eviction.preview, history.SKILL, gate=gate, by="bench")
        times["preview"].append(seconds)
        seconds, change = timed(eviction.apply, sweep.pk, by="bench")
        times["apply"].append(seconds)
        seconds, back = timed(eviction.undo, sweep.pk, by="bench")
        times["undo"].append(seconds)
        stricter = gate.model_copy(update={"threshold": gate.threshold / 2})
        seconds, _ = timed(eviction.flips, history.SKILL, gate, stricter)
        times["flips"].append(seconds)
        assert change.tips == back.tips, "an undone sweep gives back what it took"
        kept_to = sweep.entries.filter(over_cap=False).count()
        assert len(change.tips) == kept_to, "another benchmark sweeps the same tips"
    python, database = (round(seconds / repeats, 3) for seconds in processor.used())
    return {
        **{name: few(seconds) for name, seconds in times.items()},
        "active": sweep.active,
        "with_evidence": sweep.with_evidence,
        "caught": sweep.entries.count(),
        "retired_and_given_back": len(change.tips),
        "processor": {"python_s": python, "database_s": database},
        "load": [began, load()],
    }


def give_all_back() -> None:
    """Undo what a benchmark that was killed, or an earlier dream pass, has left retired."""
    from memory import eviction
    from memory.models import EvictionSweep, Tip

    for sweep in EvictionSweep.objects.filter(state=EvictionSweep.State.APPLIED):
        eviction.undo(sweep.pk, by="bench")
    assert Tip.objects.active().filter(skill=history.SKILL).count() == history.TIPS


def rankings() -> list[tuple[tuple[int, float], ...]]:
    """What the ranker says about some rules."""
    agent = Agent()
    answers = [agent.rank(rule, text=False) for rule in agent.rules(COMPARED)]
    return [tuple((tip.tip_id, tip.score) for tip in answer.tips) for answer in answers]


def explain_all() -> None:
    """Plans of every statement of a preview, its application and its undoing."""
    from django.db import transaction

    from memory import eviction
    from memory.eviction_gate import gate_of

    with transaction.atomic():
        with Statements(explain=True).watched() as seen:
            sweep = eviction.preview(history.SKILL, gate=gate_of(history.SKILL), by="bench")
            eviction.apply(sweep.pk, by="bench")
            eviction.undo(sweep.pk, by="bench")
        transaction.set_rollback(True)
    seen.print_plans("sweep")


def part(repeats: int, *, explain: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Both gates."""
    from memory.eviction_gate import gate_of

    say("sweep")
    before = rankings()
    found = {
        "as configured": measure(gate_of(history.SKILL), repeats),
        "no cap": measure(gate_of(history.SKILL, **NO_CAP), repeats),
    }
    assert rankings() == before, "an undone sweep leaves the ranking as it was"
    if explain:
        explain_all()
    return found
