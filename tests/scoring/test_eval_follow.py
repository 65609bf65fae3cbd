"""`eval_follow`: a view of the calibration engine without database; bad input has its exit code."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command

from tests.scoring.test_labelled_pairs import row

if TYPE_CHECKING:
    from pathlib import Path


def test_it_reports_the_trace_as_json(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        f"{row()}\n{row(script='dnf remove lynx', followed=False, kind='b')}\n", encoding="utf-8"
    )
    out = StringIO()
    call_command("eval_follow", path, "--json", "--signal", "trace", stdout=out)
    overall = json.loads(out.getvalue())["signals"]["trace"][0]
    assert overall == {
        "kind": "all", "n": 2, "followed": 1, "borrowed": False, "auc": 1.0, "auc_decided": 1.0,
        "accuracy_decided": 1.0, "accuracy_all": 1.0, "coverage": 1.0,
    }  # fmt: skip


def test_it_prints_a_table_with_every_kind_and_obeys_none(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    hostile = row(tip="be good", kind="vague\x1b[2J[red]")
    path.write_text(f"{row()}\n{hostile}\n", encoding="utf-8")
    out = StringIO()
    call_command("eval_follow", path, "--signal", "trace", stdout=out)
    assert "vague\\x1b[2J[red]" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_it_refuses_bad_input_with_its_own_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text("{\n", encoding="utf-8")
    with pytest.raises(CommandError, match="line 1") as refused:
        call_command("eval_follow", path, stdout=StringIO())
    assert refused.value.returncode == 2
    with pytest.raises(CommandError, match="No such file"):
        call_command("eval_follow", tmp_path / "absent", stdout=StringIO())
