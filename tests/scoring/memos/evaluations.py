"""Runs the evaluation from a test, and spoils a copy of its cases."""

from __future__ import annotations

import io
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from scoring.memos.eval_data import BUNDLED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def evaluated(out: Path, **options: Any) -> dict[str, Any]:
    """Run the command; the report that it kept."""
    call_command("eval_memos", out=out, stdout=io.StringIO(), **options)
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def refused(out: Path, **options: Any) -> CommandError:
    with pytest.raises(CommandError) as caught:
        evaluated(out, **options)
    return caught.value


def copied(folder: Path) -> Path:
    """A copy of the bundled cases below ``folder``."""
    shutil.copytree(BUNDLED, folder / "cases")
    return folder / "cases"


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "cases.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    edit(found)
    path.write_text(json.dumps(found), encoding="utf-8")
