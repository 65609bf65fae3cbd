"""What every property test is run with: no clock that a busy machine can fail, and no luck in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SHOW = (
    "import tests.conftest; from hypothesis import HealthCheck, settings; s = settings(); "
    "print(s.deadline, s.derandomize, HealthCheck.too_slow in s.suppress_health_check)"
)


@pytest.mark.parametrize(("ci", "expected"), [("true", "None True True"), ("", "None False True")])
def test_the_examples_are_the_same_in_ci_and_no_clock_decides(ci: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        cwd=CHECKOUT, env=os.environ | {"CI": ci}, capture_output=True, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == expected
