"""Grading: the documented ladders, errors that are no outcome, and verdicts read by whole tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgraph.skills import load_skill
from scoring.outcomes import Evaluation, grade

if TYPE_CHECKING:
    from collections.abc import Callable

PROMPTS = Path(__file__).parents[2] / "prompts"
SKILLS = ("stig", "cve", "default", "nobody-knows-this-skill")


def graded(skill: str = "stig", **fields: Any) -> float | None:
    """The value of one attempt under *skill*'s ladder."""
    values = {"number": 1, "passed": True} | fields
    return grade(Evaluation(**values), load_skill(PROMPTS, skill)).value


@pytest.mark.parametrize(
    ("skill", "number", "expected"),
    [
        ("stig", 1, 1.0),
        ("stig", 2, 0.8),
        ("stig", 3, 0.8),
        ("stig", 4, 0.5),
        ("stig", 40, 0.5),
        ("cve", 1, 1.0),
        ("cve", 7, 1.0),
        ("default", 7, 1.0),
        ("nobody-knows-this-skill", 7, 1.0),
    ],
)
def test_a_pass_is_worth_what_the_ladder_says(skill: str, number: int, expected: float) -> None:
    assert graded(skill, number=number) == expected


@pytest.mark.parametrize("skill", SKILLS)
@pytest.mark.parametrize("mode", ["", "evaluator_gap", "clean_failure"])
def test_a_plain_failure_is_worth_nothing(skill: str, mode: str) -> None:
    assert graded(skill, passed=False, failure_mode=mode) == 0.0


def test_a_health_failure_is_negative_under_stig_and_plain_elsewhere() -> None:
    values = [graded(skill, passed=False, failure_mode="health_failure") for skill in SKILLS]
    assert values == [-0.2, 0.0, 0.0, 0.0]


def test_the_failure_mode_of_a_pass_is_a_filler() -> None:
    assert graded(failure_mode="health_failure") == 1.0


@pytest.mark.parametrize("skill", SKILLS)
@pytest.mark.parametrize(
    "fields",
    [
        {"error": "ssh: connection refused", "passed": False, "failure_mode": "health_failure"},
        {"error": "scanner crashed", "passed": True},
        {"failure_mode": "evaluator_error", "passed": False},
        {"raw": {"summary": "eval tool error: timed out"}, "passed": False},
        {"passed": None},
    ],
)
def test_an_evaluator_error_is_no_outcome_with_a_reason(skill: str, fields: dict[str, Any]) -> None:
    outcome = grade(Evaluation(**{"number": 1} | fields), load_skill(PROMPTS, skill))
    assert (outcome.value, outcome.confidence) == (None, None)
    assert outcome.reason == "no_outcome"
    assert outcome.grader.endswith("@1")


@pytest.mark.parametrize("spelt", ["{}", " {} "])
@pytest.mark.parametrize("case", [str.upper, str.title])
def test_failure_modes_are_compared_without_regard_to_case(
    case: Callable[[str], str], spelt: str
) -> None:
    def value(mode: str, **fields: Any) -> float | None:
        return graded(passed=False, failure_mode=spelt.format(case(mode)), **fields)

    assert value("health_failure") == -0.2
    assert value("evaluator_error") is None
    assert value("needs_reboot") is None
    outcome = grade(
        Evaluation(
            number=1, passed=False, failure_mode=spelt.format(case("health_failure")),
            raw={"health": "UNHEALTHY: app"}, sender_confidence=0.5,
        ),
        load_skill(PROMPTS, "stig"),
    )  # fmt: skip
    assert outcome.confidence == 0.5, "raw output that says the same overruled the sender"


@pytest.mark.parametrize("skill", ["stig", "cve"])
def test_a_verdict_that_waits_for_a_reboot_is_no_outcome_yet(skill: str) -> None:
    assert graded(skill, passed=False, failure_mode="needs_reboot") is None
    assert graded(skill, passed=True, failure_mode="needs_reboot") == 1.0


UNHEALTHY = [
    "UNHEALTHY: app does not answer",
    "unhealthy",
    "  UNHEALTHY:\n - nginx",
    "DEGRADED",
    "Warning: permanently added host key\nUNHEALTHY: app",
]
HEALTHY = [
    "HEALTHY: 3 checks, 0 unhealthy",
    "HEALTHY",
    "HEALTHY: all\nunhealthy: 0\ndegraded: 0",
    "",
    "Healthy: degraded mode is off",
]


@pytest.mark.parametrize("health", UNHEALTHY)
@pytest.mark.parametrize("passed", [True, False])
def test_unhealthy_is_not_healthy(health: str, passed: bool) -> None:
    outcome = grade(
        Evaluation(number=1, passed=passed, raw={"health": health, "rule_check": "pass"}),
        load_skill(PROMPTS, "stig"),
    )
    assert (outcome.value, outcome.failure_mode) == (-0.2, "health_failure")


@pytest.mark.parametrize("health", HEALTHY)
def test_healthy_is_not_unhealthy(health: str) -> None:
    assert graded(raw={"health": health}) == 1.0


def test_a_machine_that_broke_is_not_pending() -> None:
    raw = {"health": "UNHEALTHY: app"}
    assert graded(passed=False, failure_mode="needs_reboot", raw=raw) == -0.2


FAILED_CHECKS = [
    "FAIL",
    "fail",
    "failed",
    "xccdf_example_rule_accounts_password_minlen = FAIL",
    "accounts_passwords_pam_faillock_audit: fail",
    "FAIL: Set the password hashing algorithm; sudo_remove_nopasswd",
    "Title\tEnsure passwords pass the complexity check\nRule\taccounts_password_pass_max_days\n"
    "Ident\tCCE-1\nResult\tfail",
    "title   limit password reuse\nrule    accounts_password_remember\nresult  fail\n",
    "Result: pass\nTitle\tThe same password rule, a second time\nResult: fail",
]
PASSED_CHECKS = [
    "pass",
    "PASS",
    "xccdf_example_rule_fail_delay = pass",
    "Title\tSet the failed logon delay\nRule\taccounts_logon_fail_delay\nResult\tpass",
    "PASS: accounts_passwords_pam_faillock_deny",
    "the word fail in the middle of a sentence proves nothing",
    "",
]


@pytest.mark.parametrize("rule_check", FAILED_CHECKS)
@pytest.mark.parametrize("passed", [True, False])
def test_a_failed_check_has_not_passed_whatever_its_rule_is_called(
    rule_check: str, passed: bool
) -> None:
    assert graded(passed=passed, raw={"health": "HEALTHY", "rule_check": rule_check}) == 0.0


@pytest.mark.parametrize("rule_check", PASSED_CHECKS)
def test_a_passed_check_has_not_failed_whatever_its_rule_is_called(rule_check: str) -> None:
    assert graded(raw={"health": "HEALTHY", "rule_check": rule_check}) == 1.0


@pytest.mark.parametrize(
    "token",
    ["error", "unknown", "notapplicable", "notchecked", "notselected", "informational"],
)
@pytest.mark.parametrize("passed", [True, False])
def test_a_check_that_was_not_made_is_no_outcome(token: str, passed: bool) -> None:
    rule_check = f"Rule\taccounts_password_minlen\nResult\t{token}"
    assert graded(passed=passed, raw={"rule_check": rule_check}) is None


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "filler",
    [
        "\t",
        " ",
        "\n",
        ":",
        "result ",
        "=\t",
        "- \n",
        "\x1b",
        "\x1b[",
        "\x1b[0 ",
        "\x1b]0;",
        "\x9b1",
        "\x1b(",
    ],
)
def test_hostile_raw_output_is_read_in_linear_time(filler: str) -> None:
    text = "result" + filler * 1_000_000
    assert graded(raw={"health": text, "rule_check": text}) == 1.0


COLOURS = {
    "colour": "\x1b[1;31m{}\x1b[0m",
    "colour by an older code": "\x9b31m{}\x9bm",
    "character set": "\x1b(B\x1b[m{}\x1b(B\x1b[m",
    "link": "\x1b]8;;http://scan.example/1\x1b\\{}\x1b]8;;\x07",
    "cleared line": "\r\x1b[K{}\x1b[K",
}


@pytest.mark.parametrize("colour", COLOURS)
def test_a_verdict_is_read_as_a_terminal_shows_it(colour: str) -> None:
    def coloured(word: str) -> str:
        return COLOURS[colour].format(word)

    assert graded(raw={"health": coloured("UNHEALTHY") + ": app"}) == -0.2
    assert graded(raw={"health": coloured("HEALTHY")}) == 1.0
    for line in ("Result\t{}", "some_rule = {}", "{}: some_rule", "{}"):
        assert graded(raw={"rule_check": line.format(coloured("fail"))}) == 0.0
        assert graded(raw={"rule_check": line.format(coloured("pass"))}) == 1.0
        assert graded(raw={"rule_check": line.format(coloured("error"))}) is None
    assert graded(raw={"summary": coloured("eval tool error: timed out")}) is None


def test_raw_fields_that_are_not_text_prove_nothing() -> None:
    for raw in ({"health": False}, {"health": ["UNHEALTHY"]}, {"rule_check": 0}, {}, None):
        assert graded(raw=raw) == 1.0


def test_an_unknown_skill_trusts_the_senders_grade_and_a_known_one_its_ladder() -> None:
    fields = {"number": 2, "sender_value": 0.37, "sender_confidence": 0.6}
    assert [graded(skill, **fields) for skill in SKILLS] == [0.8, 1.0, 0.37, 0.37]
    assert graded("default", passed=None, sender_value=0.4) == 0.4


def test_confidence_is_the_senders_unless_its_verdict_was_overruled() -> None:
    stig = load_skill(PROMPTS, "stig")
    agreed = Evaluation(number=1, passed=False, raw={"rule_check": "fail"}, sender_confidence=0.5)
    overruled = Evaluation(number=1, passed=True, raw={"rule_check": "fail"}, sender_confidence=0.5)
    assert grade(agreed, stig).confidence == 0.5
    assert grade(overruled, stig).confidence == stig.grading.confidence
    assert grade(Evaluation(number=1, passed=True), stig).confidence == 1.0


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1.5])
def test_a_grade_out_of_range_is_refused_by_name(number: float) -> None:
    with pytest.raises(ValueError, match="sender_value"):
        graded("default", sender_value=number)
    with pytest.raises(ValueError, match="sender_confidence"):
        graded("default", sender_confidence=number)


texts = st.one_of(st.text(max_size=40), st.sampled_from(UNHEALTHY + HEALTHY + FAILED_CHECKS))
evaluations = st.builds(
    Evaluation,
    number=st.integers(1, 200),
    passed=st.sampled_from([None, True, False]),
    failure_mode=st.sampled_from(["", "health_failure", "needs_reboot", "evaluator_error", "x"]),
    raw=st.none() | st.dictionaries(st.sampled_from(["health", "rule_check", "summary"]), texts),
    error=st.sampled_from(["", "boom"]),
    sender_value=st.none() | st.floats(-1.0, 1.0),
    sender_confidence=st.none() | st.floats(0.0, 1.0),
)


@given(evaluation=evaluations, skill=st.sampled_from(SKILLS))
def test_every_outcome_is_a_grade_in_range_or_has_a_reason(
    evaluation: Evaluation, skill: str
) -> None:
    outcome = grade(evaluation, load_skill(PROMPTS, skill))
    if outcome.value is None:
        assert outcome.confidence is None
        assert outcome.reason
    else:
        assert outcome.confidence is not None
        assert -1.0 <= outcome.value <= 1.0
        assert 0.0 <= outcome.confidence <= 1.0
        assert not outcome.reason
    assert outcome == grade(evaluation, load_skill(PROMPTS, skill))
