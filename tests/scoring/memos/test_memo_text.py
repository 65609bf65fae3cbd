"""A memo in the terminal: every figure's source, also of those from which it was computed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scoring.memos.cache import Way
from scoring.memos.facts import Snapshot, derived, fact
from scoring.memos.facts_formula import Formula
from scoring.memos.gate import check
from scoring.memos.memo_result import result_of
from scoring.memos.memo_text import memo_lines
from tests.scoring.memos.snapshots import cited

if TYPE_CHECKING:
    from scoring.memos.memo_result import MemoResult

GOOD = fact("earned", "count", 3, provenance=("rows?kind=earned",))
BAD = fact("misled", "count", 1, provenance=("rows?kind=misled",))
BOTH = derived("graded", "count", Formula.SUM, (GOOD, BAD))
SHARE = derived("share misled", "percent", Formula.PERCENT_OF, (BAD, BOTH))
OTHER = fact("shown", "count", 9, provenance=("rows?kind=shown",))
SNAPSHOT = Snapshot("run", "run-7", None, (OTHER, SHARE, BOTH, GOOD, BAD))


def made(text: str) -> MemoResult:
    text = cited(text, SNAPSHOT)
    return result_of(text, SNAPSHOT, Way("human", "writer"), check(text, SNAPSHOT), verdict=None)


def sources(result: MemoResult) -> dict[str, str]:
    """Label -> its line among the sources, in their order."""
    lines = list(memo_lines(result))
    block = lines[lines.index("Sources") + 1 :]
    found = [re.fullmatch(r"  \[F\d+\] (.+?) = .*", line) for line in block[: block.index("")]]
    assert all(found)
    return {hit[1]: hit[0] for hit in found if hit}


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("The share misled is 25% {share misled}.", {"share misled", "misled", "graded", "earned"}),
        ("There were 4 graded {graded}.", {"graded", "earned", "misled"}),
        ("There were 9 shown {shown}.", {"shown"}),
        ("Nothing is said.", set()),
    ],
)
def test_a_derived_figure_has_its_inputs_beside_it_down_to_rows(
    text: str, labels: set[str]
) -> None:
    assert set(sources(made(text))) == labels


def test_every_input_that_a_line_names_has_a_line_of_its_own() -> None:
    result = made("The share misled is 25% {share misled}.")
    lines = sources(result)
    refs = [re.match(r"  \[(F\d+)\]", line) for line in lines.values()]
    shown = [hit[1] for hit in refs if hit]
    assert shown == sorted(shown, key=lambda ref: int(ref[1:]))
    for line in lines.values():
        for ref in re.findall(r"F\d+", line.rpartition("(")[2]):
            assert ref in shown
    assert "rows?kind=misled" in lines["misled"]


def test_a_request_that_was_not_met_says_so_in_a_line() -> None:
    result = made("There were 9 shown {shown}.")
    assert not [line for line in memo_lines(result) if line.startswith("High stakes")]
    lines = list(memo_lines(replace(result, unmet="nobody was asked\u202e\nat all")))
    (line,) = [line for line in lines if line.startswith("High stakes")]
    assert line.startswith("High stakes: not met, nobody was asked")
    assert "\u202e" not in line and "\n" not in line
