"""Which text is the script, and when is it not all of it?

Guarantees: every tool of the known skills, and every way in which a log says that it cut a script.
Does not guarantee: that an uncut script ran.
Shaped by: judgments made on the first 200 characters of scripts.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.contextgraph.runlogs.log_builder import Log, Read

if TYPE_CHECKING:
    from contextgraph.envelope import AttemptEntry

CUT = "install -m 600 /dev/null /etc/at.allow; ".ljust(200, "#")
WHOLE = CUT + "\nchown root /etc/at.allow\n"


def run(tool: str, **args: Any) -> AttemptEntry:
    log = Log().start().rule().attempt().prompt().tool(tool, **args).result()
    return Read(log.evaluate().verdict().end()).attempt


@pytest.mark.parametrize(
    ("tool", "args", "script"),
    [
        ("apply_fix", {"fix_script": "true", "revert_script": "false"}, "true"),
        ("apply_rule_change", {"rule_id": "r", "candidate_rule_yaml": "a: 1\n"}, "a: 1\n"),
        (
            "apply_cve_fix",
            {"description": "patch it", "advisory_id": "ADV-2027-1"},
            "apply_cve_fix advisory_id=ADV-2027-1",
        ),
        (
            "propose_exploit",
            {"worker_options": {"b": 2, "a": 1}, "cve_id": "CVE-2027-1", "target_port": 80},
            'propose_exploit cve_id=CVE-2027-1 target_port=80 worker_options={"a": 1, "b": 2}',
        ),
        ("apply_cve_fix", {"description": "nothing else"}, None),
        ("apply_fix", {"fix_script": "  "}, None),
        ("apply_fix", {"fix_script": 12}, None),
    ],
)
def test_each_tool_has_its_script(tool: str, args: dict[str, Any], script: str | None) -> None:
    assert run(tool, **args).script == script


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("args", "truncated"),
    [
        ({"fix_script": CUT}, True),
        ({"fix_script": CUT[:-1]}, False),
        ({"fix_script": WHOLE}, False),
        ({"fix_script": "true", "script_truncated": True}, True),
        ({"fix_script": CUT, "script_truncated": False}, False),
        ({"fix_script": CUT, "script_sha256": digest(CUT)}, False),
        ({"fix_script": CUT, "fix_script_sha256": "sha256:" + digest(WHOLE)}, True),
        ({"fix_script": CUT, "script_len": 200}, False),
        ({"fix_script": CUT, "fix_script_length": len(WHOLE)}, True),
        ({"fix_script": "true", "script_len": 9}, True),
        ({"fix_script": "echo é", "script_len": 7}, False),
        ({"fix_script": WHOLE, "script_sha256": digest("other")}, True),
    ],
)
def test_a_script_is_whole_only_if_nothing_says_otherwise(
    args: dict[str, Any], truncated: bool
) -> None:
    assert run("apply_fix", **args).script_truncated is truncated


def test_a_call_that_the_harness_refused_is_not_the_script() -> None:
    log = Log().start().rule().attempt().prompt().call("true").result()
    log.event("tool_call", agent="worker", capped=True, args={"fix_script": "false"})
    assert Read(log.evaluate().verdict().end()).attempt.script == "true"
