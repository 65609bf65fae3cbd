"""``manage.py check_run_log`` says what a log holds, and cannot be driven by what it holds.

Guarantees: exit status, counts, hazard table, JSON form, harmless output.
Does not guarantee: the layout of the table.
Shaped by: tips that contain terminal escapes.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from tests.contextgraph.runlogs.log_builder import LONG_TIP, RULE, Log, one_attempt

if TYPE_CHECKING:
    from pathlib import Path


def check(*args: Any) -> str:
    out = io.StringIO()
    call_command("check_run_log", *map(str, args), stdout=out)
    return out.getvalue()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    story = Log().start().tip(8, LONG_TIP).rule().whole_attempt(1, tips=[8], passed=False)
    story.attempt(2).prompt(2).call().result().evaluate(False, 0.5)
    story.verdict("deferred_verification", 2)
    story.event("post_deferred_evaluation", rule_id=RULE, passed=True)
    path.write_bytes(story.end().data())
    return path


def test_it_counts_what_the_log_holds(log: Path) -> None:
    said = json.loads(check(log, "--json"))
    (file,) = said["files"]
    (run,) = file["runs"]
    assert (file["format"], run["skill"], run["external_id"]) == (
        "events",
        "hardening",
        "20270301-080000",
    )
    counts = {name: run[name] for name in ("tips", "attempts", "passed", "failed", "unknown")}
    assert counts == {"tips": 1, "attempts": 2, "passed": 1, "failed": 1, "unknown": 0}
    assert (run["retrievals"], run["shown"], run["with_script"]) == (1, 1, 2)
    (hazard,) = run["hazards"]
    assert (hazard["code"], hazard["count"], hazard["first_line"]) == ("tip_shown_cut", 1, 5)


def test_it_explains_each_hazard_to_a_reader(log: Path) -> None:
    text = check(log)
    assert "tip_shown_cut" in text
    assert "the agent saw only the beginning" in text
    assert "2 attempts: 1 passed, 1 failed, 0 without outcome" in text


def test_a_log_without_hazards_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(one_attempt().data())
    assert "no hazards" in check(path)


def test_an_unreadable_file_is_an_error_and_the_others_are_still_checked(
    log: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    out = io.StringIO()
    with pytest.raises(CommandError, match="2 of 3 files cannot be read"):
        call_command(
            "check_run_log", str(empty), str(tmp_path / "absent"), str(log), "--json", stdout=out
        )
    first, second, third = json.loads(out.getvalue())["files"]
    assert "empty" in first["error"]
    assert "No such file" in second["error"]
    assert "error" not in third


def test_options_reach_the_reader(tmp_path: Path) -> None:
    path, side = tmp_path / "night.jsonl.gz", tmp_path / "side.jsonl"
    script = "true # ".ljust(200, "x")
    log = Log().start(run_id=None, skill=None).rule().whole_attempt(script=script)
    path.write_bytes(log.data())
    side.write_text(json.dumps({"rule_id": RULE, "attempt": 1, "script": script + "\ntrue"}) + "\n")
    said = check(path, "--json", "--skill", "hardening", "--side-file", side, "--format", "events")
    (run,) = json.loads(said)["files"][0]["runs"]
    assert (run["skill"], run["external_id"]) == ("hardening", "night")
    assert (run["with_script"], run["script_truncated"]) == (1, 0)


def test_nothing_in_a_log_can_drive_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    log = Log().start(run_id="a\x1b[2Jb\N{RIGHT-TO-LEFT OVERRIDE}[red]c").rule().whole_attempt()
    path.write_bytes(log.end().data())
    text = check(path)
    assert "\x1b" not in text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert "[red]c" in text
