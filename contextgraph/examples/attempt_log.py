"""The events of one attempt, from ``attempt_start`` to what the reflector says, in the upstream order.

Guarantees: an evaluation names neither rule nor attempt, as upstream; raw signals are those of a scanner
and a health script, whole lines of text; an evaluator that raised is reported as a health failure, as
upstream, so that a reader has to see through it.

Does not guarantee: real durations. They follow from the length of the script.

Shaped by: a parser that was right on clean logs only: what real logs leave out is left out here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contextgraph.examples.event_log import call_arguments, outcome_signal, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from contextgraph.examples.event_log import EventLog
    from contextgraph.examples.ranking import KnownTip
    from contextgraph.examples.story import Attempt, Rule, Run, Story

SECTIONS = (
    "rule_identity",
    "architect_plan",
    "episodic_memory",
    "similar_rule_tips",
    "directive",
)
"""Parts of the agent's prompt, in the order in which they are kept when space is short."""

PROMPT_BUDGET = 5500
REENGAGE_EVERY = 3
GAP_THRESHOLD = 3


class AttemptLog:
    """Writes the rules and attempts of one run into its :class:`EventLog`."""

    def __init__(self, log: EventLog, story: Story, run: Run) -> None:
        self._log = log
        self._story = story
        self._run = run
        self._rule_started = 0.0
        self._gaps = 0
        self._approaches: list[str] = []

    def select(self, rule: Rule, place: int) -> None:
        """The architect takes up a rule; *place* is 1-based."""
        self._rule_started, self._gaps, self._approaches = self._log.elapsed, 0, []
        data = {
            "rule_id": rule.id,
            "title": rule.title,
            "category": rule.category,
            "iteration": place,
            "time_budget_s": self._story.job["time_budget_s"],
        }
        self._log.add("rule_selected", "architect", data, after=11.0)

    def play(
        self, attempt: Attempt, ranked: Sequence[tuple[KnownTip, float]], *, value: float
    ) -> None:
        """One attempt up to its verdict and what follows from it; *value* is the sender's grade."""
        rule = self._story.rules[attempt.rule]
        start = {
            "rule_id": rule.id,
            "category": rule.category,
            "attempt": attempt.number,
            "max_attempts": self._story.job["max_attempts"],
            "time_budget_s": self._story.job["time_budget_s"],
            "rule_elapsed_s": self._rule_elapsed(),
        }
        self._log.add("attempt_start", "harness", start)
        self._prompt(attempt, ranked)
        self._act(attempt, rule)
        self._evaluate(attempt, rule, value=value)
        self._approaches.append(attempt.says)
        if attempt.result == "deferred_pass":
            self._defer(attempt)
        elif attempt.result == "pass":
            self._keep(attempt, rule)
        else:
            self._revert(attempt, rule)

    def _rule_elapsed(self) -> float:
        return round(self._log.elapsed - self._rule_started, 2)

    def _prompt(self, attempt: Attempt, ranked: Sequence[tuple[KnownTip, float]]) -> None:
        dropped = attempt.event == "tips_dropped"
        tips = []
        for rank, (known, score) in enumerate(ranked, start=1):
            entry = {
                "tip_id": known.tip.id,
                "rank": rank,
                "similarity_score": score,
                "tip_type": known.tip.type,
                "source_rule_id": known.tip.rule,
                "source_run_id": known.run_id,
            }
            # A tip that fell out of the prompt was shown as nothing.
            tips.append(entry if dropped else entry | _exposure(known.tip.text))
        characters = sum(len(shown(known.tip.text)) for known, _ in ranked)
        data = {
            "phase": "apply_fix",
            "rule_id": attempt.rule,
            "attempt": attempt.number,
            "category_lessons_loaded": [],
            "v2_tips_loaded": tips,
            "used_tokens": PROMPT_BUDGET
            if dropped
            else 1400 + 310 * attempt.number + characters // 4,
            "budget_tokens": PROMPT_BUDGET,
            "sections_included": list(SECTIONS[:2] if dropped else SECTIONS),
            "sections_truncated": list(SECTIONS[2:3] if dropped else ()),
            "sections_dropped": list(SECTIONS[3:] if dropped else ()),
        }
        self._log.add("prompt_assembled", "worker", data)

    def _act(self, attempt: Attempt, rule: Rule) -> None:
        if attempt.script is None:
            self._log.add("error", "worker", {"error": attempt.output}, after=2.0)
            return
        args = call_arguments(
            attempt.script,
            revert=rule.revert,
            says=attempt.says,
            cut=attempt.event == "script_cut",
        )
        call = {"tool": "apply_fix", "args": args}
        seconds = round(28.0 + len(attempt.script) / 16, 2)
        self._log.add("tool_call", "worker", call, after=seconds)
        status = f"APPLIED: {attempt.says}\nOutput: "
        if attempt.event == "apply_failed":
            status = f"APPLY_FAILED: exit code 255\nOutput: {attempt.output}"
        result = {"tool": "apply_fix", "result": repr({"result": status})[:500]}
        self._log.add("tool_result", "worker", result, after=1.6)
        capped = attempt.event == "capped"
        if capped:
            refused = {"attempted_count": 2, "max_allowed": 1, "tool": "apply_fix"}
            self._log.add("tool_call_capped", "worker", refused)
        self._say("worker", attempt.says, seconds=seconds, calls=1, capped=capped)

    def _say(
        self, agent: str, text: str, *, seconds: float, calls: int = 0, capped: bool = False
    ) -> None:
        data = {
            "text": text,
            "tokens": {"prompt": 2200 + 3 * len(text), "completion": 40 + len(text) // 4},
            "timing": {"turn_elapsed_s": seconds, "ttft_s": 2.1, "tok_per_sec": 14.5},
            "model": self._story.job["model"],
            "tool_calls": calls,
            "capped": capped,
        }
        self._log.add("agent_response", agent, data, after=1.2)

    def signals(self, rule: Rule, *, passed: bool, health: str = "") -> dict[str, Any]:
        """What scanner, health script and journal printed; *health* is set when health failed."""
        verdict = "pass" if passed else "fail"
        job = self._story.job
        return {
            "health": health or job["healthy"],
            "health_ok": not health,
            "rule_check": f"title   {rule.title.lower()}\nrule    {rule.id}\nresult  {verdict}",
            "rule_ok": passed,
            "journal": job["broken_journal"] if health else "JOURNAL_CLEAN",
            "journal_clean": not health,
        }

    def _evaluate(self, attempt: Attempt, rule: Rule, *, value: float) -> None:
        if attempt.result == "evaluator_error":
            self._evaluator_raised(attempt, value=value)
            return
        unhealthy = attempt.result == "health"
        # A service that is gone listens nowhere: the scanner is content, the health check is not.
        raw = self.signals(
            rule,
            passed=attempt.result in {"pass", "health"},
            health=attempt.output if unhealthy else "",
        )
        summary = f"health={raw['health_ok']} rule={raw['rule_ok']} journal={raw['journal_clean']}"
        data = {
            "passed": attempt.result == "pass",
            "failure_mode": _failure_mode(attempt),
            "summary": summary,
            **raw,
            "outcome_signal": outcome_signal(value),
        }
        self._log.add("evaluation", "harness", data, after=22.0)
        self._gaps += _failure_mode(attempt) == "evaluator_gap"
        if attempt.result == "fail" and self._gaps >= GAP_THRESHOLD:
            gap = {
                "rule_id": rule.id,
                "gap_count": self._gaps,
                "distinct_approaches": len(set(self._approaches)) + 1,
                "threshold": GAP_THRESHOLD,
            }
            self._log.add("scanner_gap_detected", "harness", gap)

    def _evaluator_raised(self, attempt: Attempt, *, value: float) -> None:
        error = {
            "rule_id": attempt.rule,
            "phase": "evaluate",
            "error": attempt.output,
            "attempt": attempt.number,
        }
        self._log.add("tool_error", "harness", error, after=120.0)
        data = {
            "passed": False,
            "failure_mode": "health_failure",
            "summary": f"eval tool error: {attempt.output}",
            "outcome_signal": outcome_signal(value),
        }
        self._log.add("evaluation", "harness", data)

    def _defer(self, attempt: Attempt) -> None:
        data = {
            "rule_id": attempt.rule,
            "reason": "needs_reboot",
            "attempt": attempt.number,
            "wall_time_s": self._rule_elapsed(),
            "eval_summary": "health=True rule=False journal=True",
        }
        self._log.add("deferred_verification", "harness", data)

    def _keep(self, attempt: Attempt, rule: Rule) -> None:
        data = {
            "rule_id": rule.id,
            "category": rule.category,
            "attempt": attempt.number,
            "wall_time_s": self._rule_elapsed(),
            "phase_timing": {},
            "snapshot_saved": True,
            "snapshot_save_s": 2.4,
        }
        self._log.add("remediated", "harness", data, after=2.6)
        if attempt.number == 1 and attempt.learns:
            self._reflector_prompt(attempt, phase="success_reflection")
            text = "It worked at once; I keep what was done."
            self._say("reflector", text, seconds=12.0)

    def _revert(self, attempt: Attempt, rule: Rule) -> None:
        unhealthy = attempt.result == "health"
        common = {"rule_id": rule.id, "category": rule.category, "attempt": attempt.number}
        mode = _failure_mode(attempt)
        diagnosis = {
            **common,
            "failure_mode": mode,
            "sudo_ok": True,
            "services_ok": not unhealthy,
            "mission_healthy": not unhealthy,
            "mission_healthcheck": attempt.output if unhealthy else self._story.job["healthy"],
            "recent_journal_errors": self._story.job["broken_journal"] if unhealthy else "",
        }
        self._log.add("post_mortem", "harness", diagnosis, after=3.0)
        undone = {
            **common,
            "reason": mode,
            "failure_mode": mode,
            "method": "checkpoint_restore",
            "restore_ok": True,
            "restore_detail": "ok",
            "post_restore_healthy": True,
            "scanner_gap": self._gaps >= GAP_THRESHOLD,
            "evaluator_gap_count": self._gaps,
            "phase_timing": {},
        }
        self._log.add("revert", "harness", undone, after=9.0)
        if attempt.lesson:
            self._reflect(attempt)

    def _reflect(self, attempt: Attempt) -> None:
        self._reflector_prompt(attempt, phase="reflection")
        self._say("reflector", attempt.lesson, seconds=14.0)
        data = {
            "rule_id": attempt.rule,
            "text": attempt.lesson,
            "attempt": attempt.number,
            "banned_count": 0,
            "new_bans_this_reflection": 0,
            "plateaued": False,
            "phase_timing": {},
        }
        self._log.add("reflection", "reflector", data, after=14.0)

    def _reflector_prompt(self, attempt: Attempt, *, phase: str) -> None:
        data = {
            "phase": phase,
            "rule_id": attempt.rule,
            "attempt": attempt.number,
            "used_tokens": 1150 + len(attempt.script or "") // 4,
            "budget_tokens": 4500,
        }
        self._log.add("prompt_assembled", "reflector", data)

    def reengage(self, attempt: Attempt, *, last: bool) -> None:
        """After every third failure the architect is asked whether to go on."""
        if last or attempt.number % REENGAGE_EVERY:
            return
        answer = "PIVOT: the attempts so far have left the scanner unmoved; take another way."
        prompt = {"phase": "reengagement", "rule_id": attempt.rule, "attempt": attempt.number}
        self._log.add("prompt_assembled", "architect", prompt | {"trigger": "attempt_threshold"})
        self._say("architect", answer, seconds=9.0)
        data = {
            "rule_id": attempt.rule,
            "attempt": attempt.number,
            "trigger": "attempt_threshold",
            "plateau": False,
            "verdict": "PIVOT",
            "parsed_cleanly": True,
            "reengagement_count": attempt.number // REENGAGE_EVERY,
            "full_response": answer,
        }
        self._log.add("architect_reengaged", "architect", data, after=9.0)

    def complete(self, attempts: Sequence[Attempt], place: int) -> str:
        """Close a rule. Returns remediated, deferred or escalated."""
        rule, last = self._story.rules[attempts[-1].rule], attempts[-1]
        ends = {"pass": "remediated", "deferred_pass": "deferred"}
        outcome = ends.get(last.result, "escalated")
        reason = "time_budget" if outcome == "escalated" else None
        common = {"rule_id": rule.id, "category": rule.category, "attempts": last.number}
        if reason:
            given_up = common | {"wall_time_s": self._rule_elapsed(), "reason": reason}
            self._log.add("escalated", "harness", given_up)
        data = {
            **common,
            "title": rule.title,
            "outcome": outcome,
            "escalation_reason": reason,
            "wall_time_s": self._rule_elapsed(),
            "approaches_tried": [attempt.says[:160] for attempt in attempts],
            "reflections_count": sum(bool(attempt.lesson) for attempt in attempts),
            "reflector_plateaued": False,
            "bans_at_completion": 0,
            "architect_reengagements": (last.number - 1) // REENGAGE_EVERY,
            "iteration": place,
        }
        self._log.add("rule_complete", "harness", data)
        return outcome


def _exposure(text: str) -> dict[str, Any]:
    seen = shown(text)
    return {"text": seen} if seen == text else {"text": seen, "shown_cut": True}


def _failure_mode(attempt: Attempt) -> str:
    if attempt.result in {"health", "evaluator_error"}:
        return "health_failure"
    if attempt.result == "deferred_pass":
        return "needs_reboot"
    # Upstream writes this default beside a pass, where it means nothing.
    return "clean_failure" if attempt.result == "pass" else "evaluator_gap"
