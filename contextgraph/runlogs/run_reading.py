"""The state of one run while its events are read, and the records that come out of it.

Guarantees: events go in one by one, records come out as soon as they are complete; every started attempt
comes out exactly once, in order; nothing is left out without being counted. Memory holds the open
attempt, the attempt numbers, and a prefix and hash per tip.

Does not guarantee: that an event without rule and attempt belongs to the attempt it stands in. The log
gives no other clue; the verdict that follows is checked against it.

Shaped by: an event order that is only a habit. Upstream stitched retrievals to attempts by position, in
chunks of five, which broke at the first short list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from contextgraph.envelope import OutcomeCorrection, Record, RunFooter, RunHeader, validate
from contextgraph.runlogs.attempts import AttemptDraft, AttemptNumbers, verdict_fields
from contextgraph.runlogs.exposure import PromptEvent, TipLedger, retrievals
from contextgraph.runlogs.fields import Fields
from contextgraph.runlogs.hazards import Hazard, HazardTally
from contextgraph.runlogs.scripts import apply_failed, script_of, shows_more

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from contextgraph.runlogs.lines import Event
    from contextgraph.runlogs.side_file import SideFile
    from contextgraph.runlogs.survey import RunIdentity

_TOKEN = re.compile(r"[a-z][a-z0-9_]{0,99}")

PLANNERS = frozenset({"architect", "reflector", "system", "harness"})
"""Agents whose tool calls and replies are no part of an attempt."""


class RunReading:
    """One run. ``feed`` each event, then ``finish``; both yield records."""

    def __init__(self, run: RunIdentity, side_file: SideFile | None) -> None:
        self.tally = HazardTally()
        self._run = run
        self._side_file = side_file
        self._tips = TipLedger(side_file)
        self._numbers = AttemptNumbers()
        self._deferred: dict[str, int] = {}
        self._logger_cuts = True
        self._draft: AttemptDraft | None = None
        self._rule = {"rule_id": "", "title": "", "category": ""}
        self._attempts_of_rule = 0
        self._line = run.first_line
        self._at = self._latest = run.started_at
        self._clock: datetime | None = None
        self._start_seen = self._complete = False
        self._model = self._environment_tag = ""
        self._out: list[Record] = []
        for hazard in run.hazards:
            self.tally.add(hazard, run.first_line)

    def header(self) -> RunHeader:
        """Identity of the run; fields of its start event that have no place of their own are kept."""
        fields = Fields(self._run.start_data, self._note)
        fields.key("run_id")
        fields.text("start_time")
        header: dict[str, Any] = {
            "skill": self._run.skill,
            "external_id": self._run.external_id,
            "started_at": self._run.started_at,
            "source": fields.word("source"),
            "model": fields.word("model"),
            "environment_tag": fields.word("environment_tag"),
            "high_stakes": fields.flag("high_stakes") or False,
        }
        return validate(RunHeader, fields.rest(RunHeader) | header)

    def problem(self, hazard: Hazard, line: int) -> None:
        """Count a line that is no event. It may have belonged to the open attempt."""
        self._line = line
        self._mark(hazard)

    def feed(self, event: Event) -> Iterator[Record]:
        """Read one event; yield the records that it completes."""
        self._line = event.line
        for hazard in event.notes:
            self._note(hazard)
        self._keep_time(event)
        handler = self._HANDLERS.get(event.kind)
        if handler is not None:
            handler(self, event, Fields(event.data, self._note))
        elif event.kind not in IGNORED_EVENTS and not event.kind.startswith("family_"):
            self._note(Hazard.UNKNOWN_EVENT)
        return self._drain()

    def finish(self) -> Iterator[Record]:
        """Close what is open; yield the last records, the footer at the end."""
        self._close()
        for _ in self._deferred:
            self._note(Hazard.DEFERRED_UNRESOLVED)
        if not self._complete:
            self._note(Hazard.RUN_DIED)
        footer: dict[str, Any] = {
            "ended_at": self._latest if self._complete else None,
            "model": self._model,
            "environment_tag": self._environment_tag,
            "hazards": self.tally.counts(),
        }
        if self._run.sender_run_id:
            footer["sender_run_id"] = self._run.sender_run_id
        self._out.append(validate(RunFooter, footer))
        return self._drain()

    # Bookkeeping

    def _drain(self) -> Iterator[Record]:
        ready, self._out = self._out, []
        return iter(ready)

    def _note(self, hazard: Hazard) -> None:
        self.tally.add(hazard, self._line)

    def _mark(self, hazard: Hazard) -> None:
        """Count a hazard of the open attempt."""
        self._note(hazard)
        if self._draft is not None:
            self._draft.hazards.add(hazard)

    def _keep_time(self, event: Event) -> None:
        if event.at is None:
            self._note(Hazard.BAD_TIMESTAMP)
            event.at = self._at
        elif self._clock is not None and event.at < self._clock:
            self._note(Hazard.CLOCK_WENT_BACK)
        self._at = self._clock = event.at
        if self._latest is None or (event.at is not None and event.at > self._latest):
            self._latest = event.at

    # Attempts

    def _open(self, event: Event, fields: Fields, rule_id: str, number: int | None) -> None:
        self._close()
        current = self._rule if rule_id == self._rule["rule_id"] else {"title": "", "category": ""}
        own, repeated = self._numbers.take(rule_id, number)
        self._attempts_of_rule += rule_id == self._rule["rule_id"]
        self._draft = AttemptDraft(
            rule_id=rule_id,
            number=own,
            sender_number=number,
            category=fields.word("category") or current["category"],
            title=current["title"],
            started_at=event.at,
            line=event.line,
        )
        if repeated:
            self._mark(Hazard.ATTEMPT_NUMBER_REPEATED)

    def _attempt(self, event: Event, fields: Fields, *, after: bool = False) -> AttemptDraft | None:
        """The attempt that an event belongs to, opened here when its start event is missing.

        An event with rule and number says so itself. One without belongs to the open attempt unless
        that is over already: *after* is True for events that may follow an evaluation.
        """
        rule_id, number = fields.key("rule_id"), fields.count("attempt")
        draft = self._draft
        if (
            draft is None
            or not draft.matches(rule_id, number)
            or (not (rule_id and number) and (draft.verdict if after else draft.judged))
        ):
            if not (rule_id := rule_id or self._rule["rule_id"]):
                self._note(Hazard.ORPHAN_EVENT)
                return None
            self._open(event, fields, rule_id, number)
            self._mark(Hazard.ATTEMPT_START_MISSING)
        if event.repaired and self._draft is not None:
            self._draft.repaired = True
            self._draft.hazards.add(Hazard.BAD_UTF8)
        return self._draft

    def _close(self) -> None:
        draft = self._draft
        if draft is None:
            return
        resumed, self._line = self._line, draft.line
        found = []
        if draft.prompt is not None:
            for tip in draft.prompt.tips():
                if (entry := self._tips.from_side_file(tip, self._note)) is not None:
                    self._out.append(entry)
            found = retrievals(draft.prompt, self._tips, self._mark)
        self._out.append(draft.entry(found, self._side_script(draft), self._mark))
        self._draft, self._line = None, resumed

    def _side_script(self, draft: AttemptDraft) -> str | None:
        number = draft.sender_number or draft.number
        if self._side_file is None or not self._side_file.has_script(draft.rule_id, number):
            return None
        script = self._side_file.script(draft.rule_id, number, draft.script)
        if script is None:
            self._mark(Hazard.SIDE_FILE_DIFFERS)
        return script

    # Handlers, in the order in which their events usually come

    def _on_run_start(self, _event: Event, _fields: Fields) -> None:
        if self._start_seen:
            self._note(Hazard.RUN_START_REPEATED)
        self._start_seen = True

    def _on_skill_manifest(self, _event: Event, fields: Fields) -> None:
        if (skill := fields.key("skill_name")) and skill != self._run.skill:
            self._note(Hazard.SKILL_DISAGREES)

    def _on_rule_selected(self, _event: Event, fields: Fields) -> None:
        self._close()
        rule_id = fields.key("rule_id")
        self._rule = {
            "rule_id": rule_id,
            "title": fields.text("title"),
            "category": fields.word("category"),
        }
        self._attempts_of_rule = 0
        if not rule_id:
            self._note(Hazard.ORPHAN_EVENT)
        elif self._numbers.reselect(rule_id):
            self._note(Hazard.RULE_RESELECTED)

    def _on_attempt_start(self, event: Event, fields: Fields) -> None:
        rule_id = fields.key("rule_id") or self._rule["rule_id"]
        number, draft = fields.count("attempt"), self._draft
        if not rule_id:
            self._note(Hazard.ORPHAN_EVENT)
        elif draft is not None and draft.untouched and number and draft.matches(rule_id, number):
            self._mark(Hazard.ATTEMPT_START_REPEATED)
        else:
            self._open(event, fields, rule_id, number)

    def _on_prompt_assembled(self, event: Event, fields: Fields) -> None:
        if fields.word("phase") != "apply_fix":
            return
        if (draft := self._attempt(event, fields)) is not None:
            if draft.prompt is not None:
                self._mark(Hazard.PROMPT_REPEATED)
            draft.prompt = PromptEvent.of(Fields(event.data, self._mark), event.at, self._mark)

    def _on_tool_call(self, event: Event, fields: Fields) -> None:
        if event.agent in PLANNERS:
            return
        if fields.flag("capped"):
            self._on_tool_call_capped(event, fields)
            return
        if (draft := self._attempt(event, fields)) is None:
            return
        self._logger_cuts = self._logger_cuts and not shows_more(fields)
        script = script_of(fields, note=self._mark, cuts=self._logger_cuts)
        draft.calls += 1
        draft.scripted, draft.result_seen = script is not None, False
        if script is not None:
            if draft.script is not None:
                self._mark(Hazard.CALL_REPEATED)
            draft.script, draft.apply_failed = script, False

    def _on_tool_result(self, event: Event, _fields: Fields) -> None:
        draft = self._draft
        if event.agent in PLANNERS:
            return
        if draft is None or not draft.calls or draft.result_seen:
            self._mark(Hazard.RESULT_WITHOUT_CALL)
            return
        draft.result_seen = True
        if draft.scripted:
            draft.apply_failed = apply_failed(event.data.get("result"))

    def _on_tool_call_capped(self, _event: Event, _fields: Fields) -> None:
        self._mark(Hazard.CALL_CAPPED)

    def _on_agent_response(self, event: Event, fields: Fields) -> None:
        if event.agent in PLANNERS:
            return
        if model := fields.word("model"):
            if self._model not in ("", model):
                self._note(Hazard.MODEL_CHANGED)
            self._model = model
        if self._draft is not None and not self._draft.judged:
            self._draft.narrative = fields.text("text") or self._draft.narrative

    def _on_error(self, event: Event, fields: Fields) -> None:
        if event.agent not in PLANNERS and self._draft is not None and not self._draft.judged:
            self._draft.agent_error = fields.text("error")

    def _on_tool_error(self, event: Event, fields: Fields) -> None:
        if fields.word("phase") != "evaluate":
            self._note(Hazard.CHECKPOINT_ERROR)
        elif (draft := self._attempt(event, fields)) is not None:
            draft.evaluator_error = fields.text("error") or "the evaluator failed, no error logged"

    def _on_evaluation(self, event: Event, fields: Fields) -> None:
        if (draft := self._attempt(event, fields, after=True)) is not None:
            if draft.evaluation is not None:
                self._mark(Hazard.EVALUATION_REPEATED)
            draft.evaluation, draft.evaluated_at = event.data, event.at

    def _on_verdict(self, event: Event, fields: Fields) -> None:
        draft = self._draft
        if draft is None:
            self._note(Hazard.ORPHAN_EVENT)
        elif not draft.matches(fields.key("rule_id"), fields.count("attempt")):
            self._mark(Hazard.VERDICT_MISMATCH)
        elif event.kind == "post_mortem":
            draft.post_mortem = event.data
        elif draft.verdict not in ("", event.kind):
            self._mark(Hazard.OUTCOME_CONTRADICTED)
        else:
            draft.verdict = event.kind
            if event.kind == "deferred_verification":
                draft.deferred = True
                self._deferred[draft.rule_id] = draft.number

    def _on_late_verdict(self, event: Event, fields: Fields) -> None:
        rule_id, passed = fields.key("rule_id"), fields.flag("passed")
        if rule_id not in self._deferred:
            self._note(Hazard.CORRECTION_WITHOUT_ATTEMPT)
            return
        if passed is None:
            return  # a verdict that says nothing leaves the attempt unresolved
        if self._draft is not None and self._draft.rule_id == rule_id:
            self._close()
        correction: dict[str, Any] = {
            "rule_id": rule_id,
            "number": self._deferred.pop(rule_id),
            "evaluator_raw": event.data,
        } | verdict_fields(event.data, self._note)
        reason = fields.text("outcome_reason")
        if not passed and not correction["failure_mode"] and _TOKEN.fullmatch(reason):
            correction["failure_mode"] = reason
        self._out.append(validate(OutcomeCorrection, correction))

    def _on_tip_added(self, event: Event, _fields: Fields) -> None:
        if (entry := self._tips.added(event.data, self._note)) is not None:
            self._out.append(entry)

    def _on_rule_complete(self, _event: Event, fields: Fields) -> None:
        self._close()
        said = fields.data.get("attempts")
        if fields.key("rule_id") == self._rule["rule_id"] and isinstance(said, int):
            # An escalation by the architect reports one attempt too few: the loop counts at its end.
            early = fields.data.get("escalation_reason") == "architect_preemptive"
            if self._attempts_of_rule not in {said, said + early}:
                self._note(Hazard.ATTEMPT_COUNT_DIFFERS)
        self._rule = {"rule_id": "", "title": "", "category": ""}

    def _on_consolidation(self, _event: Event, fields: Fields) -> None:
        dream = Fields(fields.inner("dream"), self._note)
        self._environment_tag = dream.word("environment_tag") or self._environment_tag

    def _on_run_complete(self, _event: Event, _fields: Fields) -> None:
        self._close()
        self._complete = True

    _HANDLERS: ClassVar[dict[str, Callable[[RunReading, Event, Fields], None]]] = {
        "run_start": _on_run_start,
        "skill_manifest": _on_skill_manifest,
        "rule_selected": _on_rule_selected,
        "attempt_start": _on_attempt_start,
        "prompt_assembled": _on_prompt_assembled,
        "tool_call": _on_tool_call,
        "tool_result": _on_tool_result,
        "tool_call_capped": _on_tool_call_capped,
        "agent_response": _on_agent_response,
        "error": _on_error,
        "tool_error": _on_tool_error,
        "evaluation": _on_evaluation,
        "remediated": _on_verdict,
        "revert": _on_verdict,
        "deferred_verification": _on_verdict,
        "post_mortem": _on_verdict,
        "post_deferred_evaluation": _on_late_verdict,
        "tip_added": _on_tip_added,
        "rule_complete": _on_rule_complete,
        "consolidation_complete": _on_consolidation,
        "run_complete": _on_run_complete,
    }


IGNORED_EVENTS = frozenset(
    {
        "snapshot_preflight", "scan_complete", "graph_state", "cross_run_hydration", "tip_retired",
        "clutch_initialized", "iteration_start", "rules_deferred", "rule_deferred", "skip",
        "scanner_gap_detected", "environment_unrecoverable", "ban_added", "reflection",
        "architect_reengaged", "escalated", "deferred_resolve_start", "deferred_resolve_complete",
        "deferred_resolve_plan",
    }
)  # fmt: skip
"""Events of the contract that say nothing about an attempt, a tip's text or a verdict."""
