"""Figures of agreement: defined where they can be, absent where they cannot; bad files are refused."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command

from scoring.evaluation import LabelledPair, PairFileError, Scored, agreement, read_pairs

if TYPE_CHECKING:
    from pathlib import Path


def pair(*, followed: bool, kind: str = "k") -> LabelledPair:
    return LabelledPair(tip="t", script="s", followed=followed, kind=kind, line=1)


def scored(score: float | None) -> Scored:
    return Scored(score=score, followed=None if score is None else score >= 0.5)


def row(**fields: object) -> str:
    values: dict[str, object] = {
        "tip": "$ sudo dnf install lynx",
        "script": "dnf install lynx",
        "followed": True,
        "kind": "a",
    }
    return json.dumps(values | fields)


def test_a_perfect_ranking_has_auc_one_and_a_reversed_one_zero() -> None:
    pairs = [pair(followed=True), pair(followed=False)]
    assert agreement(pairs, [scored(0.9), scored(0.1)])[0].auc == 1.0
    assert agreement(pairs, [scored(0.1), scored(0.9)])[0].auc == 0.0


def test_abstentions_rank_in_the_middle_and_count_as_wrong() -> None:
    pairs = [pair(followed=True), pair(followed=False), pair(followed=True)]
    overall = agreement(pairs, [scored(0.9), scored(0.1), scored(None)])[0]
    assert (overall.auc, overall.auc_decided) == (1.0, 1.0)
    assert overall.accuracy_decided == 1.0
    assert overall.accuracy_all == pytest.approx(2 / 3)
    assert overall.coverage == pytest.approx(2 / 3)


def test_a_kind_of_one_label_borrows_the_other_label_and_says_so() -> None:
    pairs = [
        pair(followed=True, kind="good"),
        pair(followed=False, kind="bad"),
        pair(followed=False, kind="worse"),
    ]
    _, bad, good, worse = agreement(pairs, [scored(0.6), scored(0.7), scored(0.1)])
    assert (bad.kind, bad.auc, bad.borrowed, bad.n) == ("bad", 0.0, True, 1)
    assert (worse.kind, worse.auc) == ("worse", 1.0)
    assert (good.kind, good.auc) == ("good", 0.5)


def test_figures_without_a_meaning_are_absent() -> None:
    overall = agreement([pair(followed=True)], [scored(None)])[0]
    assert (overall.auc, overall.auc_decided, overall.accuracy_decided) == (None, None, None)


def test_scores_must_match_the_pairs() -> None:
    with pytest.raises(ValueError, match="1 pairs but 0 scores"):
        agreement([pair(followed=True)], [])


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        (row(tip=None), "`tip` must be a text"),
        (row(followed=None), "`followed` must be true or false"),
        (row(followed="yes"), "`followed` must be true or false"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path: Path, bad: str, named: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(f"{row()}\n\n{bad}\n", encoding="utf-8")
    with pytest.raises(PairFileError, match=f"line 3: {named}"):
        read_pairs(path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(PairFileError, match="no labelled pairs"):
        read_pairs(path)


def test_the_command_reports_the_trace_as_json(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        f"{row()}\n{row(script='dnf remove lynx', followed=False, kind='b')}\n", encoding="utf-8"
    )
    out = StringIO()
    call_command("eval_follow", path, "--json", "--signal", "trace", stdout=out)
    report = json.loads(out.getvalue())
    overall = report["signals"]["trace"][0]
    assert (overall["kind"], overall["n"], overall["auc"], overall["accuracy_all"]) == (
        "all",
        2,
        1.0,
        1.0,
    )


def test_the_command_prints_a_table_with_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(f"{row()}\n{row(tip='be good', kind='vague')}\n", encoding="utf-8")
    out = StringIO()
    call_command("eval_follow", path, "--signal", "trace", stdout=out)
    assert "vague" in out.getvalue()


def test_the_command_refuses_bad_input_with_its_own_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text("{\n", encoding="utf-8")
    with pytest.raises(CommandError, match="line 1") as refused:
        call_command("eval_follow", path, stdout=StringIO())
    assert refused.value.returncode == 2
    with pytest.raises(CommandError, match="No such file"):
        call_command("eval_follow", tmp_path / "absent", stdout=StringIO())
