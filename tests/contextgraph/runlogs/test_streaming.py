"""A long log is read in constant memory, and one endless line does not fill it.

Guarantees: the peak of Python's allocations while reading 30 MB stays far below the file's size.
Does not guarantee: anything about the memory of whoever keeps the records.
Shaped by: 30 MB logs of 19-hour runs, read by a parser that loaded them whole.
"""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING

from contextgraph.runlogs import open_run_log
from contextgraph.runlogs.lines import MAX_LINE
from tests.contextgraph.runlogs.log_builder import Log

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 30_000_000
BOUND = 6_000_000


def peak_while_reading(path: Path) -> tuple[int, Counter[str]]:
    """Peak of traced allocations in bytes, and records by kind."""
    kinds: Counter[str] = Counter()
    with path.open("rb") as stream:
        tracemalloc.start()
        try:
            for record in open_run_log(stream).records():
                kinds[type(record).__name__] += 1
            return tracemalloc.get_traced_memory()[1], kinds
        finally:
            tracemalloc.stop()


def test_a_30_mb_event_log_is_read_in_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    script = "sysctl -w net.ipv4.ip_forward=0 # " + "x" * 30_000
    body = Log().whole_attempt(1, passed=False, script=script, tips=[1, 2, 3])
    body.tip("@", "Set it in a drop-in. " * 200)
    attempt = b"".join(body.lines)
    with path.open("wb") as file:
        file.write(b"".join(Log().start().rule().lines))
        for number in itertools.count(1):
            file.write(attempt.replace(b'"@"', b"%d" % number))
            if file.tell() > SIZE:
                break
        file.write(b"".join(Log().end().lines))
    peak, kinds = peak_while_reading(path)
    assert kinds["AttemptEntry"] == kinds["TipEntry"] == number
    assert peak < BOUND


def test_a_30_mb_envelope_is_read_in_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    entry = {"rule_id": "r", "script": "x" * 30_000, "retrievals": [{"tip": 1, "rank": 1}]}
    with path.open("w") as file:
        file.write('{"attempts": [')
        for number in range(1, SIZE // 30_000):
            file.write(("," if number > 1 else "") + json.dumps(entry | {"number": number}))
        header = {"skill": "s", "external_id": "e", "started_at": "2027-03-01T08:00:00Z"}
        file.write('], "schema": "contextgraph.run/1", "run": ' + json.dumps(header) + "}")
    peak, kinds = peak_while_reading(path)
    assert kinds["AttemptEntry"] == number
    assert peak < BOUND


def test_an_endless_line_is_passed_over_without_being_held(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with path.open("wb") as file:
        file.write(b"".join(Log().start().rule().whole_attempt().lines))
        file.writelines([b"y" * 1_000_000] * 60)
        file.write(b"\n" + b"".join(Log().end().lines))
    peak, kinds = peak_while_reading(path)
    assert kinds["AttemptEntry"] == 1
    assert peak < 3 * MAX_LINE
