"""Part of bench_memory.py: the dream pass of a run of 7,405 retrievals: score, credit, evict, report.

Guarantees: every pass is a run's first one, through ``pipeline.finish``, on signals that are there
already (no judge, no encoder is asked); it counts the run into the evidence and sweeps as the skill's
gate says. The first run is not counted: it warms up, and has no earlier pass to compare with. ``again``
is a forced pass of the last run, which finds nothing to change. Seconds of the stages are those that
the product notes itself; ``whole`` is the clock of the caller, commits included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import history
from benchmarks.scratch import Processor, Statements, few, load, timed

if TYPE_CHECKING:
    from collections.abc import Callable


def add_scored_runs(number: int) -> list[int]:
    """Runs that wait for their dream pass."""
    from django.db import transaction

    from memory import dream

    with transaction.atomic():
        runs = history.add_runs(number, prefix="dream-", status="finalizing")
        for run in runs:
            dream.open_pass(run)
    return runs


def first_pass(run: int) -> dict[str, float]:
    """Seconds by stage, of the whole, and of the two processors' time that went into it."""
    from contextgraph import pipeline

    processor = Processor()
    seconds, done = timed(pipeline.finish, run)
    python, database = processor.used()
    assert done, "the pass was finished by somebody else"
    clock = stage_seconds(run) | {"whole": seconds}
    return clock | {"processor, python": python, "processor, database": database}


def stage_seconds(run: int) -> dict[str, float]:
    """As the product notes them."""
    from memory import dream
    from memory.models import Run

    stages = dream.stages_of(Run.objects.get(pk=run))
    failed = [stage.error for stage in stages if stage.state != dream.State.DONE]
    assert not failed, failed
    return {str(stage.stage): stage.seconds or 0.0 for stage in stages}


def explain_all(run: int) -> None:
    """Plans of every statement of a first pass, which is taken back."""
    from django.db import transaction

    from contextgraph import pipeline

    with transaction.atomic():
        with Statements(explain=True).watched() as seen:
            pipeline.finish(run)
        transaction.set_rollback(True)
    seen.print_plans("dream pass")


def part(passes: int, *, explain: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds by stage over *passes* runs."""
    from contextgraph import pipeline
    from memory import evidence
    from memory.models import Run

    say("dream pass")
    _, *runs = waiting = add_scored_runs(passes + 1)
    if explain:
        explain_all(runs[-1])
    began = load()
    found = [first_pass(run) for run in waiting][1:]
    again, _ = timed(pipeline.recount, runs[-1], force=True)
    wrong = evidence.check(skill=history.SKILL) if Run.objects.count() < 50 else []
    assert not wrong, wrong[0]
    return {
        **{name: few([one[name] for one in found]) for name in found[0]},
        "again": {**stage_seconds(runs[-1]), "whole": round(again, 3)},
        "load": [began, load()],
    }
