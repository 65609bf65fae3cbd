"""The side file gives what the log lacks, and cannot replace what the log has.

Guarantees: full scripts and tip texts are found by rule, attempt and how they begin.
Does not guarantee: the truth of a text without a counterpart.
Shaped by: logs of cut scripts whose full texts lie in another table.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from contextgraph.runlogs import RunLogError
from tests.contextgraph.runlogs.log_builder import LONG_TIP, RULE, Log, Read, one_attempt

CUT = "install -m 600 /dev/null /etc/at.allow; ".ljust(200, "#")
WHOLE = CUT + "\nchown root /etc/at.allow\n"


def side(*entries: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def script(text: str, attempt: int = 1) -> dict[str, Any]:
    return {"rule_id": RULE, "attempt": attempt, "script": text}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_cut_script_is_completed(pack: Any) -> None:
    read = Read(one_attempt(script=CUT), side_file=pack(side(script("x", 2), script(WHOLE))))
    assert (read.attempt.script, read.attempt.script_truncated) == (WHOLE, False)
    assert read.hazards == {}


def test_a_script_of_another_run_is_not_taken() -> None:
    read = Read(one_attempt(script=CUT), side_file=side(script("rm -rf /")))
    assert (read.attempt.script, read.attempt.script_truncated) == (CUT, True)
    assert read.hazards == {"side_file_differs": 1, "script_cut": 1}


def test_a_script_missing_from_the_log_is_supplied() -> None:
    log = Log().start().rule().attempt().prompt().evaluate().verdict().end()
    read = Read(log, side_file=side(script(WHOLE)))
    assert read.attempt.script == WHOLE
    assert read.hazards == {}


def test_a_rule_taken_up_again_gets_the_script_that_fits() -> None:
    other = "touch /etc/at.allow; ".ljust(200, "#")
    log = Log().start().rule().whole_attempt(script=CUT, passed=False)
    log.rule().whole_attempt(script=other).end()
    read = Read(log, side_file=side(script(other + "\ntrue"), script(WHOLE)))
    assert [attempt.script for attempt in read.attempts] == [WHOLE, other + "\ntrue"]


def test_a_tip_of_an_earlier_run_comes_out_with_its_text_once() -> None:
    log = Log().start().rule().whole_attempt(1, tips=[99], passed=False).whole_attempt(2, tips=[99])
    read = Read(log.end(), side_file=side({"tip": 99, "text": LONG_TIP, "tip_type": "recovery"}))
    (tip,) = read.tips
    assert (tip.tip, tip.text, tip.tip_type) == ("99", LONG_TIP, "recovery")
    for attempt in read.attempts:
        assert attempt.retrievals[0].shown_text == LONG_TIP[:150]
    assert read.hazards == {"tip_shown_cut": 2}


def test_tips_that_the_run_never_met_stay_in_the_side_file() -> None:
    assert Read(one_attempt(), side_file=side({"tip": 5, "text": "unused"})).tips == []


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (b"{nonsense\n", "line 1: not JSON"),
        (b'{"tip": true, "text": "x"}\n', "line 1: neither"),
        (b'{"tip": 1}\n', "line 1: neither"),
        (b'\n{"rule_id": "r", "attempt": "1", "script": "x"}\n', "line 2: neither"),
        (b"", "side file: the file is empty"),
        (gzip.compress(b'{"tip": 1, "text": "x"}\n' * 99, mtime=0)[:40], "side file: .*incomplete"),
    ],
)
def test_a_wrong_side_file_is_refused_by_line(line: bytes, cause: str) -> None:
    with pytest.raises(RunLogError, match=cause):
        Read(one_attempt(), side_file=line)
