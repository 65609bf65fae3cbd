"""The direction of imports is a contract, not a habit; import-linter reads it from pyproject.toml."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
ROOMS = ("contextgraph", "memory", "scoring")


def sources() -> list[Path]:
    return [
        path
        for room in ROOMS
        for path in (CHECKOUT / room).rglob("*.py")
        if "migrations" not in path.parts
    ]


def test_every_arrow_points_down() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports"))]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_chords_are_built_in_one_file() -> None:
    builders = {path.name for path in sources() if "import chord" in path.read_text()}
    assert builders == {"pipeline.py"}


def test_files_stay_under_400_lines() -> None:
    long = {path.name: n for path in sources() if (n := len(path.read_text().splitlines())) > 400}
    assert long == {}


def test_every_file_opens_with_a_docstring() -> None:
    bare = [
        path
        for path in sources()
        if (text := path.read_text()).strip() and not text.startswith('"""')
    ]
    assert bare == []
