"""Builds the two example run logs from the TOML files: ``python -m contextgraph.examples.build``.

Guarantees: deterministic, byte for byte; events stand in the order of the upstream loop; which tips an
attempt retrieves is decided by the ranker, never by hand; the author's labels stay out of the logs.

Does not guarantee: every event type of the upstream log. Those that only draw a screen are left out.

Shaped by: a hand-made log that showed tips to an attempt before any attempt had learnt them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contextgraph.examples import HERE
from contextgraph.examples.attempt_log import AttemptLog
from contextgraph.examples.event_log import EventLog, shown
from contextgraph.examples.ranking import OutcomeOnlyMemory
from contextgraph.examples.story import StoryError, load_story

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from contextgraph.examples.ranking import KnownTip
    from contextgraph.examples.story import Attempt, Run, Story, Tip

EARLIER = "harbor-run-00"
"""The run that the oldest tips come from; its log is not part of the example."""

OUTCOMES = {"fail": 0.0, "deferred_pass": 0.0, "health": -0.2, "evaluator_error": -0.2}
"""What the old grader wrote at once. Two of these are wrong, and the product has to see it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """What one retrieval really was. ``followed`` is None where the author cannot say either."""

    run: str
    rule: str
    attempt: int
    tip: int
    shown_text: str
    script: str
    followed: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltRun:
    """One log as text, and the author's label for each retrieval that was shown with a script."""

    id: str
    text: str
    labels: tuple[Label, ...]


def old_grade(attempt: Attempt) -> float:
    """The sender's grade of an attempt: 1.0, 0.8 from attempt 2, 0.5 from attempt 4 (ADR-0019)."""
    if attempt.result != "pass":
        return OUTCOMES[attempt.result]
    return 1.0 if attempt.number == 1 else 0.8 if attempt.number < 4 else 0.5


def build_runs(story: Story | None = None) -> tuple[BuiltRun, ...]:
    """Build every run, oldest first; each starts with the memory that the one before it left."""
    story = story or load_story()
    memory = OutcomeOnlyMemory()
    for tip in story.seeds:
        memory.learn(tip, run_id=EARLIER, value=tip.value)
    return tuple(RunBuilder(story, run, memory).build() for run in story.runs)


class RunBuilder:
    """Plays one run of the story against a memory, which it changes."""

    def __init__(self, story: Story, run: Run, memory: OutcomeOnlyMemory) -> None:
        self._story = story
        self._run = run
        self._memory = memory
        self._log = EventLog(run.started)
        self._attempts = AttemptLog(self._log, story, run)
        self._labels: list[Label] = []
        self._deferred: list[str] = []
        self._outcomes: dict[str, str] = {}

    def build(self) -> BuiltRun:
        """Write the whole run."""
        self._open()
        for place, rule in enumerate(self._run.order, start=1):
            self._play_rule(rule, place)
        self._resolve_deferred()
        self._close()
        return BuiltRun(id=self._run.id, text=self._log.text(), labels=tuple(self._labels))

    def _open(self) -> None:
        job, run = self._story.job, self._run
        start = {"run_id": run.id, "start_time": run.started.isoformat()}
        self._log.add("run_start", "system", start, after=0.0)
        manifest = {
            "skill_name": job["skill"],
            "skill_description": job["skill_description"],
            "ui": {},
        }
        self._log.add("skill_manifest", "system", manifest)
        preflight = {"baseline_ok": True, "progress_cleared": True}
        self._log.add("snapshot_preflight", "system", preflight, after=4.0)
        self._log.add("scan_complete", "system", {"failing_count": len(run.order)}, after=38.0)
        self._log.add("cross_run_hydration", "system", {"prior_runs": run.number})
        if run.number == 1:
            # A log names tips of earlier runs by id only; the first bundled log brings their texts.
            for known in list(self._memory.tips.values()):
                self._tip_added(known, phase="hydration")

    def _play_rule(self, rule: str, place: int) -> None:
        attempts = self._story.attempts[self._run.number, rule]
        self._attempts.select(self._story.rules[rule], place)
        for attempt in attempts:
            ranked = self._memory.best(self._story.rules[rule], run_id=self._run.id)
            self._attempts.play(attempt, ranked, value=old_grade(attempt))
            tips = [known.tip for known, _ in ranked]
            self._memory.credit([tip.id for tip in tips], rule=rule, value=old_grade(attempt))
            self._labels.extend(self._label(attempt, tips))
            for tip in attempt.learns:
                self._learn(tip, attempt)
            self._attempts.reengage(attempt, last=attempt is attempts[-1])
        if attempts[-1].result == "deferred_pass":
            self._deferred.append(rule)
        self._outcomes[rule] = self._attempts.complete(attempts, place)

    def _label(self, attempt: Attempt, tips: list[Tip]) -> Iterator[Label]:
        labelled = attempt.follows | attempt.violates | attempt.unclear
        if unseen := labelled - {tip.id for tip in tips}:
            where = f"{self._run.id}, {attempt.rule} #{attempt.number}"
            raise StoryError(f"{where}: labels tips {sorted(unseen)}, which it did not retrieve")
        if attempt.script is None or attempt.event in {"tips_dropped", "script_cut"}:
            return
        for tip in tips:
            yield Label(
                run=self._run.id,
                rule=attempt.rule,
                attempt=attempt.number,
                tip=tip.id,
                shown_text=shown(tip.text),
                script=attempt.script,
                followed=None if tip.id in attempt.unclear else tip.id in attempt.follows,
            )

    def _learn(self, tip_id: int, attempt: Attempt) -> None:
        tip, value = self._story.tips[tip_id], old_grade(attempt)
        self._memory.learn(tip, run_id=self._run.id, value=value)
        phase = "success_reflection" if attempt.result == "pass" else "failure_reflection"
        self._tip_added(self._memory.tips[tip_id], phase=phase)

    def _tip_added(self, known: KnownTip, *, phase: str) -> None:
        tip = known.tip
        data = {
            "tip_id": tip.id,
            "tip_type": tip.type,
            "text": tip.text,
            "mechanism": tip.mechanism,
            "rule_id": tip.rule,
            "category": tip.category,
            "trigger_conditions": [],
            "application_context": [tip.category],
            "phase": phase,
            "tips_total": len(self._memory.tips),
            "outcome_at_source_value": known.value,
            "outcome_at_source_confidence": 1.0,
            "environment_tag": self._run.environment_tag,
            "source_attempt_id": None,
            "source_run_id": known.run_id,
        }
        self._log.add("tip_added", "reflector", data)

    def _resolve_deferred(self) -> None:
        rules = self._deferred
        start = {"reason": "needs_reboot", "count": len(rules), "rule_ids": rules}
        self._log.add("deferred_resolve_start", "harness", start, after=2.0)
        self._log.add("family_reboot_issued", "harness", {"deferred_reason": "needs_reboot"})
        up = {"deferred_reason": "needs_reboot", "waited_s": 41.0}
        self._log.add("family_ssh_up", "harness", up, after=41.0)
        for rule in rules:
            raw = self._attempts.signals(self._story.rules[rule], passed=True)
            verdict = {
                "rule_id": rule,
                "passed": True,
                "outcome_reason": "verified after the reboot",
                "deferred_reason": "needs_reboot",
                "metadata": raw,
            }
            self._log.add("post_deferred_evaluation", "harness", verdict, after=24.0)
        done = {
            "reason": "needs_reboot",
            "success": True,
            "detail": "",
            "outcome_count": len(rules),
            "passed_count": len(rules),
        }
        self._log.add("deferred_resolve_complete", "harness", done)

    def _close(self) -> None:
        dream = {
            "run_id": self._run.id,
            "dream": {"status": "skipped", "environment_tag": self._run.environment_tag},
            "eviction": {"status": "skipped"},
        }
        self._log.add("consolidation_complete", "system", dream, after=3.0)
        outcome = self._outcomes
        fixed = [rule for rule, end in outcome.items() if end != "escalated"]
        given_up = [rule for rule, end in outcome.items() if end == "escalated"]
        end = {
            "iterations": len(outcome),
            "remediated": len(fixed),
            "escalated": len(given_up),
            "skipped": 0,
            "remaining": len(given_up),
            "banned_approaches": [],
            "lessons": [],
            "elapsed_s": self._log.elapsed,
            "remediated_rules": fixed,
            "escalated_rules": given_up,
        }
        self._log.add("run_complete", "system", end)


def write_logs(folder: Path = HERE) -> tuple[Path, ...]:
    """Write one ``<run id>.jsonl`` for each run into *folder*, and return the paths."""
    paths = []
    for built in build_runs():
        path = folder / f"{built.id}.jsonl"
        path.write_text(built.text, encoding="utf-8", newline="\n")
        paths.append(path)
    return tuple(paths)


if __name__ == "__main__":
    for written in write_logs():
        sys.stdout.write(f"{written.name}: {written.stat().st_size} bytes\n")
