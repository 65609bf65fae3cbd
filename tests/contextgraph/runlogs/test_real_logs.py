"""The readers on real input, where it lies beside the checkout.

Guarantees: the counts that the data's own description gives.
Does not guarantee: anything when the data is absent; the tests then say so.
Shaped by: a derived run of 1,481 attempts, and the two runs that ADR-0019 argues from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.contextgraph.runlogs.log_builder import Read

if TYPE_CHECKING:
    from pathlib import Path


def test_the_derived_stig_run_is_read_whole(shared_data: Path) -> None:
    read = Read((shared_data / "stig_rhel9_run.jsonl").read_bytes())
    assert len(read.tips) == 458
    assert len(read.attempts) == 1481
    assert sum(len(attempt.retrievals) for attempt in read.attempts) == 7405
    assert sum(attempt.passed is True for attempt in read.attempts) == 457
    assert all(attempt.script for attempt in read.attempts)
    assert set(read.hazards) == {"call_without_result"}


def test_the_crypto_case_has_one_script_per_run(shared_data: Path) -> None:
    outcomes = {}
    for path in sorted((shared_data / "crypto_case").glob("*.jsonl")):
        read = Read(path.read_bytes())
        outcomes[path.stem] = [(a.number, a.passed, a.script is not None) for a in read.attempts]
        assert {len(attempt.retrievals) for attempt in read.attempts} == {5}
    assert outcomes == {
        "run-20260418-173522": [(1, False, False), (2, True, True)],
        "run-20260520-120000": [(1, False, True), (2, False, False), (3, False, False)],
    }
