"""Each hazard has a log that shows it, and nothing else is reported for that log.

Guarantees: the table covers every member of ``Hazard``; a clean log has none.
Does not guarantee: combinations; see test_mutations.
Shaped by: hazards that were counted under two names, or not at all.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest

from contextgraph.runlogs import Hazard
from contextgraph.runlogs.lines import MAX_LINE
from tests.contextgraph.runlogs.log_builder import (
    LONG_TIP,
    RULE,
    SCRIPT,
    TIP,
    Log,
    Read,
    one_attempt,
)

if TYPE_CHECKING:
    from collections.abc import Callable

H = Hazard


def begun() -> Log:
    return Log().start().rule()


def prompted(*tips: Any, **data: Any) -> Log:
    """A clean log whose only attempt retrieves these tips; texts of 7 and 8 are known."""
    log = Log().start().tip(7).tip(8, LONG_TIP).rule().attempt()
    return log.prompt(1, tips, **data).call().result().evaluate().verdict().end()


def entry(tip: int | str = 7, **fields: Any) -> dict[str, Any]:
    return {"tip_id": tip, "rank": 1, "similarity_score": 1.25} | fields


def evaluated(**data: Any) -> Log:
    return begun().attempt().prompt().call().result().evaluate(**data).verdict("revert").end()


def called(script: str = SCRIPT, **args: Any) -> Log:
    return begun().attempt().prompt().call(script, **args).result().evaluate().verdict().end()


def corrected() -> Log:
    log = begun().attempt().prompt().call().result().evaluate(False, 0.0)
    return log.verdict("deferred_verification")


WIDE = b'{"event_type": "scan_complete", "data": {"x": "' + b"y" * MAX_LINE + b'"}}\n'
NAIVE = b'{"timestamp": "2027-03-01T09:00:00", "event_type": "skip", "agent": "architect", "data": {}}\n'
TIMELESS = b'{"timestamp": "soon", "event_type": "skip", "agent": "architect", "data": {}}\n'
EARLY = b'{"timestamp": "2027-03-01T08:00:00Z", "event_type": "skip", "agent": "architect"}\n'
NOT_UTF8 = b'{"timestamp": "2027-03-01T09:00:00Z", "event_type": "skip", "agent": "\xff"}\n'


def with_line(line: bytes) -> Log:
    """A clean log with one more line before the run's closing events."""
    log = one_attempt()
    log.lines.insert(-2, line)
    return log


def cut() -> Log:
    log = one_attempt()
    log.lines[-1] = log.lines[-1][:40]
    return log


def late_start() -> Log:
    log = Log().tip(7).start().rule().whole_attempt().end()
    assert b"tip_added" in log.lines[0]
    return log


Case = tuple["Callable[[], Log]", dict[str, int], dict[str, Any]]

CASES: dict[Hazard, Case] = {
    H.LAST_LINE_CUT: (cut, {"run_died": 1}, {}),
    H.BAD_LINE: (lambda: with_line(b"{nonsense}\n"), {}, {}),
    H.LINE_TOO_LONG: (lambda: with_line(WIDE), {}, {}),
    H.BAD_UTF8: (lambda: with_line(NOT_UTF8), {"clock_went_back": 1}, {}),
    H.NUL_BYTES: (lambda: with_line(b"\x00" * 512 + b"\n"), {}, {}),
    H.UNKNOWN_EVENT: (lambda: one_attempt().event("weather_report"), {}, {}),
    H.BAD_FIELD: (lambda: prompted(entry(rank="first")), {}, {}),
    H.ORPHAN_EVENT: (lambda: Log().start().verdict().rule().whole_attempt().end(), {}, {}),
    H.BAD_TIMESTAMP: (lambda: with_line(TIMELESS), {}, {}),
    H.TIMESTAMP_WITHOUT_OFFSET: (lambda: with_line(NAIVE), {"clock_went_back": 1}, {}),
    H.CLOCK_WENT_BACK: (lambda: with_line(EARLY), {}, {}),
    H.RUN_DIED: (lambda: begun().whole_attempt(), {}, {}),
    H.RUN_START_LATE: (late_start, {}, {}),
    H.RUN_START_REPEATED: (lambda: Log().start().start().rule().whole_attempt().end(), {}, {}),
    H.RUN_ID_MISSING: (
        lambda: Log().start(run_id=None).rule().whole_attempt().end(), {}, {"name": "night"},
    ),
    H.RUN_ID_REPEATED: (
        lambda: one_attempt().start().rule().whole_attempt().end(), {}, {},
    ),
    H.SKILL_NOT_LOGGED: (
        lambda: Log().start(skill=None).rule().whole_attempt().end(), {}, {"skill": "hardening"},
    ),
    H.SKILL_DISAGREES: (one_attempt, {}, {"skill": "patching"}),
    H.MODEL_CHANGED: (
        lambda: begun().attempt().prompt().call().result()
        .event("agent_response", agent="worker", text="done", model="/models/a")
        .event("agent_response", agent="worker", text="done", model="/models/b")
        .evaluate().verdict().end(),
        {}, {},
    ),
    H.TIP_TEXT_CHANGED: (lambda: one_attempt().tip(7, "first").tip(7, "second"), {}, {}),
    H.TIP_WITHOUT_TEXT: (lambda: one_attempt().tip(7, ""), {}, {}),
    H.TIP_REPEATED: (lambda: prompted(7, 7), {}, {}),
    H.TIP_TEXT_UNKNOWN: (lambda: prompted(99), {}, {}),
    H.TIP_SHOWN_CUT: (lambda: prompted(8), {}, {}),
    H.SHOWN_TEXT_DIFFERS: (lambda: prompted(entry(text="Never touch /etc/issue at all.")), {}, {}),
    H.TIPS_DROPPED: (lambda: prompted(7, sections_dropped=["similar_rule_tips"]), {}, {}),
    H.TIPS_SECTION_TRUNCATED: (
        lambda: prompted(7, sections_truncated=["similar_rule_tips"]), {}, {},
    ),
    H.WITHHELD_BUT_SHOWN: (lambda: prompted(entry(withheld=True, shown=True)), {}, {}),
    H.RETRIEVALS_NOT_LOGGED: (lambda: prompted(v2_tips_loaded=None), {}, {}),
    H.PROMPT_NOT_LOGGED: (
        lambda: begun().attempt().call().result().evaluate().verdict().end(), {}, {},
    ),
    H.PROMPT_REPEATED: (
        lambda: begun().attempt().prompt().prompt().call().result().evaluate().verdict().end(),
        {}, {},
    ),
    H.ATTEMPT_START_MISSING: (
        lambda: begun().prompt().call().result().evaluate().verdict().end(), {}, {},
    ),
    H.ATTEMPT_START_REPEATED: (
        lambda: begun().attempt().whole_attempt().end(), {}, {},
    ),
    H.ATTEMPT_NUMBER_REPEATED: (
        lambda: begun().whole_attempt(passed=False).whole_attempt().end(), {}, {},
    ),
    H.RULE_RESELECTED: (
        lambda: begun().whole_attempt(passed=False).rule().whole_attempt().end(), {}, {},
    ),
    H.ATTEMPT_COUNT_DIFFERS: (
        lambda: begun().whole_attempt().event("rule_complete", rule_id=RULE, attempts=3).end(),
        {}, {},
    ),
    H.ATTEMPT_NOT_EVALUATED: (lambda: begun().attempt().prompt().call().result().end(), {}, {}),
    H.EVALUATION_REPEATED: (
        lambda: begun().attempt().prompt().call().result().evaluate().evaluate().verdict().end(),
        {}, {},
    ),
    H.EVALUATOR_EXCEPTION: (
        lambda: evaluated(passed=False, value=-0.2, summary="Eval tool error: ssh timed out"),
        {}, {},
    ),
    H.OUTCOME_CONTRADICTED: (lambda: evaluated(passed=True), {}, {}),
    H.VERDICT_MISMATCH: (
        lambda: begun().attempt().prompt().call().result().evaluate().verdict(number=4).end(),
        {}, {},
    ),
    H.HEALTH_MISREAD: (
        lambda: evaluated(passed=False, health="UNHEALTHY: mail", health_ok=True), {}, {},
    ),
    H.RULE_MISREAD: (
        lambda: evaluated(passed=False, rule_check="accounts_password_age = fail", rule_ok=True),
        {}, {},
    ),
    H.GRADE_OUT_OF_RANGE: (lambda: evaluated(passed=False, value=3.5), {}, {}),
    H.DEFERRED_UNRESOLVED: (lambda: corrected().end(), {}, {}),
    H.CORRECTION_WITHOUT_ATTEMPT: (
        lambda: one_attempt().event("post_deferred_evaluation", rule_id=RULE, passed=True), {}, {},
    ),
    H.CHECKPOINT_ERROR: (
        lambda: one_attempt().event("tool_error", phase="checkpoint_restore", error="no space"),
        {}, {},
    ),
    H.ATTEMPT_WITHOUT_SCRIPT: (
        lambda: begun().attempt().prompt().evaluate().verdict().end(), {}, {},
    ),
    H.SCRIPT_CUT: (lambda: called("#" * 200), {}, {}),
    H.SCRIPT_DIGEST_DIFFERS: (lambda: called(fix_script_sha256="0" * 64), {"script_cut": 1}, {}),
    H.SIDE_FILE_DIFFERS: (
        one_attempt, {},
        {"side_file": b'{"rule_id": "login_banner_present", "attempt": 1, "script": "true"}\n'},
    ),
    H.CALL_WITHOUT_RESULT: (
        lambda: begun().attempt().prompt().call().evaluate().verdict().end(), {}, {},
    ),
    H.RESULT_WITHOUT_CALL: (
        lambda: begun().attempt().prompt().result().call().result().evaluate().verdict().end(),
        {}, {},
    ),
    H.CALL_CAPPED: (
        lambda: begun().attempt().prompt().call().result()
        .event("tool_call_capped", agent="worker", tool="apply_fix")
        .evaluate().verdict().end(),
        {}, {},
    ),
    H.CALL_REPEATED: (
        lambda: begun().attempt().prompt().call().result().call().result()
        .evaluate().verdict().end(),
        {}, {},
    ),
    H.UNKNOWN_TOOL: (
        lambda: begun().attempt().prompt().call().result().tool("read_file", path="/etc/issue")
        .result().evaluate().verdict().end(),
        {}, {},
    ),
}  # fmt: skip


def test_a_clean_log_has_no_hazards() -> None:
    assert Read(one_attempt(tips=[])).hazards == {}
    assert Read(prompted(7, entry(8, text=LONG_TIP))).hazards == {}
    assert Read(prompted(entry(text=TIP))).hazards == {}


def test_every_hazard_has_a_log_of_its_own() -> None:
    assert set(CASES) == set(Hazard)


@pytest.mark.parametrize("hazard", CASES)
def test_the_hazard_is_counted_once_and_alone(hazard: Hazard) -> None:
    build, also, options = CASES[hazard]
    read = Read(build(), **options)
    assert read.hazards == {str(hazard): 1} | also


@pytest.mark.parametrize("hazard", CASES)
def test_the_log_of_a_hazard_still_gives_its_attempts(hazard: Hazard) -> None:
    build, _, options = CASES[hazard]
    assert Read(build(), **options).attempts


def test_each_hazard_explains_itself() -> None:
    assert all(hazard.meaning and hazard.action for hazard in Hazard)
    assert len({hazard.meaning for hazard in Hazard}) == len(Hazard)


def test_the_tally_knows_the_first_line() -> None:
    log = with_line(b"{nonsense}\n")
    log.lines.append(b"[]\n")
    read = Read(log)
    assert read.hazards == {"bad_line": 2}
    assert read.reader.tally.first_line(Hazard.BAD_LINE) == log.lines.index(b"{nonsense}\n") + 1


def test_a_compressed_log_that_stops_early_is_read_up_to_there() -> None:
    rows = begun()
    for number in range(1, 200):
        rows.whole_attempt(number, passed=False, script=f"{SCRIPT} # {number * 7919}")
    read = Read(gzip.compress(rows.end().data())[:-2000])
    assert len(read.attempts) > 50
    assert read.hazards["last_line_cut"] == 1
    assert read.hazards["run_died"] == 1
