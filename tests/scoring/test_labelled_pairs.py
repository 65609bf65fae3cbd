"""Files of labelled pairs: bad rows are all named, none is used; pairs of a rule stay together."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from scoring.labelled_pairs import PairFileError, read_pairs

if TYPE_CHECKING:
    from pathlib import Path


def row(**fields: object) -> str:
    values: dict[str, object] = {
        "tip": "$ sudo dnf install lynx",
        "script": "dnf install lynx",
        "followed": True,
        "kind": "a",
    }
    return json.dumps(values | fields)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        (row(tip=None), "`tip` must be a text"),
        (row(followed=None), "`followed` must be true or false"),
        (row(followed="yes"), "`followed` must be true or false"),
        (row(rule_id=7), "`rule_id` must be a text"),
        ("[" * 100_000, "not JSON"),
        ("9" * 5_000, "not JSON"),
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


def test_pairs_without_a_rule_are_grouped_by_their_tip(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(f"{row(rule_id='r1')}\n{row()}\n{row(script='ls')}\n", encoding="utf-8")
    file = read_pairs(path)
    assert [pair.rule for pair in file.pairs] == ["r1", *["$ sudo dnf install lynx"] * 2]
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
