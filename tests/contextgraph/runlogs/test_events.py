"""What the event log's fields become: identity, attempts, outcomes, late verdicts.

Guarantees: each rule of the mapping is held by one small log.
Does not guarantee: anything about damaged files; see test_hazards and test_mutations.
Shaped by: the log contract of a Ralph loop, whose evaluations name neither rule nor attempt.
"""

from __future__ import annotations

import gzip
import io
from datetime import UTC, datetime

import pytest

from contextgraph.envelope import RunFooter, RunHeader
from contextgraph.runlogs import RunLogError, open_run_log
from tests.contextgraph.runlogs.log_builder import (
    LONG_TIP,
    RULE,
    SCRIPT,
    TIP,
    Log,
    Read,
    one_attempt,
)


def begun() -> Log:
    return Log().start().rule()


def test_a_run_becomes_header_records_footer() -> None:
    records = Read(one_attempt()).records
    header, footer = records[0], records[-1]
    assert isinstance(header, RunHeader)
    assert (header.skill, header.external_id) == ("hardening", "20270301-080000")
    assert header.started_at == datetime(2027, 3, 1, 8, 0, 0, 500000, tzinfo=UTC)
    assert isinstance(footer, RunFooter)
    assert footer.ended_at is not None
    assert footer.ended_at > header.started_at
    assert footer.environment_tag == "baseline-7"
    assert footer.extra == {"sender_run_id": "c0ffee00-123"}


def test_unknown_fields_of_the_start_event_are_kept() -> None:
    log = Log().event("run_start", run_id=20270301, harness="loop-2", start_time="x")
    header = Read(log.event("skill_manifest", skill_name="hardening").rule().end()).records[0]
    assert isinstance(header, RunHeader)
    assert header.external_id == "20270301"
    assert header.extra == {"harness": "loop-2"}


def test_a_skill_named_after_the_first_attempt_still_counts() -> None:
    log = Log().start(skill=None).rule().whole_attempt()
    log.event("skill_manifest", skill_name="late").end()
    header = Read(log).records[0]
    assert isinstance(header, RunHeader)
    assert header.skill == "late"


def test_a_run_without_start_id_takes_the_id_of_its_consolidation() -> None:
    read = Read(Log().start(run_id=None).rule().whole_attempt().end())
    assert isinstance(read.records[0], RunHeader)
    assert read.records[0].external_id == "c0ffee00-123"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (Log().start(run_id=None).rule().whole_attempt(), "no id"),
        (Log().start(skill=None).rule().whole_attempt(), "no skill"),
        (Log().raw(b'{"event_type": "run_start", "data": {"run_id": "a"}}\n'), "no skill"),
    ],
)
def test_a_run_without_identity_is_refused_before_any_record(log: Log, cause: str) -> None:
    records = open_run_log(io.BytesIO(log.data())).records()
    with pytest.raises(RunLogError, match=f"line 1: .*{cause}"):
        next(records)


def test_a_run_without_any_timestamp_is_refused() -> None:
    log = b'{"event_type": "run_start", "data": {"run_id": "a"}}\n'
    with pytest.raises(RunLogError, match="timestamp"):
        Read(log, skill="hardening")


def test_an_identity_that_cannot_be_stored_is_refused_with_its_line() -> None:
    with pytest.raises(RunLogError, match="line 1: skill"):
        Read(Log().start(skill=None).rule().whole_attempt(), skill="s" * 501)


def test_two_runs_in_one_file_stay_apart() -> None:
    log = one_attempt(tips=[7]).start("20270302-080000").tip(7).rule().whole_attempt(tips=[7]).end()
    read = Read(log)
    kinds = [type(record).__name__ for record in read.records]
    first = ["RunHeader", "AttemptEntry", "RunFooter"]
    assert kinds == [*first, "RunHeader", "TipEntry", "AttemptEntry", "RunFooter"]
    assert [footer.hazards for footer in read.footers] == [{"tip_text_unknown": 1}, {}]
    assert [attempt.number for attempt in read.attempts] == [1, 1]


def test_the_tail_of_a_lost_run_is_not_merged_into_the_next_one() -> None:
    tail = Log().rule().whole_attempt().end()
    read = Read(tail.data() + one_attempt().data(), skill="hardening")
    assert [r.external_id for r in read.records if isinstance(r, RunHeader)] == [
        "c0ffee00-123",
        "20270301-080000",
    ]


def test_an_attempt_carries_all_that_its_events_say() -> None:
    log = begun().attempt().prompt().call().result()
    log.event("agent_response", agent="worker", text="I wrote a banner.", model="/models/a/b")
    attempt = Read(log.evaluate(False, 0.0, failure_mode="evaluator_gap").verdict("revert").end())
    entry = attempt.attempt
    assert (entry.rule_id, entry.number, entry.sender_number) == (RULE, 1, None)
    assert (entry.category, entry.title) == ("access", "Banner")
    assert entry.script == SCRIPT
    assert entry.narrative == "I wrote a banner."
    assert entry.passed is False
    assert entry.failure_mode == "evaluator_gap"
    assert (entry.grade_value, entry.grade_confidence) == (0.0, 1.0)
    assert entry.evaluator_raw is not None
    assert entry.evaluator_raw["summary"] == "health=True"
    assert entry.started_at is not None
    assert entry.ended_at is not None
    assert attempt.footers[0].model == "/models/a/b"


def test_a_passed_attempt_has_no_failure_mode() -> None:
    entry = Read(one_attempt()).attempt
    assert entry.passed is True
    assert entry.failure_mode == ""


def test_planners_run_no_scripts() -> None:
    log = begun().attempt().prompt().call().result()
    log.event("tool_call", agent="architect", tool="scan", args={"fix_script": "rm -rf /"})
    log.event("tool_result", agent="architect", tool="scan", result="{'result': 'APPLY_FAILED'}")
    entry = Read(log.evaluate().verdict().end()).attempt
    assert entry.script == SCRIPT
    assert entry.apply_failed is False


def test_the_last_script_of_an_attempt_counts() -> None:
    log = begun().attempt().prompt().call("true").result().call("false").result()
    assert Read(log.evaluate().verdict().end()).attempt.script == "false"


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("{'result': 'APPLY_FAILED: exit 1\\nAPPLIED: x'}", True),
        ("{'result': 'APPLIED: x\\nOutput: the log says APPLY_FAILED'}", False),
        ("{'result': 'NOT_APPLY_FAILED_AT_ALL'}", False),
        ("", False),
    ],
)
def test_the_status_word_of_a_result_decides_whether_the_script_failed(
    text: str, failed: bool
) -> None:
    log = begun().attempt().prompt().call().result(text).evaluate().verdict().end()
    assert Read(log).attempt.apply_failed is failed


def test_an_evaluator_that_raised_gives_no_outcome() -> None:
    log = begun().attempt().prompt().call().result()
    log.event("tool_error", phase="evaluate", error="ssh: no route", rule_id=RULE, attempt=1)
    entry = Read(log.evaluate(False, -0.2, failure_mode="health_failure").end()).attempt
    assert entry.evaluator_error == "ssh: no route"
    assert entry.passed is None
    assert entry.grade_value is None
    assert entry.failure_mode == ""
    assert entry.evaluator_raw is not None
    assert entry.evaluator_raw["failure_mode"] == "health_failure"
    assert "evaluator_exception" in entry.hazards


def test_a_post_mortem_that_contradicts_the_health_verdict_is_kept_beside_it() -> None:
    log = begun().attempt().prompt().call().result().evaluate(False, 0.0, health_ok=True)
    log.event("post_mortem", rule_id=RULE, attempt=1, mission_healthy=False)
    entry = Read(log.verdict("revert").end()).attempt
    assert entry.hazards == ("health_misread",)
    assert entry.evaluator_raw is not None
    assert entry.evaluator_raw["health_ok"] is True
    assert entry.evaluator_raw["post_mortem"]["mission_healthy"] is False


def test_a_verdict_for_another_attempt_changes_nothing() -> None:
    log = begun().attempt().prompt().call().result().evaluate(False, 0.0)
    entry = Read(log.verdict("deferred_verification", number=9).end()).attempt
    assert entry.deferred is False
    assert entry.hazards == ("verdict_mismatch",)


def test_an_evaluation_that_names_another_attempt_is_not_given_to_the_open_one() -> None:
    log = begun().attempt(1).prompt(1).call().result()
    first, second = Read(log.evaluate(rule_id=RULE, attempt=2).end()).attempts
    assert first.passed is None
    assert "attempt_not_evaluated" in first.hazards
    assert (second.number, second.passed) == (2, True)
    assert "attempt_start_missing" in second.hazards


def test_a_deferred_verdict_arrives_as_a_correction_of_the_last_deferred_attempt() -> None:
    log = begun().whole_attempt(1, passed=False).attempt(2).prompt(2).call().result()
    log.evaluate(False, 0.5, failure_mode="needs_reboot").verdict("deferred_verification", 2)
    log.event("post_deferred_evaluation", rule_id=RULE, passed=True, outcome_reason="verified")
    read = Read(log.end())
    deferred = read.attempts[1]
    assert (deferred.deferred, deferred.passed, deferred.grade_value) == (True, None, None)
    assert deferred.failure_mode == "needs_reboot"
    (correction,) = read.corrections
    assert (correction.rule_id, correction.number, correction.passed) == (RULE, 2, True)
    assert correction.failure_mode == ""
    assert read.records.index(correction) > read.records.index(deferred)
    assert read.hazards == {}


def test_a_late_failure_keeps_its_reason() -> None:
    log = begun().attempt().prompt().call().result().evaluate(False, 0.0)
    log.verdict("deferred_verification")
    log.event(
        "post_deferred_evaluation", rule_id=RULE, passed=False, outcome_reason="health_failure"
    )
    (correction,) = Read(log.end()).corrections
    assert (correction.passed, correction.failure_mode) == (False, "health_failure")


@pytest.mark.parametrize(("passed", "also"), [(None, {}), ("yes", {"bad_field": 1})])
def test_a_late_verdict_that_says_nothing_resolves_nothing(
    passed: object, also: dict[str, int]
) -> None:
    log = begun().attempt().prompt().call().result().evaluate(False, 0.0)
    log.verdict("deferred_verification")
    read = Read(log.event("post_deferred_evaluation", rule_id=RULE, passed=passed).end())
    assert read.corrections == []
    assert read.hazards == {"deferred_unresolved": 1} | also


def test_a_rule_taken_up_again_counts_on() -> None:
    log = begun().whole_attempt(1, passed=False).whole_attempt(2, passed=False)
    log.rule("other").whole_attempt(1, rule_id="other").rule().whole_attempt(1)
    read = Read(log.end())
    assert [(a.rule_id, a.number, a.sender_number) for a in read.attempts] == [
        (RULE, 1, None),
        (RULE, 2, None),
        ("other", 1, None),
        (RULE, 3, 1),
    ]


@pytest.mark.parametrize("number", [0, -3, 10**30, "two", 1.5, True])
def test_an_unusable_attempt_number_costs_a_hazard_not_the_attempt(number: object) -> None:
    log = begun().event("attempt_start", rule_id=RULE, attempt=number)
    log.event("prompt_assembled", phase="apply_fix", agent="worker", v2_tips_loaded=[])
    entry = Read(log.call().result().evaluate().end()).attempt
    assert (entry.number, entry.sender_number) == (1, None)


def test_an_attempt_without_start_event_is_opened_by_its_script() -> None:
    read = Read(begun().call().result().evaluate().verdict().call("false").result().end())
    assert [attempt.script for attempt in read.attempts] == [SCRIPT, "false"]
    assert read.hazards["attempt_start_missing"] == 2


def test_a_bad_line_inside_an_attempt_is_a_hazard_of_the_attempt() -> None:
    log = begun().attempt().prompt().raw(b'{"event_type": "tool_ca\n')
    entry = Read(log.evaluate().verdict().end()).attempt
    assert set(entry.hazards) == {"bad_line", "attempt_without_script"}


def test_an_architects_escalation_that_counts_one_too_few_is_no_hazard() -> None:
    log = begun().whole_attempt(1, passed=False).whole_attempt(2, passed=False)
    log.event("rule_complete", rule_id=RULE, attempts=1, escalation_reason="architect_preemptive")
    assert Read(log.end()).hazards == {}


def test_a_tip_keeps_every_field_of_its_event() -> None:
    log = Log().start()
    log.tip(
        7,
        mechanism="issue is shown before login",
        rule_id=RULE,
        source_run_id="c0ffee",
        outcome_at_source_value=0.8,
        outcome_at_source_confidence=7,
        trigger_conditions=["tty"],
        text_repaired=True,
    )
    (tip,) = Read(log.end()).tips
    assert (tip.tip, tip.text, tip.source_rule_id) == ("7", TIP, RULE)
    assert tip.outcome_at_source_value == 0.8
    assert tip.outcome_at_source_confidence is None
    assert tip.extra == {"trigger_conditions": ["tty"]}
    assert tip.text_repaired is False


def test_text_that_postgres_cannot_hold_is_repaired_and_flagged() -> None:
    log = begun().attempt().prompt().call("printf '\x00\ud800'").result().evaluate().verdict()
    entry = Read(log.tip("a\x00", "b").end()).attempt
    assert entry.script == "printf '��'"
    assert entry.text_repaired is True


def test_bytes_that_are_not_utf8_flag_the_attempt_they_stand_in() -> None:
    log = begun().attempt().prompt().call("echo X").result().evaluate().verdict().end()
    entry = Read(log.data().replace(b"echo X", b"echo \xff")).attempt
    assert entry.script == "echo \N{REPLACEMENT CHARACTER}"
    assert entry.text_repaired is True
    assert entry.hazards == ("bad_utf8",)


def test_numbers_that_json_does_not_have_become_text() -> None:
    log = begun().attempt().prompt().call().result().evaluate(f1=float("nan"), recall=1e308 * 10)
    entry = Read(log.verdict().end()).attempt
    assert entry.evaluator_raw is not None
    assert entry.evaluator_raw["f1"] == "NaN"
    assert entry.evaluator_raw["recall"] == "Infinity"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: data.replace(b"\n", b"\r\n"), id="crlf"),
        pytest.param(lambda data: b"\xef\xbb\xbf" + data, id="byte-order mark"),
        pytest.param(gzip.compress, id="gzip"),
        pytest.param(lambda data: data.replace(b"\n", b"\n\n"), id="blank lines"),
        pytest.param(lambda data: data.rstrip(b"\n"), id="no last line end"),
    ],
)
def test_the_wrapping_of_the_file_does_not_matter(change: object) -> None:
    plain = one_attempt(tips=[]).data()
    assert callable(change)
    assert Read(change(plain)).records == Read(plain).records


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        ("{}".encode("utf-16"), "UTF-16"),
        (b"hello\n", "neither"),
        (gzip.compress(b"hello" * 9, mtime=0)[:12], "unreadable"),
        (gzip.compress(b"", mtime=0), "empty"),
    ],
)
def test_a_file_that_is_no_run_log_is_refused(content: bytes, cause: str) -> None:
    with pytest.raises(RunLogError, match=cause):
        Read(content)


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RunLogError, match="envelope, events"):
        Read(one_attempt(), format="syslog")


def test_a_first_line_that_is_cut_does_not_hide_the_log() -> None:
    data = b'{"timestamp": "2027-03-01T0\n' + one_attempt().data()
    assert Read(data).hazards == {"bad_line": 1}


def test_deep_nesting_is_a_bad_line_and_not_a_stack_overflow() -> None:
    deep = b'{"event_type": "skip", "data": {"x": ' + b"[" * 90_000 + b"]" * 90_000 + b"}}\n"
    mild = b'{"event_type": "skip", "data": {"x": ' + b"[" * 100 + b"]" * 100 + b"}}\n"
    assert Read(one_attempt().data() + deep + mild).hazards == {"bad_line": 2}


def test_a_log_that_shows_longer_scripts_does_not_cut_at_200() -> None:
    log = Log().start().rule()
    log.whole_attempt(1, script="#" * 200, passed=False)
    log.whole_attempt(2, script="#" * 201, passed=False)
    log.whole_attempt(3, script="#" * 200)
    read = Read(log.end())
    assert [attempt.script_truncated for attempt in read.attempts] == [True, False, False]


def test_a_log_that_showed_a_long_tip_whole_shows_all_tips_whole() -> None:
    shown = {"tip_id": 8, "rank": 1, "text": LONG_TIP}
    log = Log().start().tip(8, LONG_TIP).tip(9, LONG_TIP + "!").rule()
    log.whole_attempt(1, tips=[9], passed=False)
    log.whole_attempt(2, tips=[shown], passed=False)
    log.whole_attempt(3, tips=[8, 9])
    read = Read(log.end())
    seen = [
        (entry.tip, entry.shown_text, entry.shown_cut)
        for attempt in read.attempts
        for entry in attempt.retrievals
    ]
    assert seen == [
        ("9", LONG_TIP[:150], True),
        ("8", LONG_TIP, False),
        ("8", None, False),
        ("9", None, False),
    ]
